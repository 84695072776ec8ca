"""One attempt to place the members of a gang on a what-if view, one by one, the largest first."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import Final

import msgspec

from scheduler.decide.gang.rank import class_of, largest_first
from scheduler.decide.schedule_one import place, schedule_one
from scheduler.decide.view import WhatIfView, stronger
from scheduler.framework.budget import Budget
from scheduler.framework.decision import Decision, Placement, Rejection
from scheduler.framework.pipeline import Pipeline
from scheduler.model.pods.pod import Pod
from scheduler.model.reasons.reason import Diagnosis
from scheduler.state.cache.cluster import Cluster

_NO_REASONS: Final = Diagnosis(total=0)
#: Decides one member on the view.
FindNode = Callable[[WhatIfView, Pod, Pipeline, Budget], Decision]


class Attempt:
    """The members that have a place on the view so far, and those that have none."""

    def __init__(
        self,
        cluster: Cluster,
        view: WhatIfView,
        waiting: Sequence[Pod],
        pipeline: Pipeline,
        work: Budget,
        find: FindNode = schedule_one,
    ) -> None:
        self._cluster = cluster
        self._view = view
        self._pods = largest_first(waiting)
        self._pipeline = pipeline
        self._work = work
        self._find = find
        self.placements: list[Placement] = []
        self.rejected: list[Rejection] = []

    def place_all(self, need: int, most: int | None = None) -> None:
        """Place every member that fits, or ``most`` of them; end as soon as the need cannot be met
        any more.

        A member with terms about other pods is tried again after the others: it may have to be near
        one of them.
        """
        pods = self._pods
        while pods:
            before = len(self.placements)
            self._place_each(pods, need, len(self._pods) if most is None else most)
            if len(self.placements) == before:
                return
            pods = [one.pod for one in self.rejected if one.pod.term_count]
            self.rejected = [one for one in self.rejected if not one.pod.term_count]

    def _place_each(self, pods: Sequence[Pod], need: int, most: int) -> None:
        refused: dict[Hashable, Rejection] = {}
        for at, pod in enumerate(pods):
            again = sum(1 for one in self.rejected if one.pod.term_count)
            placed = len(self.placements)
            if placed >= most or placed + len(pods) - at + again < need:
                return
            kind = class_of(self._cluster, pod, self._pipeline)
            known = refused.get(kind) if kind is not None else None
            if known is not None:  # the view only got fuller
                self.rejected.append(msgspec.structs.replace(known, pod=pod))
                continue
            decision = self._find(self._view, pod, self._pipeline, self._work)
            if isinstance(decision, Placement):
                self._view.place_decided(decision)
                self.placements.append(decision)
                continue
            self.rejected.append(decision)
            if kind is not None:
                refused[kind] = decision


def find_only(view: WhatIfView, pod: Pod, pipeline: Pipeline, work: Budget) -> Decision:
    """A place without the reasons of the nodes that have none: they cost a diagnosis."""
    found = place(view, pod, pipeline, work)
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
