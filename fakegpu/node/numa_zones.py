"""NUMA zones of a node: their GPUs and CPUs, the allocations, the NodeResourceTopology.

The CPUs of a container are divided by its devices: with two thirds of them in a zone it has two
thirds of its CPUs there, in whole numbers, the larger remainder first. Containers without devices
are not listed. Pure.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import msgspec
from msgspec import UNSET

from fakegpu import names
from fakegpu.node.advertised_devices import physical, supply
from fakegpu.topology.node_topology import NodeTopology, Status
from fakegpu.topology.numa import Numa, TopologyPolicy
from scheduler.model import quantity
from scheduler.model import well_known as words

#: The combined word for policy and scope, for older readers.
_LEGACY: Final[dict[TopologyPolicy, str]] = {
    "single-numa-node": "SingleNUMANode",
    "restricted": "Restricted",
    "best-effort": "BestEffort",
}
_LEVELS: Final = {"container": "ContainerLevel", "pod": "PodLevel"}


def numa_of(topology: NodeTopology) -> Numa:
    """The zones; a node without zones is one zone."""
    return Numa() if topology.numa is UNSET else topology.numa


def members(numa: Numa, gpus: int) -> tuple[range, ...]:
    """The indexes of the GPUs of each zone.

    >>> [list(zone) for zone in members(Numa(zones=2), 5)]
    [[0, 1, 2], [3, 4]]
    """
    each, over = divmod(gpus, numa.zones)
    counts = numa.gpus_per_zone or [each + (zone < over) for zone in range(numa.zones)]
    ends = [sum(counts[: zone + 1]) for zone in range(numa.zones)]
    return tuple(range(end - count, end) for end, count in zip(ends, counts, strict=True))


def processors(numa: Numa) -> tuple[range, ...]:
    """The CPU numbers of each zone; empty if their count is not configured."""
    count = quantity.value(numa.cpu_per_zone) if numa.cpu_per_zone else 0
    return tuple(range(zone * count, (zone + 1) * count) for zone in range(numa.zones))


def cpulist(zone: range) -> str:
    """The format of ``/sys/devices/system/node``.

    >>> cpulist(range(8, 16)), cpulist(range(1)), cpulist(range(0))
    ('8-15', '0', '')
    """
    if len(zone) < 2:
        return str(zone.start) if zone else ""
    return f"{zone.start}-{zone.stop - 1}"


def shares(total: int, weights: Sequence[int]) -> tuple[int, ...]:
    """A whole number divided by weights; the remainder goes to the largest fractions.

    >>> shares(8, (2, 1)), shares(3, (1, 1)), shares(5, (0, 0))
    ((5, 3), (2, 1), (5, 0))
    """
    whole = sum(weights) or 1
    weights = weights if any(weights) else (1, *weights[1:])
    parts = [total * weight // whole for weight in weights]
    by_rest = sorted(range(len(parts)), key=lambda one: (-(total * weights[one] % whole), one))
    for one in by_rest[: total - sum(parts)]:
        parts[one] += 1
    return tuple(parts)


def document(name: str, uid: str, topology: NodeTopology) -> dict[str, Any]:
    """The NodeResourceTopology of a node, which owns it."""
    numa = numa_of(topology)
    owner = {"apiVersion": "v1", "kind": "Node", "name": name, "uid": uid}
    policy, scope = numa.topology_manager_policy, numa.topology_manager_scope
    legacy = _LEGACY[policy] + _LEVELS[scope] if policy in _LEGACY else "None"
    return {
        "apiVersion": names.ZONES_API,
        "kind": "NodeResourceTopology",
        "metadata": {"name": name, "ownerReferences": [owner]},
        "topologyPolicies": [legacy],
        "attributes": [
            {"name": "topologyManagerPolicy", "value": policy},
            {"name": "topologyManagerScope", "value": scope},
        ],
        "zones": [
            {
                "name": f"node-{zone}",
                "type": "Node",
                "costs": [
                    {"name": f"node-{other}", "value": _distance(numa, zone, other)}
                    for other in range(numa.zones)
                ],
                "resources": _resources(numa, len(gpus)),
            }
            for zone, gpus in enumerate(members(numa, len(topology.gpus)))
        ],
    }


def _distance(numa: Numa, zone: int, other: int) -> int:
    return numa.distances.own if zone == other else numa.distances.remote


def _resources(numa: Numa, gpus: int) -> list[dict[str, str]]:
    amounts = {words.GPU: gpus, "cpu": numa.cpu_per_zone, "memory": numa.mem_per_zone}
    return [
        {"name": name, **dict.fromkeys(("capacity", "allocatable", "available"), str(amount))}
        for name, amount in amounts.items()
        if amount != ""
    ]


#: (namespace, pod, container).
ContainerKey = tuple[str, str, str]


class Request(msgspec.Struct, frozen=True):
    """Whole CPUs and bytes that a container requests."""

    processors: int = 0
    memory: int = 0


class Charge(msgspec.Struct, frozen=True, kw_only=True):
    """The allocation of a container in one zone; ``devices`` by resource."""

    zone: int
    devices: dict[str, tuple[str, ...]] = {}
    processors: tuple[int, ...] = ()
    memory: int = 0


def charges(
    topology: NodeTopology, requests: Mapping[ContainerKey, Request]
) -> dict[ContainerKey, tuple[Charge, ...]]:
    """Every container that holds devices, zone by zone."""
    numa = numa_of(topology)
    left = [list(zone) for zone in processors(numa)]
    found: dict[ContainerKey, tuple[Charge, ...]] = {}
    for key, zones in sorted(_held(topology).items()):
        request = requests.get(key, Request())
        weights = [
            sum(len(ids) for ids in zones.get(zone, {}).values()) for zone in range(numa.zones)
        ]
        counts = shares(request.processors, weights)
        sizes = shares(request.memory, weights)
        zone_charges = []
        for zone in range(numa.zones):
            taken, left[zone] = left[zone][: counts[zone]], left[zone][counts[zone] :]
            devices = {name: tuple(ids) for name, ids in zones.get(zone, {}).items()}
            if devices:
                zone_charges.append(
                    Charge(zone=zone, devices=devices, processors=tuple(taken), memory=sizes[zone])
                )
        found[key] = tuple(zone_charges)
    return found


def _held(topology: NodeTopology) -> dict[ContainerKey, dict[int, dict[str, list[str]]]]:
    """Container -> zone -> resource -> ids."""
    resources = {
        physical(device.id): name
        for name, devices in supply(topology, with_lost=True).items()
        for device in devices
    }
    found: dict[ContainerKey, dict[int, dict[str, list[str]]]] = {}
    for zone, gpus in enumerate(members(numa_of(topology), len(topology.gpus))):
        for device_id, status in _devices(topology, gpus):
            for holder in status.held_by:
                key = (holder.namespace, holder.pod, holder.container)
                name = resources.get(device_id, "")
                found.setdefault(key, {}).setdefault(zone, {}).setdefault(name, []).append(
                    device_id
                )
    return found


def _devices(topology: NodeTopology, gpus: range) -> Iterator[tuple[str, Status]]:
    for index in gpus:
        gpu = topology.gpus[index]
        yield gpu.id, gpu.status
        for instance in gpu.instances:
            yield instance.id, instance.status
