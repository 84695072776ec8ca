"""Plans a gang: nodes for as many members as have to start together, or the reasons why not.

The members are placed one by one on a what-if view. The view is dropped if the plan fails, so the
cluster never holds half a gang. No I/O, no clock, no randomness.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import msgspec

from scheduler.decide.gang.attempt import Attempt, view_beside
from scheduler.decide.gang.capacity import shortage
from scheduler.decide.gang.gang_plan import GangPlan
from scheduler.decide.gang.in_domains import InDomains, Plan
from scheduler.decide.gang.incomplete import why_incomplete
from scheduler.decide.gang.need import Need
from scheduler.decide.gang.rank import Place, in_rank_order, nowhere
from scheduler.decide.gang.region_search import FindNode, RegionSearch
from scheduler.decide.schedule_one import schedule_one
from scheduler.framework.budget import Budget
from scheduler.framework.decision import Rejection
from scheduler.framework.pipeline import Pipeline
from scheduler.model.pods.pod import Pod
from scheduler.model.reasons.reason import Diagnosis
from scheduler.state.cache.cluster import Cluster
from scheduler.state.gangs.gang import Gang

__all__ = ["GangPlan", "Planning", "budget_of", "plan_gang"]


def plan_gang(
    cluster: Cluster,
    gang: Gang,
    waiting: Sequence[Pod],
    pipeline: Pipeline,
    work: Budget | None = None,
) -> GangPlan | Rejection:
    """The plan of the members that wait, or the reason why none of them gets a node.

    The rejection is of one member, and holds for all of them. ``work`` counts the steps of all
    members.
    """
    work = work or budget_of(waiting, pipeline)
    need = Need.of(gang, waiting)
    if need is None:
        reason = why_incomplete(gang)
        return Rejection(
            pod=waiting[0], diagnosis=Diagnosis(total=len(cluster.nodes), general=reason)
        )
    # A level of the topology has reasons of its own.
    short = shortage(cluster, waiting, need, pipeline, work) if gang.topology is None else None
    if short is not None:
        return _rejection(short.rejection, short.placed, gang, need)
    if cluster.nominated:
        waiting = [_with_own_node(cluster, pod) for pod in waiting]
    return Planning(cluster, gang, waiting, need, pipeline, work).plan()


class Planning:
    """Places members of a gang: anywhere, or in the best domain of the level that it requests."""

    def __init__(
        self,
        cluster: Cluster,
        gang: Gang,
        waiting: Sequence[Pod],
        need: Need,
        pipeline: Pipeline,
        work: Budget,
        find: FindNode = schedule_one,
    ) -> None:
        self._cluster = cluster
        self._gang = gang
        self._waiting = waiting
        self._need = need
        self._pipeline = pipeline
        self._work = work
        self._find = find

    def plan(self) -> GangPlan | Rejection:
        """All members that fit."""
        return self._in_best_domain(Attempt.place_all, ())

    def plan_needed(self, without: Sequence[tuple[Pod, str]]) -> GangPlan | None:
        """Only the members that have to be placed together, where these pods have left their
        nodes; None if they do not fit.
        """
        found = self._in_best_domain(Attempt.place_needed, without)
        return found if isinstance(found, GangPlan) else None

    def plans_needed(self, without: Sequence[tuple[Pod, str]]) -> Iterator[GangPlan]:
        """The same in each of several domains that are equally near."""
        if self._gang.topology is None:
            found = self._try(Attempt.place_needed, without, self._work)
            if isinstance(found, GangPlan):
                yield found
            return
        domains, plan = self._domains(Attempt.place_needed, without)
        yield from domains.nearest(plan, domains.rooms(view_beside(self._cluster, self._waiting)))

    def _in_best_domain(
        self, place: Callable[[Attempt], None], without: Sequence[tuple[Pod, str]]
    ) -> GangPlan | Rejection:
        if self._gang.topology is None:
            return self._try(place, without, self._work)
        domains, plan = self._domains(place, without)
        return domains.best(plan)

    def _domains(
        self, place: Callable[[Attempt], None], without: Sequence[tuple[Pod, str]]
    ) -> tuple[InDomains, Plan]:
        view = view_beside(self._cluster, self._waiting, without)
        domains = InDomains(
            self._cluster, view, self._gang, self._waiting, self._pipeline, self._work
        )

        def plan(region: RegionSearch | None) -> GangPlan | Rejection:
            own = Budget(self._work.limit)
            found = self._try(place, without, own, region, domains.place_of)
            self._work.spend(own.spent)
            return found

        return domains, plan

    def _try(
        self,
        place: Callable[[Attempt], None],
        without: Sequence[tuple[Pod, str]],
        work: Budget,
        region: RegionSearch | None = None,
        place_of: Callable[[str], Place] = nowhere,
    ) -> GangPlan | Rejection:
        view = view_beside(self._cluster, self._waiting, without)
        attempt = Attempt(
            *(self._cluster, view, self._waiting, self._need, self._pipeline, work),
            find=self._find,
            region=region,
        )
        place(attempt)
        if not attempt.is_enough:
            return _rejection(attempt.refusal, attempt.met, self._gang, self._need)
        ranked = in_rank_order(self._cluster, attempt.placements, self._pipeline, place_of)
        return GangPlan(ranked, tuple(attempt.rejected))


def budget_of(waiting: Sequence[Pod], pipeline: Pipeline) -> Budget:
    """The steps of one plan: those of a decision for each member."""
    return Budget(pipeline.decision_steps_max * max(1, len(waiting)))


def _rejection(first: Rejection, placed: int, gang: Gang, need: Need) -> Rejection:
    """The reasons of a member that has no place, with how many have one."""
    started = f" beside {len(gang.placed)} with a node" if gang.is_started else ""
    text = (
        f"group {gang.key.name}: {placed} of the {need.count} members that have to be placed"
        f" together fit{started}; {first.pod.name} does not."
    )
    return msgspec.structs.replace(first, diagnosis=first.diagnosis.with_post_filter(text))


def _with_own_node(cluster: Cluster, pod: Pod) -> Pod:
    """A member for which room was made goes there; where it only reserves, any node will do."""
    is_reserved = cluster.nominations.is_reserved(pod.uid)
    return pod if is_reserved else cluster.nominated.get(pod.uid, pod)
