"""The hardware of a node: its pool's GPUs with their ids, MIG instances and failures."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec
from msgspec import UNSET, UnsetType

from fakegpu.catalog.engines import needs_mig_mode
from fakegpu.topology.ids import gpu_id, mig_id
from fakegpu.topology.mig_config import Layouts
from fakegpu.topology.node_topology import (
    Dra,
    Failure,
    Gpu,
    MigDevice,
    MigStrategy,
    NodeTopology,
    Sharing,
)
from fakegpu.topology.pools import GpuKind, Pool
from scheduler.model.mig import layout as mig_layout


def hardware(
    node: str,
    pool: Pool,
    layouts: Layouts | None,
    *,
    strategy: MigStrategy,
    sharing: Sharing,
    failures: Mapping[int, Failure],
    dra: Dra | None = None,
    in_parts: bool = False,
) -> NodeTopology:
    """The node's topology without allocations; ``in_parts``: DRA offers whole GPUs in parts too."""
    per_gpu = layouts or (None,) * len(pool.gpus)
    first = pool.gpus[0] if pool.gpus else GpuKind("", 0)
    gpus = tuple(
        _gpu(node, index, kind, first, per_gpu[index] if index < len(per_gpu) else None, failures)
        for index, kind in enumerate(pool.gpus)
    )
    if in_parts:
        gpus = tuple(_in_parts(gpu, kind) for gpu, kind in zip(gpus, pool.gpus, strict=True))
    return NodeTopology(
        gpu_memory=first.memory_mib,
        gpu_product=first.product,
        driver_version=pool.driver or UNSET,
        cuda_version=pool.cuda or UNSET,
        gpus=gpus,
        mig_strategy=strategy,
        other_devices=pool.others or UNSET,
        sharing=sharing if sharing.resources else UNSET,
        numa=UNSET if pool.numa is None else pool.numa,
        dra=dra or UNSET,
    )


def _in_parts(gpu: Gpu, kind: GpuKind) -> Gpu:
    """A GPU with MIG instances is unchanged, and so is one that needs a reset first."""
    gpu_model = kind.gpu_model
    if gpu_model is None or gpu.instances:
        return gpu
    if needs_mig_mode(gpu_model):
        return msgspec.structs.replace(gpu, partitionable=True) if gpu.has_mig else gpu
    return msgspec.structs.replace(gpu, partitionable=True, mig_devices=UNSET)


def _gpu(
    node: str,
    index: int,
    kind: GpuKind,
    first: GpuKind,
    layout: mig_layout.Layout | None,
    failures: Mapping[int, Failure],
) -> Gpu:
    devices: tuple[MigDevice, ...] | UnsetType = UNSET
    if layout is not None and kind.gpu_model is not None:
        gpu_model = kind.gpu_model
        devices = tuple(mig_device(node, index, gpu_model, profile, at) for profile, at in layout)
    return Gpu(
        id=gpu_id(node, index),
        product=UNSET if kind.product == first.product else kind.product,
        memory=UNSET if kind.memory_mib == first.memory_mib else kind.memory_mib,
        mig_devices=devices,
        failure=failures.get(index, UNSET),
    )


def mig_device(
    node: str, index: int, gpu_model: mig_layout.GpuModel, name: str, position: int
) -> MigDevice:
    """A MIG instance on that GPU."""
    profile = mig_layout.profile_of(gpu_model, name)
    assert profile is not None, f"{name} was checked when the layout was made"
    number = profile.kind.profile_id
    return MigDevice(
        id=mig_id(node, index, name, position),
        profile=name,
        position=position,
        size=profile.size,
        memory=instance_memory(profile),
        gpu_instance_id=number or 0,
    )


def instance_memory(profile: mig_layout.Profile) -> int:
    """MiB of an instance: from a listing, else the gigabytes of its name."""
    return profile.memory_mib or profile.nominal_mib


def layouts_of(topology: NodeTopology) -> Layouts:
    """The layouts in a topology: the inverse of :func:`hardware` for layouts."""
    return tuple(
        mig_layout.layout_of((device.profile, device.position) for device in gpu.instances)
        if gpu.has_mig
        else None
        for gpu in topology.gpus
    )
