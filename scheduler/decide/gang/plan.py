"""Plans a gang: nodes for as many members as have to start together, or the reasons why not.

The members are placed one by one on a what-if view. The view is dropped if the plan fails, so the
cluster never holds half a gang. No I/O, no clock, no randomness.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from scheduler.decide.gang.attempt import Attempt, view_beside
from scheduler.decide.gang.capacity import shortage
from scheduler.decide.gang.incomplete import why_incomplete
from scheduler.decide.gang.need import Need
from scheduler.decide.gang.rank import in_rank_order
from scheduler.framework.budget import Budget
from scheduler.framework.decision import Placement, Rejection
from scheduler.framework.pipeline import Pipeline
from scheduler.model.pods.pod import Pod
from scheduler.model.reasons.reason import Diagnosis
from scheduler.state.cache.cluster import Cluster
from scheduler.state.gangs.gang import Gang


class GangPlan(msgspec.Struct, frozen=True):
    """``placements`` are to be bound together; ``left`` are the members for which there is no room,
    and which the gang does not need.
    """

    placements: tuple[Placement, ...]
    left: tuple[Rejection, ...] = ()


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
    short = shortage(cluster, waiting, need, pipeline, work)
    if short is not None:
        return _rejection(short.rejection, short.placed, gang, need)
    if cluster.nominated:
        waiting = [_with_own_node(cluster, pod) for pod in waiting]
    attempt = Attempt(cluster, view_beside(cluster, waiting), waiting, need, pipeline, work)
    attempt.place_all()
    if not attempt.is_enough:
        return _rejection(attempt.refusal, attempt.met, gang, need)
    placements = in_rank_order(cluster, attempt.placements, pipeline)
    return GangPlan(placements, tuple(attempt.rejected))


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
