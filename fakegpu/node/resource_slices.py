"""The contents of a node's ResourceSlices.

Names, attributes, capacities, counters and the order of slices are those of NVIDIA's DRA driver;
``tests/golden/slices`` has its output, and a test compares both. The attribute ``model`` is the
seed operator's. A failed GPU has a taint, so that no new claim is allocated and running pods
continue, as with the device plugin; one that fell off the bus is missing.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any, Final, TypeVar

from msgspec import UNSET, UnsetType

from fakegpu import names
from fakegpu.catalog.engines import engines_of
from fakegpu.catalog.products import product_of
from fakegpu.node.device_names import gpu_name, instance_name
from fakegpu.node.faults import is_fatal
from fakegpu.node.hardware import instance_memory
from fakegpu.node.mig import partitions
from fakegpu.node.mig.partitions import binary, capacity
from fakegpu.topology.node_topology import Gpu, MigDevice, NodeTopology
from scheduler.model.mig import layout

#: The API server's limit per slice; it is lower for devices with taints or counters.
DEVICES_MAX: Final = 128
SPECIAL_DEVICES_MAX: Final = 64
COUNTER_SETS_MAX: Final = 8
TEXT_MAX: Final = 64
PCI_BUS_ID: Final = "resource.kubernetes.io/pciBusID"
_VERSION: Final = re.compile(r"([0-9]{1,9})\.([0-9]{1,9})(?:\.([0-9]{1,9}))?")

Json = dict[str, Any]
T = TypeVar("T")


def contents(node: str, topology: NodeTopology) -> tuple[Json, ...]:
    """The content of each slice of the node's pool; empty without devices.

    If GPUs are offered in parts: counters first, then one slice for each GPU.
    """
    of_gpus: list[list[Json]] = []
    sets: list[Json] = []
    for index, gpu in enumerate(topology.gpus):
        if gpu.failure is not UNSET and gpu.failure.off_bus:
            continue
        of_gpus.append(list(_of_gpu(node, topology, index, gpu)))
        offered = partitions.partitionable_of(topology, gpu)
        if offered is not None:
            name = partitions.counter_set(index)
            sets.append({"name": name, "counters": partitions.counters(offered)})
    if not sets:
        devices = [device for some in of_gpus for device in some]
        most = SPECIAL_DEVICES_MAX if any("taints" in one for one in devices) else DEVICES_MAX
        return tuple({"devices": some} for some in _parted(devices, most))
    return (
        *({"sharedCounters": some} for some in _parted(sets, COUNTER_SETS_MAX)),
        *({"devices": some} for some in of_gpus if some),
    )


def _of_gpu(node: str, topology: NodeTopology, index: int, gpu: Gpu) -> Iterator[Json]:
    taints = _taints(gpu)
    offered = partitions.partitionable_of(topology, gpu)
    if offered is not None:
        if offered.is_whole_too:
            whole = offered.gpu_model.whole
            memory = instance_memory(whole)
            room = capacity(offered.engines(whole), memory)
            device = _whole(topology, index, gpu, room)
            yield device | _consumes(index, partitions.counters(offered)) | taints
        parts = partitions.parts(node, index, offered.gpu_model)
        for part, profile in sorted(parts, key=lambda one: instance_name(index, one[0])):
            consumed = partitions.consumed(offered, profile, part.position)
            room = capacity(offered.engines(profile), part.memory)
            device = _instance(topology, index, gpu, part, room)
            yield device | _consumes(index, consumed) | taints
    elif gpu.has_mig:
        for one in gpu.instances:
            device = _instance(topology, index, gpu, one, _room(topology, gpu, one))
            device["attributes"]["uuid"] = {"string": one.id}
            yield device | taints
    else:
        room = {"memory": {"value": binary(topology.memory_of(gpu))}}
        yield _whole(topology, index, gpu, room) | taints


def _whole(topology: NodeTopology, index: int, gpu: Gpu, room: Json) -> Json:
    attributes = _attributes(topology, index, gpu, "gpu") | {"uuid": {"string": gpu.id}}
    return {"name": gpu_name(index), "attributes": attributes, "capacity": room}


def _instance(topology: NodeTopology, index: int, gpu: Gpu, one: MigDevice, room: Json) -> Json:
    attributes = {
        **_attributes(topology, index, gpu, "mig"),
        "profile": {"string": one.profile},
        "parentUUID": {"string": gpu.id},
    }
    return {"name": instance_name(index, one), "attributes": attributes, "capacity": room}


def _room(topology: NodeTopology, gpu: Gpu, one: MigDevice) -> Json:
    """The capacity of an existing instance."""
    name, memory_mib = topology.product_of(gpu), topology.memory_of(gpu)
    product = product_of(name, memory_mib)
    gpu_model = layout.gpu_model_of(name, memory_mib, (one.profile,))
    profile = layout.profile_of(gpu_model, one.profile) if gpu_model else None
    if gpu_model is None or profile is None:
        return {"memory": {"value": binary(one.memory)}}
    engines = engines_of(gpu_model, profile, product.multiprocessors if product else 0)
    return capacity(engines, one.memory, range(one.position, one.position + one.size))


def _attributes(topology: NodeTopology, index: int, gpu: Gpu, kind: str) -> Json:
    name = topology.product_of(gpu)[:TEXT_MAX]
    product = product_of(name, topology.memory_of(gpu))
    found = {
        "type": {"string": kind},
        "productName": {"string": name},
        "model": {"string": name},
        PCI_BUS_ID: {"string": pci_bus_id(index)},
    }
    if product is not None:
        found["brand"] = {"string": product.brand}
        found["architecture"] = {"string": product.architecture}
        found["cudaComputeCapability"] = {"version": "{}.{}.0".format(*product.compute)}
    versions = {
        "driverVersion": topology.driver_version,
        "cudaDriverVersion": topology.cuda_version,
    }
    return found | {
        key: {"version": version} for key, text in versions.items() if (version := _semver(text))
    }


def _semver(text: str | UnsetType) -> str:
    """A version in DRA's format, empty for an invalid text: ``550.163.01`` is 550.163.1."""
    found = _VERSION.fullmatch(text) if text is not UNSET else None
    return ".".join(str(int(part or 0)) for part in found.groups()) if found else ""


def pci_bus_id(index: int) -> str:
    """The PCI address of a GPU: 32 per PCI domain.

    >>> pci_bus_id(0), pci_bus_id(33)
    ('0000:07:00.0', '0001:0f:00.0')
    """
    domain, number = divmod(index, 32)
    return f"{domain:04x}:{8 * number + 7:02x}:00.0"


def _consumes(index: int, consumed: Json) -> Json:
    counter_set = partitions.counter_set(index)
    return {"consumesCounters": [{"counterSet": counter_set, "counters": consumed}]}


def _taints(gpu: Gpu) -> Json:
    if gpu.failure is UNSET or not is_fatal(gpu.failure):
        return {}
    taint = {"key": names.XID_TAINT, "value": str(gpu.failure.xid), "effect": "NoSchedule"}
    return {"taints": [taint]}


def _parted(values: Sequence[T], most: int) -> list[list[T]]:
    return [list(values[at : at + most]) for at in range(0, len(values), most)]
