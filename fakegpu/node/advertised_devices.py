"""The devices that a node's device plugin advertises, by resource.

The ids are those of the topology. A shared device is listed several times, as in NVIDIA's plugin:
``<id>::0``, ``<id>::1`` ... A failed one is listed as unhealthy, so it counts as capacity and not
as allocatable; one that fell off the bus is not listed. A resource that has only lost GPUs is
advertised with no devices; a resource without any GPU is not advertised.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import msgspec
from msgspec import UNSET

from fakegpu.node.faults import is_fatal
from fakegpu.topology.node_topology import Gpu, NodeTopology, Sharing
from scheduler.model import well_known as words

REPLICA: Final = "::"


class Device(msgspec.Struct, frozen=True):
    """One unit of a resource: a GPU's index, and for a MIG instance its position."""

    id: str
    gpu: int
    position: int | None = None
    is_healthy: bool = True


Supply = dict[str, tuple[Device, ...]]


def mig_resource(profile: str) -> str:
    """The resource of a profile, with a dot in place of a ``+``."""
    return words.mig_resource(profile.replace("+", "."))


def supply(topology: NodeTopology, *, with_lost: bool = False) -> Supply:
    """Devices by resource, as NVIDIA's plugin advertises them.

    There is no ``nvidia.com/gpu`` if every GPU has MIG instances, and nothing at all if strategy
    ``single`` finds several profiles, or if only DRA offers the GPUs. ``with_lost``: also GPUs that
    fell off the bus, unhealthy.
    """
    if topology.dra == "instead":
        return {}
    found: dict[str, list[Device]] = {}
    single = single_profile(topology)
    for index, gpu in enumerate(topology.gpus):
        is_lost = gpu.failure is not UNSET and gpu.failure.off_bus
        for resource, device in _devices(topology, single, index, gpu):
            devices = found.setdefault(resource, [])
            if with_lost or not is_lost:
                devices.append(device)
    sharing = topology.shared
    shared: Supply = {}
    for resource, devices in found.items():
        name, replicated = _replicated(resource, devices, sharing)
        shared[name] = replicated
    return shared


def units(topology: NodeTopology) -> Supply:
    """The devices for the kubelet: the supply, and the configured number of other resources."""
    found = supply(topology)
    for other in () if topology.other_devices is UNSET else topology.other_devices:
        numbered = (Device(f"{other.name}-{number}", 0) for number in range(other.count))
        found[other.name] = (*found.get(other.name, ()), *numbered)
    return found


def single_profile(topology: NodeTopology) -> str | None:
    """The profile of strategy ``single``: an empty text without MIG instances; None if the GPUs
    differ, so that NVIDIA's plugin advertises nothing.
    """
    if not any(gpu.has_mig for gpu in topology.gpus):
        return ""
    profiles = {device.profile for gpu in topology.gpus for device in gpu.instances}
    all_cut = all(gpu.instances for gpu in topology.gpus)
    return profiles.pop() if all_cut and len(profiles) == 1 else None


def _devices(
    topology: NodeTopology, single: str | None, index: int, gpu: Gpu
) -> list[tuple[str, Device]]:
    healthy = gpu.failure is UNSET or not is_fatal(gpu.failure)
    if topology.mig_strategy == "none" or not gpu.has_mig:
        if topology.mig_strategy == "single" and single is None:
            return []
        return [(words.GPU, Device(gpu.id, index, None, healthy))]
    if topology.mig_strategy == "single" and single is None:
        return []
    return [
        (
            words.GPU if topology.mig_strategy == "single" else mig_resource(device.profile),
            Device(device.id, index, device.position, healthy),
        )
        for device in gpu.instances
    ]


def _replicated(
    resource: str, devices: list[Device], sharing: Sharing
) -> tuple[str, tuple[Device, ...]]:
    shared = sharing.of(resource)
    if shared is None:
        return resource, tuple(devices)
    return shared.offered, tuple(
        msgspec.structs.replace(device, id=f"{device.id}{REPLICA}{number}")
        for number in range(shared.replicas)
        for device in devices
    )


class Amounts(msgspec.Struct, frozen=True):
    """The own part of a node's status."""

    capacity: dict[str, int]
    allocatable: dict[str, int]


def amounts(topology: NodeTopology, limits: Mapping[str, int] = {}) -> Amounts:
    """Capacity and allocatable; ``limits`` are injected by the user, and only lower allocatable."""
    capacity: dict[str, int] = {}
    allocatable: dict[str, int] = {}
    for resource, devices in units(topology).items():
        capacity[resource] = len(devices)
        allocatable[resource] = sum(device.is_healthy for device in devices)
    for resource, limit in limits.items():
        if resource in allocatable:
            allocatable[resource] = min(allocatable[resource], limit)
    return Amounts(capacity, allocatable)


def physical(device_id: str) -> str:
    """The topology's id of an allocated id."""
    return device_id.partition(REPLICA)[0]
