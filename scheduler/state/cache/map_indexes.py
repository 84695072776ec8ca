"""Pods of one workload and map, and the index that each of them holds."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from scheduler.model import well_known
from scheduler.model.dra.claim_plan import ClaimPlan
from scheduler.model.gpu.device import Devices
from scheduler.model.integer_text import whole
from scheduler.model.limits import MAP_INDEX_MAX
from scheduler.model.pods.pod import Pod
from scheduler.model.volumes.volume_plan import VolumePlan


class Assumption(msgspec.Struct, frozen=True, gc=False):
    """A placement that the API server has not confirmed."""

    node_name: str
    devices: Devices
    index: int | None = None
    volumes: VolumePlan | None = None
    claims: ClaimPlan | None = None


class MapIndexes:
    """Pods by workload and map text; ``pods`` and ``assumed`` are the cluster's own mappings.

    Pods of one workload with different texts, such as the roles of one job or the two templates of
    a rollout, have separate indexes. A pod without a map holds no index.
    """

    def __init__(self, pods: Mapping[str, Pod], assumed: Mapping[str, Assumption]) -> None:
        self._pods = pods
        self._assumed = assumed
        self._uids: dict[tuple[str, str], set[str]] = {}

    def join(self, pod: Pod) -> None:
        """A pod was added."""
        if (space := space_of(pod)) is not None:
            self._uids.setdefault(space, set()).add(pod.uid)

    def leave(self, pod: Pod) -> None:
        """A pod is deleted, its owner released it, or its map changed."""
        space = space_of(pod)
        if space is None:
            return
        uids = self._uids[space]
        uids.discard(pod.uid)
        if not uids:
            del self._uids[space]

    def indexes_held(self, pod: Pod) -> Mapping[int, Pod]:
        """Map index -> the live, placed pod that holds it, of this pod's workload and map text."""
        held: dict[int, Pod] = {}
        space = space_of(pod)
        for uid in self._uids.get(space, ()) if space is not None else ():
            other = self._pods[uid]
            index = self._index_of(other)
            # Siblings have no order: if two have the same index, the smaller name is reported.
            if index is not None and (index not in held or other.name < held[index].name):
                held[index] = other
        return held

    def _index_of(self, pod: Pod) -> int | None:
        if assumption := self._assumed.get(pod.uid):
            return assumption.index
        text = pod.annotations.get(well_known.POD_INDEX, "") if pod.node_name else ""
        return whole(text, MAP_INDEX_MAX)


def space_of(pod: Pod) -> tuple[str, str] | None:
    """The scope within which a pod's index is unique; None for a pod without a map."""
    return None if pod.map_text is None else (pod.workload, pod.map_text)
