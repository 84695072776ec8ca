"""GPUs that DRA offers whole and in every possible part.

NVIDIA's counters exclude combinations that are impossible at once: a GPU has a counter for each
memory slice, and for memory, multiprocessors and engines, and each part consumes its amount. So the
scheduler that allocates a part determines the layout; the fake GPU is partitioned as soon as the
allocation is known, and whole again after the claim is deleted. A GPU that changes its MIG mode
only by a reset is offered in parts while it is in that mode, and then not whole.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import msgspec
from msgspec import UNSET, UnsetType

from fakegpu.catalog.engines import Engines, engines_of, needs_mig_mode
from fakegpu.catalog.products import product_of
from fakegpu.node.device_names import gpu_name, instance_name
from fakegpu.node.hardware import instance_memory, mig_device
from fakegpu.topology.node_topology import Gpu, MigDevice, NodeTopology
from fakegpu.topology.pools import GpuKind
from scheduler.model.mig import layout

#: A counter, and the capacity of the same meaning, by the field of ``Engines``.
WORDS: Final = {
    "multiprocessors": ("multiprocessors", "multiprocessors"),
    "copy": ("copy-engines", "copyEngines"),
    "decoder": ("decoders", "decoders"),
    "encoder": ("encoders", "encoders"),
    "jpeg": ("jpeg-engines", "jpegEngines"),
    "ofa": ("ofa-engines", "ofaEngines"),
}

Json = dict[str, Any]


class PartitionableGpu(msgspec.Struct, frozen=True):
    """The counters of a GPU that DRA offers in parts."""

    gpu_model: layout.GpuModel
    multiprocessors: int = 0
    is_whole_too: bool = True

    def engines(self, profile: layout.Profile) -> Engines:
        """The engines of an instance."""
        return engines_of(self.gpu_model, profile, self.multiprocessors)


def partitionable_of(topology: NodeTopology, gpu: Gpu) -> PartitionableGpu | None:
    """The parts of a GPU; None if it is not offered in parts."""
    gpu_model = _gpu_model(topology, gpu) if gpu.partitionable is True else None
    if gpu_model is None:
        return None
    product = product_of(topology.product_of(gpu), topology.memory_of(gpu))
    multiprocessors = product.multiprocessors if product else 0
    return PartitionableGpu(gpu_model, multiprocessors, not needs_mig_mode(gpu_model))


def _gpu_model(topology: NodeTopology, gpu: Gpu) -> layout.GpuModel | None:
    return GpuKind(topology.product_of(gpu), topology.memory_of(gpu)).gpu_model


def parts(
    node: str, index: int, gpu_model: layout.GpuModel
) -> Iterator[tuple[MigDevice, layout.Profile]]:
    """Every possible instance on a GPU."""
    for profile in gpu_model.profiles.values():
        for start in profile.starts:
            yield mig_device(node, index, gpu_model, profile.name, start), profile


def counter_set(index: int) -> str:
    """The name of a GPU's counters."""
    return f"{gpu_name(index)}-counter-set"


def counters(gpu: PartitionableGpu) -> Json:
    """All counters of a GPU; a whole GPU consumes all."""
    gpu_model = gpu.gpu_model
    # Sizes of profiles are rounded: the memory counter must not forbid what the slices allow.
    of_slice = max(-(-instance_memory(one) // one.size) for one in gpu_model.profiles.values())
    slices = range(gpu_model.memory_slices)
    return _counters(gpu.engines(gpu_model.whole), of_slice * gpu_model.memory_slices, slices)


def consumed(gpu: PartitionableGpu, profile: layout.Profile, start: int) -> Json:
    """The counters that an instance consumes."""
    slices = range(start, start + profile.size)
    return _counters(gpu.engines(profile), instance_memory(profile), slices)


def _counters(engines: Engines, memory_mib: int, slices: range) -> Json:
    counts = {WORDS[name][0]: n for name, n in msgspec.structs.asdict(engines).items()}
    counts |= {f"memory-slice-{number}": 1 for number in slices}
    found = {name: {"value": str(count)} for name, count in counts.items()}
    return found | {"memory": {"value": binary(memory_mib)}}


def capacity(engines: Engines, memory_mib: int, slices: range = range(0)) -> Json:
    """The capacity of a device with these engines."""
    counts = {WORDS[name][1]: n for name, n in msgspec.structs.asdict(engines).items()}
    counts |= {f"memorySlice{number}": 1 for number in slices}
    found = {name: {"value": str(count)} for name, count in counts.items()}
    return found | {"memory": {"value": binary(memory_mib)}}


def binary(memory_mib: int) -> str:
    """MiB as the API server writes such a quantity.

    >>> binary(40960), binary(11441)
    ('40Gi', '11441Mi')
    """
    whole, rest = divmod(memory_mib, 1024)
    return f"{memory_mib}Mi" if rest else f"{whole}Gi"


def partitioned(node: str, topology: NodeTopology, allocated: frozenset[str]) -> NodeTopology:
    """The topology with the allocated parts; ``allocated`` are names of devices."""
    gpus = []
    for index, gpu in enumerate(topology.gpus):
        offered = partitionable_of(topology, gpu)
        if offered is not None:
            there = (one for one, _ in parts(node, index, offered.gpu_model))
            found = [
                one for one in there if allocated & {instance_name(index, one), one.id.lower()}
            ]
            if found:
                found.sort(key=lambda one: one.position)
                gpu = msgspec.structs.replace(gpu, mig_devices=tuple(found))
        gpus.append(gpu)
    return msgspec.structs.replace(topology, gpus=tuple(gpus))


def whole(topology: NodeTopology) -> NodeTopology:
    """The inverse of ``partitioned``; the holder of a part holds the GPU."""
    gpus = []
    for gpu in topology.gpus:
        offered = partitionable_of(topology, gpu)
        if offered is not None and gpu.instances:
            held = next((one.status for one in gpu.instances if one.status.held_by), gpu.status)
            devices: tuple[MigDevice, ...] | UnsetType = UNSET if offered.is_whole_too else ()
            gpu = msgspec.structs.replace(gpu, mig_devices=devices, status=held)
        gpus.append(gpu)
    return msgspec.structs.replace(topology, gpus=tuple(gpus))
