"""Plans a gang: nodes for as many members as have to start together, or the reasons why not.

The members are placed one by one on a what-if view. The view is dropped if the plan fails, so the
cluster never holds half a gang. No I/O, no clock, no randomness.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Mapping, Sequence

import msgspec

from scheduler.decide.gang.incomplete import why_incomplete
from scheduler.decide.gang.rank import (
    class_of,
    in_rank_order,
    largest_first,
    required_first,
)
from scheduler.decide.schedule_one import schedule_one
from scheduler.decide.view import WhatIfView, stronger
from scheduler.framework.budget import Budget
from scheduler.framework.decision import Placement, Rejection
from scheduler.framework.pipeline import Pipeline
from scheduler.model.pods.pod import Pod
from scheduler.model.reasons.reason import Diagnosis
from scheduler.state.cache.cluster import Cluster
from scheduler.state.gangs.gang import Gang, role_of


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
    need = gang.need
    if need is None or not 0 < need <= len(waiting) or not _has_roles(gang, waiting):
        reason = why_incomplete(gang)
        return Rejection(
            pod=waiting[0], diagnosis=Diagnosis(total=len(cluster.nodes), general=reason)
        )
    plan = _Plan(cluster, required_first(largest_first(waiting), gang.needs), pipeline, work)
    plan.place_all(need)
    if len(plan.placements) < need or plan.short_role(gang):
        return plan.rejection(gang, need)
    return GangPlan(in_rank_order(cluster, plan.placements, pipeline), tuple(plan.rejected))


def _has_roles(gang: Gang, waiting: Sequence[Pod]) -> bool:
    """Whether enough members of each role wait."""
    if not gang.roles:
        return True
    there = Counter(map(role_of, waiting))
    return all(there[role] >= count for role, count in gang.needs.items())


def budget_of(waiting: Sequence[Pod], pipeline: Pipeline) -> Budget:
    """The steps of one plan: those of a decision for each member."""
    return Budget(pipeline.decision_steps_max * max(1, len(waiting)))


class _Plan:
    """The members that have a place on the view so far, and those that have none."""

    def __init__(
        self, cluster: Cluster, waiting: Sequence[Pod], pipeline: Pipeline, work: Budget
    ) -> None:
        self._cluster = cluster
        self._pods = waiting
        self._pipeline = pipeline
        self._work = work
        self._view = WhatIfView(cluster)
        self.placements: list[Placement] = []
        self.rejected: list[Rejection] = []
        self._hold_stronger()

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
            decision = schedule_one(self._view, pod, self._pipeline, self._work)
            if isinstance(decision, Placement):
                self._view.place_decided(decision)
                self.placements.append(decision)
                continue
            self.rejected.append(decision)
            if kind is not None:
                refused[kind] = decision

    def _required(self, needs: Mapping[str, int]) -> int:
        """How many of the members that have to be placed have a place."""
        if not needs:
            return len(self.placements)
        placed = Counter(role_of(one.pod) for one in self.placements)
        return sum(min(count, placed[role]) for role, count in needs.items())

    def short_role(self, gang: Gang) -> str:
        """A role of which too few members have a place; else empty."""
        needs = gang.needs
        if not needs:
            return ""
        placed = Counter(role_of(one.pod) for one in self.placements)
        return next((role for role, count in needs.items() if placed[role] < count), "")

    def rejection(self, gang: Gang, need: int) -> Rejection:
        """The reasons of the first member that has no place, with how far the plan came.

        Where a role is short, of the first one of that role.
        """
        role = self.short_role(gang)
        first = next((one for one in self.rejected if role_of(one.pod) == role), self.rejected[0])
        placed = self._required(gang.needs)
        started = f" beside {len(gang.placed)} with a node" if gang.is_started else ""
        text = (
            f"group {gang.key.name}: {placed} of the {need} members that have to be placed"
            f" together fit{started}; {first.pod.name} does not."
        )
        return msgspec.structs.replace(first, diagnosis=first.diagnosis.with_post_filter(text))

    def _hold_stronger(self) -> None:
        """Nominated pods keep their room; those of the gang itself are placed by the plan."""
        if not self._cluster.nominated:
            return
        weakest = min(self._pods, key=lambda pod: pod.priority)
        own = {pod.uid for pod in self._pods}
        held = stronger(self._cluster.nominated, weakest)
        self._view.hold(pod for pod in held if pod.uid not in own)
