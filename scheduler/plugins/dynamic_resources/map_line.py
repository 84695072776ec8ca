"""The devices that a line of gpu-scheduling-map gives to the claims of a pod, and no others.

Whole GPUs have an index on their node; the claims of a pod get exactly those of its line. Devices
without an index (network cards, MIG partitions) are allocated as for every pod.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec

from scheduler.model import well_known
from scheduler.model.dra.allocation import Allocation
from scheduler.model.dra.device import DeviceId
from scheduler.model.dra.extended_resources import ExtendedRequests, container_position
from scheduler.model.gpu.gpu_map import MapEntry
from scheduler.model.pods.pod import Pod, Role
from scheduler.model.reasons.reason import Reason, with_numbers
from scheduler.plugins.dynamic_resources import codes
from scheduler.plugins.dynamic_resources.allocation.allocator import Order
from scheduler.plugins.dynamic_resources.allocation.requests import Alternative, Candidate
from scheduler.plugins.dynamic_resources.allocation.results import Chosen
from scheduler.state.node_info import NodeInfo


class MapLine(msgspec.Struct, frozen=True):
    """A line of a pod's map at its node: its ``devices`` in order, and the index of every whole GPU
    of the node.
    """

    pod: Pod
    entry: MapEntry
    devices: tuple[DeviceId, ...]
    indexes: dict[DeviceId, int]

    def narrowed(self, order: Order, asked_for: ExtendedRequests | None) -> Order:
        """The order in which a request tries devices: of the whole GPUs only those of the line."""
        shares = self._shares(asked_for) if asked_for is not None else {}

        def of_line(
            asked: Alternative, candidates: Sequence[Candidate], taken: Sequence[Chosen]
        ) -> Sequence[Candidate]:
            ordered = order(asked, candidates, taken)
            share = shares.get(id(asked.request))
            by_id = {one.id: one for one in ordered}
            if share is not None:
                return [by_id[one] for one in share if one in by_id]
            mine = [by_id[one] for one in self.devices if one in by_id]
            return mine + [one for one in ordered if one.id not in self.indexes]

        return of_line

    def mismatch(self, allocations: Iterable[Allocation]) -> Reason | None:
        """The reason if the claims get other whole GPUs than those of the line."""
        given = {one.id for each in allocations for one in each.results if one.id in self.indexes}
        if given == set(self.devices):
            return None
        found = _numbers(sorted(self.indexes[one] for one in given)) if given else "no GPU"
        return self._reason(f"get {found}", "")

    def unavailable(self, reason: Reason) -> Reason:
        """The reason if the claims cannot have the GPUs of the line."""
        cause = f" ({with_numbers(reason)})"
        return self._reason("cannot have them", cause, resolvable=reason.resolvable)

    def _reason(self, what: str, cause: str, *, resolvable: bool = False) -> Reason:
        named = " and ".join(one.name for one in self.pod.resource_claims.claims[: codes.SHOWN_MAX])
        whose = f"claims of the pod ({named})" if named else "request of the pod"
        text = (
            f"node(s) where line {self.entry.index} of gpu-scheduling-map names"
            f" {_numbers(self.entry.devices)} and the {whose} {what}{cause}"
        )
        return Reason(code=codes.MAP_CLAIM_MISMATCH, text=text, resolvable=resolvable)

    def _shares(self, asked_for: ExtendedRequests) -> dict[int, tuple[DeviceId, ...]]:
        """The devices of each request for ``nvidia.com/gpu`` (as ``cuda_env.device_shares``), by
        its identity: a request of another claim may have its name.

        Containers have theirs in order of declaration; what init containers need more comes last.
        """
        mine = {one.request for one in asked_for.mappings if one.resource == well_known.GPU}
        requests = [one for one in asked_for.requests if one.name in mine]
        requests.sort(key=lambda one: self._place(container_position(one)))
        shares: dict[int, tuple[DeviceId, ...]] = {}
        start = 0
        for one in requests:
            assert one.exactly is not None
            shares[id(one)] = self.devices[start : start + one.exactly.count]
            start += one.exactly.count
        return shares

    def _place(self, position: int) -> tuple[bool, int]:
        return self.pod.containers[position].role is Role.INIT, position


def map_line(pod: Pod, entry: MapEntry | None, node_info: NodeInfo) -> MapLine | None:
    """The line of a pod where claims give it the GPUs; None where it does not restrict claims."""
    gpus = node_info.dra_gpus
    if entry is None or gpus is None or gpus.problem or not node_info.has_indexes_for(pod):
        return None
    devices = tuple(gpus.devices.get(number) for number in entry.devices)
    there = tuple(one for one in devices if one is not None)
    assert len(there) == len(devices), "the GPUs of the line were checked before"
    indexes = {one: number for number, one in gpus.devices.items() if one is not None}
    return MapLine(pod, entry, there, indexes)


def _numbers(indexes: Sequence[int]) -> str:
    """Without a comma, at which readers split the list of reasons."""
    return f"GPU{'s' if len(indexes) > 1 else ''} {' '.join(map(str, indexes))}"
