"""Pods of one workload, and the map index that each of them holds."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from scheduler.model import names
from scheduler.model.device import Devices
from scheduler.model.limits import MAP_INDEX_MAX
from scheduler.model.number import whole
from scheduler.model.pod import Pod


class Assumption(msgspec.Struct, frozen=True, gc=False):
    """Where we said a pod goes, before the API server confirmed it."""

    node_name: str
    devices: Devices
    index: int | None = None


class Siblings:
    """Pods by workload; ``pods`` and ``assumed`` are where the cluster keeps them by uid."""

    def __init__(self, pods: Mapping[str, Pod], assumed: Mapping[str, Assumption]) -> None:
        self._pods = pods
        self._assumed = assumed
        self._uids: dict[str, set[str]] = {}

    def join(self, pod: Pod) -> None:
        """A pod lives."""
        self._uids.setdefault(pod.workload, set()).add(pod.uid)

    def leave(self, pod: Pod) -> None:
        """A pod is gone, or its owner let go of it."""
        uids = self._uids[pod.workload]
        uids.discard(pod.uid)
        if not uids:
            del self._uids[pod.workload]

    def indexes_held(self, workload: str) -> Mapping[int, Pod]:
        """Map index -> the live, placed pod of this workload that holds it."""
        held: dict[int, Pod] = {}
        for uid in self._uids.get(workload, ()):
            pod = self._pods[uid]
            index = self._index_of(pod)
            # Siblings have no order: of two with one index the name decides who is spoken of.
            if index is not None and (index not in held or pod.name < held[index].name):
                held[index] = pod
        return held

    def _index_of(self, pod: Pod) -> int | None:
        if assumption := self._assumed.get(pod.uid):
            return assumption.index
        text = pod.annotations.get(names.POD_INDEX, "") if pod.node_name else ""
        return whole(text, MAP_INDEX_MAX)
