"""What containers take of a node's NUMA zones: their devices, and a share of processors and memory.

A container is charged by its devices: two thirds of them in a zone are two thirds of its processors
there, whole ones, the larger remainder first. Who holds no device is not told. Pure.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import msgspec

from fakegpu.node.advertised_devices import physical, supply
from fakegpu.node.zones import members, numa_of, processors, shares
from fakegpu.topology.node_topology import NodeTopology, Status

#: (namespace, pod, container).
ContainerKey = tuple[str, str, str]


class Request(msgspec.Struct, frozen=True):
    """Whole processors and bytes that a container asks for."""

    processors: int = 0
    memory: int = 0


class Charge(msgspec.Struct, frozen=True, kw_only=True):
    """What a container has in one zone; ``devices`` by resource."""

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
        told = []
        for zone in range(numa.zones):
            taken, left[zone] = left[zone][: counts[zone]], left[zone][counts[zone] :]
            devices = {name: tuple(ids) for name, ids in zones.get(zone, {}).items()}
            if devices:
                told.append(
                    Charge(zone=zone, devices=devices, processors=tuple(taken), memory=sizes[zone])
                )
        found[key] = tuple(told)
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
