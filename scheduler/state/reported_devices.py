"""Checks the devices that the kubelet reports on one node: failed GPUs, and contradictions.

Only certain conclusions are drawn. On an index-assigned node each index is one GPU, so two pods
share as many device ids as indexes. This holds for past pods too, unless the machine was restarted.
Shares of a GPU, pods with incomplete ids, and ids without a published index are ignored.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

import msgspec

from scheduler.model import well_known
from scheduler.model.gpu.allocated_devices import UNHEALTHY, AllocatedDevice, shown_id, unhealthy
from scheduler.model.gpu.device import join_numbers
from scheduler.model.node import Node
from scheduler.model.pods.pod import Pod
from scheduler.state.node_info import NodeInfo
from scheduler.state.pod_allocation import PodAllocation

#: Maximum number of pods of one node, past ones included, for the comparison with a new pod.
KNOWN_MAX: Final = 64
_SHOWN_MAX: Final = 3


class ReportedDevices(msgspec.Struct, frozen=True, gc=False):
    """The assigned indexes of a pod, and its reported device ids."""

    pod: str
    numbers: tuple[int, ...]
    ids: frozenset[str]

    @property
    def text(self) -> str:
        """Both, as text for messages."""
        ids = sorted(map(shown_id, self.ids))
        more = f" and {len(ids) - _SHOWN_MAX} more" if len(ids) > _SHOWN_MAX else ""
        chosen = join_numbers(self.numbers[:8]) + (",..." if len(self.numbers) > 8 else "")
        return (
            f"pod {self.pod} was assigned gpu:{chosen} and has {', '.join(ids[:_SHOWN_MAX])}{more}"
        )


def failed_gpus(node_info: NodeInfo) -> frozenset[int]:
    """Indexes of GPUs that the status of a pod reports as unhealthy.

    Empty if the node has no table of ids.
    """
    node = node_info.node
    if node is None or not node.gpu_ids:
        return frozenset()
    return frozenset(
        node.gpu_ids[one.gpu]
        for pod, _ in node_info.pods.values()
        for one in pod.allocated
        if one.health == UNHEALTHY and one.gpu in node.gpu_ids
    )


def recovered(before: Pod, after: Pod) -> bool:
    """Whether a GPU of the pod is no longer reported as unhealthy."""
    if before.allocated == after.allocated:
        return False
    return bool(unhealthy(before.allocated) - unhealthy(after.allocated))


def given(pod: Pod, allocation: PodAllocation) -> ReportedDevices | None:
    """The assigned and reported devices of a pod; None unless both are complete."""
    if not allocation.numbers or not allocation.has_request:
        return None
    mine = [one for one in pod.allocated if one.resource == well_known.GPU]
    ids = frozenset(one.id for one in mine)
    if len(ids) != len(allocation.numbers) or any(one.is_share for one in mine):
        return None
    return ReportedDevices(pod.key, allocation.numbers, ids)


class Numbering:
    """The pods of one node since its machine started: assigned and reported devices."""

    def __init__(self) -> None:
        self._known: dict[str, ReportedDevices] = {}

    def see(self, node_info: NodeInfo) -> str:
        """The contradiction between the assigned indexes and the plugin's; empty if there is none,
        or if it was reported already.
        """
        node = node_info.node
        assert node is not None
        wrong = ""
        for uid, (pod, allocation) in node_info.pods.items():
            found = None if _shares_numbers(node_info, allocation) else given(pod, allocation)
            if found is None or self._known.get(uid) == found:
                continue
            wrong = wrong or self._contradiction(node, found)
            self._known.pop(uid, None)
            self._known[uid] = found
        while len(self._known) > KNOWN_MAX:
            del self._known[next(iter(self._known))]
        return wrong

    def _contradiction(self, node: Node, one: ReportedDevices) -> str:
        if wrong := _against_table(node.gpu_ids, one):
            return wrong
        for other in self._known.values():
            shared = set(one.numbers) & set(other.numbers)
            if len(shared) != len(one.ids & other.ids):
                return f"{other.text}; {one.text}"
        return ""


def _shares_numbers(node_info: NodeInfo, allocation: PodAllocation) -> bool:
    """Whether siblings share an index by their maps: a plugin has as many ids as requests."""
    return any(len(node_info.usage.holders.get(number, ())) > 1 for number in allocation.numbers)


def _against_table(gpu_ids: Mapping[str, int], one: ReportedDevices) -> str:
    if not one.ids <= gpu_ids.keys():
        return ""
    real = sorted(gpu_ids[gpu] for gpu in one.ids)
    if real == sorted(one.numbers):
        return ""
    return f"{one.text}: gpu:{join_numbers(tuple(real[:8]))} by annotation {well_known.GPU_IDS}"


def held_twice(pods: Iterable[Pod]) -> dict[str, tuple[str, str]]:
    """Id -> two live pods whose statuses both report it; shares of a GPU are left out."""
    holders: dict[str, str] = {}
    twice: dict[str, tuple[str, str]] = {}
    for pod in pods:
        if pod.is_deleting or pod.is_terminal:
            continue
        for gpu in {one.id for one in pod.allocated if _is_exclusive(one)}:
            if gpu in holders:
                twice.setdefault(gpu, (holders[gpu], pod.key))
            holders.setdefault(gpu, pod.key)
    return twice


def _is_exclusive(device: AllocatedDevice) -> bool:
    return device.is_gpu and not device.is_share
