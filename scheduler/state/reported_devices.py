"""What the kubelet's word about devices comes to on one node: failed GPUs, and contradictions.

Only what cannot be otherwise is said. On a node whose GPUs have numbers each number is one GPU, so
two pods share as many ids as they share numbers. That holds for pods of the past too, as long as
the machine was not started again. Nothing is concluded from shares of a GPU, from a pod of which
not every id is known, or from an id without a published number.
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
from scheduler.state.node_info import NodeInfo, PodAllocation

#: Pods of one node, past ones too, that a new one is compared with.
KNOWN_MAX: Final = 64
_SHOWN_MAX: Final = 3


class ReportedDevices(msgspec.Struct, frozen=True, gc=False):
    """The numbers that we chose for a pod, and the ids that it has."""

    pod: str
    numbers: tuple[int, ...]
    ids: frozenset[str]

    @property
    def text(self) -> str:
        """Both, for people."""
        ids = sorted(map(shown_id, self.ids))
        more = f" and {len(ids) - _SHOWN_MAX} more" if len(ids) > _SHOWN_MAX else ""
        chosen = join_numbers(self.numbers[:8]) + (",..." if len(self.numbers) > 8 else "")
        return (
            f"pod {self.pod} was assigned gpu:{chosen} and has {', '.join(ids[:_SHOWN_MAX])}{more}"
        )


def failed_gpus(node_info: NodeInfo) -> frozenset[int]:
    """Indexes of GPUs that are unhealthy by the status of a pod that has them.

    Empty where the node has no table of ids.
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


def given(pod: Pod, holding: PodAllocation) -> ReportedDevices | None:
    """What we chose for a pod and what it has; None unless both are known in full."""
    if not holding.numbers or not holding.has_request:
        return None
    mine = [one for one in pod.allocated if one.resource == well_known.GPU]
    ids = frozenset(one.id for one in mine)
    if len(ids) != len(holding.numbers) or any(one.is_share for one in mine):
        return None
    return ReportedDevices(pod.key, holding.numbers, ids)


class Numbering:
    """The pods of one node since its machine was started: what we chose and what they have."""

    def __init__(self) -> None:
        self._known: dict[str, ReportedDevices] = {}

    def see(self, node_info: NodeInfo) -> str:
        """Why the node's numbers cannot be its plugin's; empty where they can, or were told."""
        node = node_info.node
        assert node is not None
        wrong = ""
        for uid, (pod, holding) in node_info.pods.items():
            found = None if _shares_numbers(node_info, holding) else given(pod, holding)
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


def _shares_numbers(node_info: NodeInfo, holding: PodAllocation) -> bool:
    """Whether siblings hold the same number by their maps: a plugin has as many ids as requests."""
    return any(len(node_info.usage.holders.get(number, ())) > 1 for number in holding.numbers)


def _against_table(gpu_ids: Mapping[str, int], one: ReportedDevices) -> str:
    if not one.ids <= gpu_ids.keys():
        return ""
    real = sorted(gpu_ids[gpu] for gpu in one.ids)
    if real == sorted(one.numbers):
        return ""
    return f"{one.text}: gpu:{join_numbers(tuple(real[:8]))} by annotation {well_known.GPU_IDS}"


def held_twice(pods: Iterable[Pod]) -> dict[str, tuple[str, str]]:
    """Id -> the two live pods that both have it by their statuses; shares of a GPU are left out."""
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
