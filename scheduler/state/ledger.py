"""The books of one node: who holds what.

Built from API objects only. A pod that is bound or assumed here holds its effective
requests and, where devices have numbers, its devices::

    numbered node   every GPU has an index; a holder whose numbers cannot be read takes
                    units of unknown number, and nothing is handed out by number until
                    they are known
    counted node    the kubelet picks; holders of the plugin's resource hold a count and no
                    numbers, and pods mapped without a request cannot mix with them

A device is never free because we failed to read who holds it.
"""

from __future__ import annotations

import msgspec

from scheduler.model import names
from scheduler.model.device import Devices, parse_devices
from scheduler.model.node import Node
from scheduler.model.pod import HostPort, Pod


class Holding(msgspec.Struct, frozen=True):
    """A pod's devices on its node.

    ``numbers`` are GPU indexes; ``unknown`` is how many GPUs it holds whose index is not
    known; ``is_mapped`` and ``sharing`` tell with whom it may hold a device together;
    ``has_request`` is whether the plugin's resource accounts for them already.
    """

    numbers: tuple[int, ...] = ()
    unknown: int = 0
    is_mapped: bool = False
    has_request: bool = False
    sharing: str = ""


def holding_of(pod: Pod, devices: Devices | None, scheduler_name: str) -> Holding:
    """What a placed pod holds; ``devices`` is our own choice while it is only assumed.

    Numbers are believed only from pods of our scheduler: anybody could write the
    annotation on another pod. Unreadable means unknown, never free.
    """
    requested = pod.requests.get(names.GPU, 0)
    is_ours = pod.scheduler_name == scheduler_name
    is_mapped = is_ours and pod.map_text is not None
    if devices is None and is_ours:
        text = pod.annotations.get(names.DEVICES)
        devices = parse_devices(text) if text is not None else None
    if devices is None or (requested and not devices.numbers):
        unmapped_units = 1 if is_mapped and not pod.gpu_requests else 0
        return Holding((), requested or unmapped_units, is_mapped, requested > 0, pod.sharing)
    return Holding(devices.numbers, 0, is_mapped, requested > 0, pod.sharing)


class NodeBooks:
    """The mutable books of one node; ``node`` is None while only its pods are known."""

    __slots__ = ("node", "pods", "ports", "used")

    def __init__(self, node: Node | None) -> None:
        self.node = node
        self.pods: dict[str, tuple[Pod, Holding]] = {}
        self.used: dict[str, int] = {}
        self.ports: dict[HostPort, int] = {}

    def copy(self) -> NodeBooks:
        """An independent copy, for trying things out."""
        twin = NodeBooks(self.node)
        twin.pods = dict(self.pods)
        twin.used = dict(self.used)
        twin.ports = dict(self.ports)
        return twin

    def add(self, pod: Pod, holding: Holding) -> None:
        """Enter a pod; entering the same uid again replaces the earlier entry."""
        if pod.uid in self.pods:
            self.remove(pod.uid)
        self.pods[pod.uid] = (pod, holding)
        for resource, value in pod.requests.items():
            self.used[resource] = self.used.get(resource, 0) + value
        for port in pod.host_ports:
            self.ports[port] = self.ports.get(port, 0) + 1

    def remove(self, uid: str) -> Pod | None:
        """Strike a pod out; None when it was not here."""
        entry = self.pods.pop(uid, None)
        if entry is None:
            return None
        pod = entry[0]
        for resource, value in pod.requests.items():
            self.used[resource] -= value
        for port in pod.host_ports:
            self.ports[port] -= 1
            if self.ports[port] == 0:
                del self.ports[port]
        return pod

    def holders(self) -> dict[int, list[Holding]]:
        """Device index -> the holdings on it."""
        result: dict[int, list[Holding]] = {}
        for _, holding in self.pods.values():
            for number in holding.numbers:
                result.setdefault(number, []).append(holding)
        return result

    def unknown_units(self) -> int:
        """How many GPUs are held here whose index is not known."""
        return sum(holding.unknown for _, holding in self.pods.values())

    def free(self, resource: str) -> int:
        """What is left of a resource; may be negative when allocatable shrank.

        On a numbered node that advertises GPUs, devices held by pods that were mapped
        without a request are taken off as well: the plugin's count does not know them.
        """
        allocatable = self.node.allocatable.get(resource, 0) if self.node else 0
        left = allocatable - self.used.get(resource, 0)
        if resource == names.GPU and self.node is not None and self.node.is_numbered:
            left -= self._unrequested_units()
        return left

    def free_numbers(self) -> tuple[int, ...]:
        """Indexes that nobody holds, ascending; empty where the node has no known count."""
        count = self.node.gpu_count if self.node else None
        held = {number for _, holding in self.pods.values() for number in holding.numbers}
        return tuple(number for number in range(count or 0) if number not in held)

    def mapped_without_request(self) -> bool:
        """Whether a pod runs here that was given host devices past the device plugin."""
        return any(
            holding.is_mapped and not pod.gpu_requests for pod, holding in self.pods.values()
        )

    def holds_plugin_devices(self) -> bool:
        """Whether any pod here holds GPUs or MIG instances of the device plugin."""
        return any(pod.gpu_requests for pod, _ in self.pods.values())

    def _unrequested_units(self) -> int:
        by_request: set[int] = set()
        past_request: set[int] = set()
        unknown = 0
        for _, holding in self.pods.values():
            (by_request if holding.has_request else past_request).update(holding.numbers)
            unknown += 0 if holding.has_request else holding.unknown
        return len(past_request - by_request) + unknown


def over_committed(books: NodeBooks) -> dict[str, int]:
    """Device resources of which more is held than offered, with the excess; {} when sound."""
    excess = {
        resource: -books.free(resource)
        for resource in books.used
        if names.is_gpu_device(resource) and books.node is not None and books.free(resource) < 0
    }
    for number, holdings in books.holders().items():
        if len({holding.sharing for holding in holdings}) > 1 or (
            len(holdings) > 1 and not all(holding.is_mapped for holding in holdings)
        ):
            excess[f"gpu:{number}"] = len(holdings) - 1
    return excess
