"""The requests of the claims that are to be allocated, with the devices that each may get.

Mirrors ``validateDeviceRequest`` and ``isSelectable`` of kube-scheduler's structured allocator.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final, NamedTuple

import msgspec

from scheduler.model.dra.claim import ALL, DeviceRequest, ExactRequest
from scheduler.model.dra.device import NO_EXECUTE, NO_SCHEDULE, Device, DeviceId, DeviceTaint
from scheduler.model.dra.device_class import DeviceClass
from scheduler.model.dra.resource_slice import ResourceSlice
from scheduler.model.node import Node
from scheduler.state.dra.pool import Pool

#: Whether a selector matches a device, or why that is unknown.
Matches = Callable[[str, Device], "bool | SelectorFailure"]
#: Effects of device taints that keep claims away.
HARD_EFFECTS: Final = (NO_SCHEDULE, NO_EXECUTE)
#: Devices that are compared with a request in one step, although one takes about half the time of a
#: step: a pod that fits nowhere is compared with every device of the cluster, and needs an answer.
DEVICES_PER_STEP: Final = 4
OPTIONAL_NODE_OPERATIONS: Final = "DRAOptionalNodeOperations"


class SelectorFailure(msgspec.Struct, frozen=True):
    """A selector that cannot be compiled, or cannot be evaluated on a device; ``text`` says why."""

    text: str


class Candidate(NamedTuple):
    """A device of a usable pool, and where it comes from."""

    device: Device
    slice: ResourceSlice
    pool: Pool

    @property
    def id(self) -> DeviceId:
        """The device."""
        return self.device.id


def candidates_of(pools: Iterable[Pool]) -> list[Candidate]:
    """The devices of usable pools, in kube-scheduler's order."""
    return [
        Candidate(device, one, pool)
        for pool in pools
        if pool.is_usable
        for one in pool.slices
        for device in one.devices
    ]


class Alternative:
    """``exactly`` of a request, or one subrequest, while a search is running.

    ``name`` is how an allocation names it. ``devices`` are the devices of mode All. ``known`` are
    results of ``selects`` for the same class and selectors.
    """

    __slots__ = ("_matches", "_node", "_results", "count", "device_class", "devices",
                 "exact", "name", "request")  # fmt: skip

    def __init__(
        self,
        request: DeviceRequest,
        exact: ExactRequest,
        device_class: DeviceClass,
        node: Node,
        matches: Matches,
        known: dict[DeviceId, bool],
    ) -> None:
        self.request = request
        self.exact = exact
        self.device_class = device_class
        self.name = request.name_of(exact)
        self.count = exact.count
        self.devices: list[Candidate] = []
        self._node = node
        self._matches = matches
        self._results = known

    @property
    def is_all(self) -> bool:
        """Whether it asks for every device."""
        return self.exact.mode == ALL

    def selects(self, candidate: Candidate) -> bool | SelectorFailure:
        """Whether all selectors match a device, and the node can use it."""
        known = self._results.get(candidate.id)
        if known is not None:
            return known
        device = candidate.device
        for source, selectors in (
            (f"class {self.device_class.name}", self.device_class.selectors),
            (f"request {self.name}", self.exact.selectors),
        ):
            for at, selector in enumerate(selectors):
                found = self._matches(selector, device)
                if isinstance(found, SelectorFailure):
                    where = f"{source}: selector #{at} on device {device.title}"
                    return SelectorFailure(f"{where}: {found.text}")
                if not found:
                    self._results[candidate.id] = False
                    return False
        node = self._node
        fits = not candidate.slice.per_device_nodes or device.nodes.admits(node.name, node.labels)
        self._results[candidate.id] = fits
        return fits

    def tolerates(self, taints: tuple[DeviceTaint, ...]) -> bool:
        """Whether it tolerates every taint that keeps claims away."""
        return all(
            any(one.tolerates(taint) for one in self.exact.tolerations)
            for taint in taints
            if taint.effect in HARD_EFFECTS
        )
