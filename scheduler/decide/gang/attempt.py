"""One attempt to place the members of a gang on a what-if view, one by one, the largest first.

Those that have to be placed together come before the others.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Sequence
from typing import Final

import msgspec

from scheduler.decide.gang.need import Need
from scheduler.decide.gang.rank import class_of, largest_first, required_first
from scheduler.decide.gang.region_search import FindNode, RegionSearch
from scheduler.decide.schedule_one import place, schedule_one
from scheduler.decide.view import WhatIfView, stronger
from scheduler.framework.budget import Budget
from scheduler.framework.decision import Decision, Placement, Rejection
from scheduler.framework.pipeline import Pipeline
from scheduler.framework.plugin import BoundFilter
from scheduler.framework.view import View
from scheduler.model.pods.pod import Pod
from scheduler.model.reasons.reason import Diagnosis
from scheduler.state.cache.cluster import Cluster
from scheduler.state.gangs.gang import role_of

_NO_REASONS: Final = Diagnosis(total=0)


class Attempt:
    """The members that have a place on the view so far, and those that have none."""

    def __init__(
        self,
        cluster: Cluster,
        view: WhatIfView,
        waiting: Sequence[Pod],
        need: Need,
        pipeline: Pipeline,
        work: Budget,
        find: FindNode = schedule_one,
        region: RegionSearch | None = None,
    ) -> None:
        self._cluster = cluster
        self._view = view
        self._need = need
        self._pods = required_first(largest_first(waiting), need.roles)
        self._pipeline = pipeline
        self._work = work
        self._find = find
        self._region = region
        self.placements: list[Placement] = []
        self.rejected: list[Rejection] = []
        #: How many members of each role have a place.
        self._placed: Counter[str] = Counter()

    @property
    def met(self) -> int:
        """How many of the members that have to be placed together have a place."""
        return self._need.met_by([one.pod for one in self.placements])

    @property
    def is_enough(self) -> bool:
        """Whether all members that have to be placed together have a place."""
        return self.met >= self._need.count

    @property
    def refusal(self) -> Rejection:
        """The reasons of the first member that has no place; where a role is short, of its first
        one.
        """
        placed = (one.pod for one in self.placements)
        return self._need.first_short(placed, self.rejected, lambda one: one.pod)

    def place_all(self) -> None:
        """Place every member that fits; end as soon as the need cannot be met any more.

        A member with terms about other pods is tried again after the others: it may have to be near
        one of them.
        """
        self._place(self._need.count, lambda _pod: True)

    def place_needed(self, *, partly: bool = False) -> None:
        """The same for the members that have to be placed together only; with ``partly`` as many of
        them as fit.
        """
        self._place(0 if partly else self._need.count, self._is_needed)

    def _is_needed(self, pod: Pod) -> bool:
        need = self._need
        if not need.roles:
            return len(self.placements) < need.count
        role = role_of(pod)
        return self._placed[role] < need.roles.get(role, 0)

    def _place(self, least: int, takes: Callable[[Pod], bool]) -> None:
        pods = self._pods
        while pods:
            before = len(self.placements)
            self._place_each(pods, least, takes)
            if len(self.placements) == before:
                return
            pods = [one.pod for one in self.rejected if one.pod.term_count]
            self.rejected = [one for one in self.rejected if not one.pod.term_count]

    def _place_each(self, pods: Sequence[Pod], least: int, takes: Callable[[Pod], bool]) -> None:
        refused: dict[Hashable, Rejection] = {}
        for at, pod in enumerate(pods):
            again = sum(1 for one in self.rejected if one.pod.term_count)
            if len(self.placements) + len(pods) - at + again < least:
                return
            if not takes(pod):
                continue
            kind = class_of(self._cluster, pod, self._pipeline)
            known = refused.get(kind) if kind is not None else None
            if known is not None:  # the view only got fuller
                self.rejected.append(msgspec.structs.replace(known, pod=pod))
                continue
            decision = self._decide(pod, kind)
            if isinstance(decision, Placement):
                self._view.place_decided(decision)
                self.placements.append(decision)
                self._placed[role_of(pod)] += 1
                continue
            self.rejected.append(decision)
            if kind is not None:
                refused[kind] = decision

    def _decide(self, pod: Pod, kind: Hashable | None) -> Decision:
        find, view, pipeline, work = self._find, self._view, self._pipeline, self._work
        if self._region is None:
            return find(view, pod, pipeline, work, None)
        return self._region.decide(find, view, pod, kind, pipeline, work)


def find_only(
    view: View, pod: Pod, pipeline: Pipeline, work: Budget, only: BoundFilter | None
) -> Decision:
    """A place without the reasons of the nodes that have none: they cost a diagnosis."""
    found = place(view, pod, pipeline, work, only)
    return found if found is not None else Rejection(pod=pod, diagnosis=_NO_REASONS)


def view_beside(
    cluster: Cluster, members: Sequence[Pod], without: Sequence[tuple[Pod, str]] = ()
) -> WhatIfView:
    """The cluster without these placed pods; nominated pods keep their room, but for members of
    the gang itself.
    """
    view = WhatIfView(cluster)
    if without:
        view.remove_all((pod.uid, name) for pod, name in without)
    if cluster.nominated:
        own = {pod.uid for pod in members}
        held = stronger(cluster.nominations, _weakest(members))
        view.hold(pod for pod in held if pod.uid not in own)
    return view


def _weakest(members: Sequence[Pod]) -> Pod:
    """A pod with the lowest priority of the members that runs as long as any of them."""
    weakest = min(members, key=lambda pod: pod.priority)
    limits = [pod.active_deadline_s for pod in members if pod.active_deadline_s is not None]
    longest = max(limits) if len(limits) == len(members) else None
    return msgspec.structs.replace(weakest, active_deadline_s=longest)
