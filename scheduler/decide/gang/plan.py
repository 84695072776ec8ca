"""Plans a gang: nodes for as many members as have to start together, or the reasons why not.

The members are placed one by one on a what-if view. The view is dropped if the plan fails, so the
cluster never holds half a gang. No I/O, no clock, no randomness.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence

import msgspec

from scheduler.decide.gang.gang_plan import GangPlan
from scheduler.decide.gang.in_domains import InDomains
from scheduler.decide.gang.incomplete import why_incomplete
from scheduler.decide.gang.rank import Place, class_of, in_rank_order, largest_first, nowhere
from scheduler.decide.gang.region_search import RegionSearch
from scheduler.decide.schedule_one import schedule_one
from scheduler.decide.view import WhatIfView, stronger
from scheduler.framework.budget import Budget
from scheduler.framework.decision import Decision, Placement, Rejection
from scheduler.framework.pipeline import Pipeline
from scheduler.model.pods.pod import Pod
from scheduler.model.reasons.reason import Diagnosis
from scheduler.state.cache.cluster import Cluster
from scheduler.state.gangs.gang import Gang

__all__ = ["GangPlan", "budget_of", "plan_gang"]


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
    need = gang.need
    if need is None or not 0 < need <= len(waiting):
        reason = why_incomplete(gang)
        return Rejection(
            pod=waiting[0], diagnosis=Diagnosis(total=len(cluster.nodes), general=reason)
        )
    if gang.topology is None:
        return _planned(_Plan(cluster, waiting, pipeline, work), gang, need)
    limit, view = work.limit, room_for(cluster, waiting)
    domains = InDomains(cluster, view, gang, waiting, pipeline, work)

    def plan(region: RegionSearch | None) -> GangPlan | Rejection:
        own = Budget(limit)
        found = _planned(
            _Plan(cluster, waiting, pipeline, own, region), gang, need, domains.place_of
        )
        work.spend(own.spent)
        return found

    return domains.best(plan)


def budget_of(waiting: Sequence[Pod], pipeline: Pipeline) -> Budget:
    """The steps of one plan: those of a decision for each member."""
    return Budget(pipeline.decision_steps_max * max(1, len(waiting)))


def room_for(cluster: Cluster, pods: Sequence[Pod]) -> WhatIfView:
    """The view of a gang's plan: nominated pods keep their room; those of the gang itself are
    placed by the plan.
    """
    view = WhatIfView(cluster)
    if cluster.nominated:
        weakest = min(pods, key=lambda pod: pod.priority)
        own = {pod.uid for pod in pods}
        held = stronger(cluster.nominated, weakest)
        view.hold(pod for pod in held if pod.uid not in own)
    return view


def _planned(
    plan: _Plan, gang: Gang, need: int, place_of: Callable[[str], Place] = nowhere
) -> GangPlan | Rejection:
    plan.place_all(need)
    if len(plan.placements) < need:
        return plan.rejection(gang, need)
    return plan.result(place_of)


class _Plan:
    """The members that have a place on the view so far, and those that have none."""

    def __init__(
        self,
        cluster: Cluster,
        waiting: Sequence[Pod],
        pipeline: Pipeline,
        work: Budget,
        region: RegionSearch | None = None,
    ) -> None:
        self._cluster = cluster
        self._pods = largest_first(waiting)
        self._pipeline = pipeline
        self._work = work
        self._region = region
        self._view = room_for(cluster, waiting)
        self.placements: list[Placement] = []
        self.rejected: list[Rejection] = []

    def place_all(self, need: int) -> None:
        """Place every member that fits; end as soon as the need cannot be met any more.

        A member with terms about other pods is tried again after the others: it may have to be near
        one of them.
        """
        pods = self._pods
        while pods:
            before = len(self.placements)
            self._place_each(pods, need)
            if len(self.placements) == before:
                return
            pods = [one.pod for one in self.rejected if one.pod.term_count]
            self.rejected = [one for one in self.rejected if not one.pod.term_count]

    def _place_each(self, pods: Sequence[Pod], need: int) -> None:
        refused: dict[Hashable, Rejection] = {}
        for at, pod in enumerate(pods):
            again = sum(1 for one in self.rejected if one.pod.term_count)
            if len(self.placements) + len(pods) - at + again < need:
                return
            kind = class_of(self._cluster, pod, self._pipeline)
            known = refused.get(kind) if kind is not None else None
            if known is not None:  # the view only got fuller
                self.rejected.append(msgspec.structs.replace(known, pod=pod))
                continue
            decision = self._decide(pod, kind)
            if isinstance(decision, Placement):
                self._view.place_decided(decision)
                self.placements.append(decision)
                continue
            self.rejected.append(decision)
            if kind is not None:
                refused[kind] = decision

    def _decide(self, pod: Pod, kind: Hashable | None) -> Decision:
        if self._region is None:
            return schedule_one(self._view, pod, self._pipeline, self._work)
        return self._region.decide(self._view, pod, kind, self._pipeline, self._work)

    def result(self, place_of: Callable[[str], Place]) -> GangPlan:
        """The plan; ``place_of`` is the order of the nodes."""
        ranked = in_rank_order(self._cluster, self.placements, self._pipeline, place_of)
        return GangPlan(ranked, tuple(self.rejected))

    def rejection(self, gang: Gang, need: int) -> Rejection:
        """The reasons of the first member that has no place, with how far the plan came."""
        first = self.rejected[0]
        placed = len(self.placements)
        started = f" beside {len(gang.placed)} with a node" if gang.is_started else ""
        text = (
            f"group {gang.key.name}: {placed} of the {need} members that have to be placed"
            f" together fit{started}; {first.pod.name} does not."
        )
        return msgspec.structs.replace(first, diagnosis=first.diagnosis.with_post_filter(text))
