"""The status of each device: its holders, and the values of the metrics."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec
from msgspec import UNSET

from fakegpu.node.pod_devices import PodUse
from fakegpu.topology.node_topology import (
    AllocatedBy,
    Gpu,
    NodeTopology,
    Status,
    Usage,
    Utilization,
)

#: By physical device: its holders, with repetitions.
Held = Mapping[str, Sequence[tuple[PodUse, AllocatedBy]]]


def written(topology: NodeTopology, held: Held, sharers: list[PodUse]) -> NodeTopology:
    """The topology with its holders; ``sharers`` use devices that reservation pods hold."""
    gpus = []
    for gpu in topology.gpus:
        memory = topology.memory_of(gpu)
        instances = gpu.mig_devices
        if instances is not UNSET:
            instances = tuple(
                msgspec.structs.replace(
                    one, status=_status(topology, held.get(one.id, ()), one.memory, sharers)
                )
                for one in instances
            )
        status = _status(topology, held.get(gpu.id, ()), memory, sharers)
        gpus.append(msgspec.structs.replace(gpu, status=status, mig_devices=instances))
    return msgspec.structs.replace(topology, gpus=tuple(gpus))


def _status(
    topology: NodeTopology,
    held: Sequence[tuple[PodUse, AllocatedBy]],
    memory_mib: int,
    sharers: list[PodUse],
) -> Status:
    if not held:
        return Status()
    replicas = _replicas(topology, held[0][0], held[0][1])
    usage: dict[str, Usage] = {}
    for pod, _ in held:
        if not pod.reservation:
            parts = sum(other.uid == pod.uid for other, _ in held)
            usage[pod.uid] = _usage(pod, memory_mib * min(parts, replicas) // replicas)
    reserved = {name for pod, _ in held for name in pod.reservation}
    for pod in sharers:
        if reserved.intersection(pod.shares):
            usage[pod.uid] = _usage(pod, memory_mib)
    holders = tuple(holder for _, holder in held)
    return Status(
        allocated_by=holders[0],
        pod_gpu_usage_status=usage,
        holders=holders if len(holders) > 1 else UNSET,
    )


def _replicas(topology: NodeTopology, pod: PodUse, holder: AllocatedBy) -> int:
    """The number of shares of the device that this container holds."""
    for need in pod.needs:
        for shared in topology.shared.resources:
            if need.container == holder.container and need.resource == shared.offered:
                return shared.replicas
    return 1


def _usage(pod: PodUse, memory_mib: int) -> Usage:
    return Usage(
        utilization=pod.load or Utilization(),
        fb_used=int(memory_mib * pod.fraction) if pod.is_running else 0,
        use_knative_utilization=pod.load is None,
    )


def holders_of(gpu: Gpu) -> tuple[AllocatedBy, ...]:
    """Every container that holds a GPU or an instance of it."""
    return (*gpu.status.held_by, *(h for one in gpu.instances for h in one.status.held_by))
