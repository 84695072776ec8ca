"""The telemetry of a node's GPUs at one time, for nvidia-smi and the metrics.

Both read the same values: a random utilisation in a pod's range, and temperature, power and clocks
that follow from the GPU's utilisation.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final

import msgspec
from msgspec import UNSET

from fakegpu.catalog.products import Product, product_of
from fakegpu.topology.node_topology import (
    AllocatedBy,
    Gpu,
    MigDevice,
    NodeTopology,
    Status,
    Usage,
)

#: A random whole number in an inclusive range.
Draw = Callable[[int, int], int]
#: The utilisation of a pod by its requests (Knative), by its uid; per cent.
Asked = Callable[[str], int]
DRIVER, CUDA = "470.129.06", "11.4"
IDLE_C, BUSY_C = 33, 71
SM_MHZ, SM_IDLE_MHZ, MEMORY_MHZ = 1410, 210, 1215
IDLE_SHARE: Final = 0.16


class Part(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The usage of a device by one container; memory in MiB, utilisation in per cent."""

    namespace: str = ""
    pod: str = ""
    container: str = ""
    memory_used: int = 0
    utilization: int = 0


class InstanceReading(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """One MIG instance; ``number`` counts those of a GPU from 0 on."""

    uuid: str
    number: int
    profile: str
    gi_id: int
    position: int
    memory_total: int
    memory_used: int = 0
    utilization: int = 0
    parts: tuple[Part, ...] = ()


class Reading(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """One GPU; memory in MiB, power in watts, clocks in MHz."""

    index: int
    uuid: str
    name: str
    driver_version: str
    cuda_version: str
    compute_capability: str
    memory_total: int
    memory_used: int
    utilization: int
    temperature: int
    power_draw: int
    power_limit: int
    sm_clock: int
    memory_clock: int
    xid: int = 0
    is_lost: bool = False
    has_mig: bool = False
    instances: tuple[InstanceReading, ...] = ()
    parts: tuple[Part, ...] = ()


def read_all(topology: NodeTopology, draw: Draw, asked: Asked) -> tuple[Reading, ...]:
    """The telemetry of every GPU."""
    return tuple(
        _read(topology, index, gpu, draw, asked) for index, gpu in enumerate(topology.gpus)
    )


def _read(topology: NodeTopology, index: int, gpu: Gpu, draw: Draw, asked: Asked) -> Reading:
    name, memory = topology.product_of(gpu), topology.memory_of(gpu)
    product = product_of(name, memory)
    instances = tuple(
        _instance(number, device, draw, asked) for number, device in enumerate(gpu.instances)
    )
    parts = _parts(gpu.status, draw, asked)
    used = _total(memory, [*(p.memory_used for p in parts), *(i.memory_used for i in instances)])
    busy = _total(100, (part.utilization for part in parts))
    if instances:
        # The utilisation of a GPU is that of its instances, weighted by their shares.
        busy = _total(100, [one.utilization * one.memory_total // memory for one in instances])
    limit = product.power_w if product else 250
    failure = gpu.failure if gpu.failure is not UNSET else None
    return Reading(
        index=index,
        uuid=gpu.id,
        name=name,
        driver_version=DRIVER if topology.driver_version is UNSET else topology.driver_version,
        cuda_version=CUDA if topology.cuda_version is UNSET else topology.cuda_version,
        compute_capability=_compute(product),
        memory_total=memory,
        memory_used=used,
        utilization=busy,
        temperature=IDLE_C + (BUSY_C - IDLE_C) * busy // 100,
        power_draw=round(limit * (IDLE_SHARE + (0.95 - IDLE_SHARE) * busy / 100)),
        power_limit=limit,
        sm_clock=SM_IDLE_MHZ + (SM_MHZ - SM_IDLE_MHZ) * min(1, busy),
        memory_clock=MEMORY_MHZ,
        xid=failure.xid if failure else 0,
        is_lost=bool(failure and failure.off_bus),
        has_mig=gpu.has_mig,
        instances=instances,
        parts=parts,
    )


def _instance(number: int, device: MigDevice, draw: Draw, asked: Asked) -> InstanceReading:
    parts = _parts(device.status, draw, asked)
    return InstanceReading(
        uuid=device.id,
        number=number,
        profile=device.profile,
        gi_id=device.gpu_instance_id,
        position=device.position,
        memory_total=device.memory,
        memory_used=_total(device.memory, (part.memory_used for part in parts)),
        utilization=_total(100, (part.utilization for part in parts)),
        parts=parts,
    )


def _compute(product: Product | None) -> str:
    return f"{product.compute[0]}.{product.compute[1]}" if product else "8.0"


def _total(limit: int, amounts: Iterable[int]) -> int:
    return min(limit, sum(amounts))


def _parts(status: Status, draw: Draw, asked: Asked) -> tuple[Part, ...]:
    """One for each container that holds the device.

    Usage is per pod: the first container of several shows it. Pods that share a reserved GPU
    without holding it are added to its holder.
    """
    usages = [
        (busy(uid, usage, draw, asked), usage.fb_used)
        for uid, usage in status.pod_gpu_usage_status.items()
    ]
    pods: dict[tuple[str, str], list[AllocatedBy]] = {}
    for holder in status.held_by:
        pods.setdefault((holder.namespace, holder.pod), []).append(holder)
    groups = list(pods.values())
    if len(groups) != len(usages):
        usages = [(_total(100, (share for share, _ in usages)), sum(used for _, used in usages))]
        groups = [list(status.held_by)]
    return tuple(
        _part(holder, *(shown if number == 0 else (0, 0)))
        for shown, containers in zip(usages, groups, strict=True)
        for number, holder in enumerate(containers)
    )


def _part(holder: AllocatedBy, busy: int, used: int) -> Part:
    return Part(
        namespace=holder.namespace,
        pod=holder.pod,
        container=holder.container,
        memory_used=used,
        utilization=busy,
    )


def busy(uid: str, usage: Usage, draw: Draw, asked: Asked) -> int:
    """The utilisation of a GPU by a pod at this time; per cent."""
    if usage.use_knative_utilization:
        return max(0, min(100, asked(uid)))
    return draw(usage.utilization.min, usage.utilization.max)
