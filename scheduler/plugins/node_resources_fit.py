"""The pod's effective requests against the free capacity of the node (kube-scheduler:
noderesources/fit).

Score is best fit: the node with the smallest leftovers wins. A pod without device requests prefers
nodes without devices, so that their CPU stays free for GPU pods; with ``nonGpu: balanced``
kube-scheduler's scores choose among these nodes.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Final

from scheduler.framework import pod_reads
from scheduler.framework.plugin import (
    FITS,
    SCORE_MAX,
    NodeFilter,
    NormalizedScore,
    Plugin,
    Reasons,
)
from scheduler.framework.settings import Settings
from scheduler.framework.view import View
from scheduler.model import well_known
from scheduler.model.pods.pod import Pod
from scheduler.model.reasons.reason import Reason
from scheduler.model.reasons.reason_code import ReasonCode, RequeueCause
from scheduler.state.dra.device_counts import DeviceCounts
from scheduler.state.node_info import NodeInfo

TOO_MANY_PODS = ReasonCode(
    name="TOO_MANY_PODS",
    meaning="the node runs its maximum number of pods",
    lifted_by=(
        RequeueCause.FREED,
        RequeueCause.NODE,
    ),
    stage="NodeResourcesFit",
    next_step="delete pods on the node, or add a node",
    words=(r"Too many pods",),
    frees=well_known.PODS,
)
INSUFFICIENT = ReasonCode(
    name="INSUFFICIENT",
    meaning="the node does not have enough free of a resource",
    lifted_by=(
        RequeueCause.FREED,
        RequeueCause.NODE,
    ),
    stage="NodeResourcesFit",
    next_step=(
        "request less, or delete pods that use it; for an nvidia.com/mig profile a"
        " fallback ladder (gpu-scheduler.io/mig-fallback) also helps"
    ),
    words=(r"Insufficient \S",),
    is_about_resource=True,
)
NO_DEVICE_CLASS = ReasonCode(
    name="NO_DEVICE_CLASS",
    meaning="the MIG partitions of the node are DRA devices, and no DeviceClass offers the profile",
    lifted_by=(
        RequeueCause.RESOURCE_DEVICES,
        RequeueCause.NODE,
    ),
    stage="NodeResourcesFit",
    next_step=(
        "add the profile to dra.migClasses of the chart gpu-scheduler, or create a DeviceClass"
        " with this extendedResourceName"
    ),
    words=(r"no DeviceClass has the extendedResourceName ",),
)

#: The resources that kube-scheduler scores.
SCORED: Final = (well_known.CPU, well_known.MEMORY)

_TOO_MANY_PODS = Reason(code=TOO_MANY_PODS, text="Too many pods")


def check(pod: Pod, node_info: NodeInfo) -> Reasons:
    """One reason for each resource with too little free capacity."""
    node = node_info.node
    assert node is not None
    reasons: Reasons = FITS
    if len(node_info.pods) + 1 > node.allocatable.get(well_known.PODS, 0):
        reasons = (_TOO_MANY_PODS,)
    left = node_info.left
    for resource, need in pod.requests.items():
        have = left.get(resource, 0)
        if need > have and need > 0:
            if node_info.dra is None:
                reasons += _insufficient(resource, need, have, node.most(resource))
            else:
                reasons += _by_dra(node_info, node_info.dra, resource, need)
    return reasons


def places_on(pod: Pod, node_info: NodeInfo) -> tuple[int, Reasons] | None:
    """How many such pods a node takes by its free resources, and the reasons of one more; None
    where free amounts do not say: devices of DRA drivers, and of dynamic MIG nodes.
    """
    node = node_info.node
    assert node is not None
    if node_info.dra is not None or (node_info.is_dynamic and pod.gpu_requests):
        return None
    left = node_info.left
    pods = node.allocatable.get(well_known.PODS, 0) - len(node_info.pods)
    needs = [(what, need) for what, need in pod.requests.items() if need > 0]
    count = min([pods, *(left.get(what, 0) // need for what, need in needs)])
    reasons: Reasons = (_TOO_MANY_PODS,) if count == pods else FITS
    for what, need in needs:
        have = left.get(what, 0) - count * need
        if need > have:
            reasons += _insufficient(what, need, have, node.most(what))
    return count, reasons


def _by_dra(node_info: NodeInfo, dra: DeviceCounts, resource: str, need: int) -> Reasons:
    """The reason on a node with devices of DRA drivers.

    Only the allocator knows the devices behind the implicit name of a class.
    """
    if resource not in dra.free and node_info.is_served_by_dra(resource):
        return FITS
    if resource in dra.profiles and resource not in dra.classes and not node_info.most(resource):
        return _no_device_class(resource)
    return _insufficient(resource, need, node_info.free(resource), node_info.most(resource))


@lru_cache(maxsize=1024)
def _no_device_class(resource: str) -> Reasons:
    reason = Reason(
        code=NO_DEVICE_CLASS,
        text=f"no DeviceClass has the extendedResourceName {resource} and the node has MIG"
        " partitions of this profile as DRA devices (dra.migClasses of the chart)",
        resolvable=False,
    )
    return (reason,)


@lru_cache(maxsize=16384)
def _insufficient(resource: str, need: int, have: int, most: int) -> Reasons:
    """Most rejecting nodes give the same reason, so it is cached."""
    reason = Reason(
        code=INSUFFICIENT,
        text=f"Insufficient {resource}",
        resource=resource,
        need=need,
        have=have,
        resolvable=need <= most,
    )
    return (reason,)


def leftover(pod: Pod, node_info: NodeInfo) -> tuple[int, int, int]:
    """The leftovers: requested devices, other devices, CPU (milli)."""
    return (*_devices_left(pod, node_info), _cpu_left(pod, node_info))


def _devices_left(pod: Pod, node_info: NodeInfo) -> tuple[int, int]:
    wanted = others = 0
    requested = pod.gpu_requests
    free = node_info.left
    if node_info.is_dynamic and requested and node_info.gpus is not None:
        # With dynamic MIG the number of instances is not fixed: the leftover is counted in memory
        # slices.
        return (node_info.gpus.free_slices, 0)
    for resource in node_info.devices:
        if resource in requested:
            wanted += free.get(resource, 0) - requested[resource]
        else:
            others += free.get(resource, 0)
    return (wanted, others)


def _cpu_left(pod: Pod, node_info: NodeInfo) -> int:
    return node_info.left.get(well_known.CPU, 0) - pod.requests.get(well_known.CPU, 0)


def device_fit(pod: Pod, node_info: NodeInfo, settings: Settings) -> tuple[int, int]:
    """The devices that are left as a sort key; the spreading policy prefers many.

    A pod without a device request avoids devices under both policies.
    """
    devices, others = _devices_left(pod, node_info)
    if not pod.gpu_requests:
        return (devices, node_info.device_rank)
    return (-devices, -others) if settings.spreads else (devices, others)


def cpu_fit(pod: Pod, node_info: NodeInfo, settings: Settings) -> tuple[int]:
    """The CPU that is left, in the same manner."""
    cpu = _cpu_left(pod, node_info)
    return (-cpu,) if settings.spreads else (cpu,)


def least_allocated(
    _view: View, pod: Pod, nodes: Sequence[NodeInfo], _settings: Settings
) -> list[int]:
    """The share of cpu and memory that is left with the pod (kube-scheduler: LeastAllocated).

    A container without a request counts with 100m cpu or 200 MiB.
    """
    added = [
        pod.requests.get(resource, 0) + extra
        for resource, extra in zip(SCORED, pod.score_extra, strict=True)
    ]
    return [_mean_left(node_info, added) for node_info in nodes]


def _mean_left(node_info: NodeInfo, added: Sequence[int]) -> int:
    """The mean share of the resources that is left on a node after ``added`` of each."""
    assert node_info.node is not None
    allocatable, used, extra = node_info.node.allocatable, node_info.used, node_info.score_extra
    total = count = 0
    for place, resource in enumerate(SCORED):
        if of := allocatable.get(resource, 0):
            left = of - used.get(resource, 0) - extra[place] - added[place]
            total += max(0, left) * SCORE_MAX // of
            count += 1
    return total // count if count else 0


def balanced_allocation(
    _view: View, pod: Pod, nodes: Sequence[NodeInfo], _settings: Settings
) -> list[int]:
    """How much the pod evens out the shares of cpu and memory that are requested (kube-scheduler
    1.36: NodeResourcesBalancedAllocation); a pod that requests neither is not scored."""
    added = [pod.requests.get(resource, 0) for resource in SCORED]
    if not any(added):
        return [0] * len(nodes)
    half = SCORE_MAX // 2
    return [half + (half + _evened_out(node_info, added)) // 2 for node_info in nodes]


def _evened_out(node_info: NodeInfo, added: Sequence[int]) -> int:
    """By how much the shares become more equal; a node without one of the resources has no two."""
    assert node_info.node is not None
    cpu_of, memory_of = (node_info.node.allocatable.get(resource, 0) for resource in SCORED)
    if not (cpu_of and memory_of):
        return 0
    cpu, memory = (node_info.used.get(resource, 0) for resource in SCORED)
    after = _evenness((cpu + added[0]) / cpu_of, (memory + added[1]) / memory_of)
    return after - _evenness(cpu / cpu_of, memory / memory_of)


def _evenness(one: float, other: float) -> int:
    return int((1 - abs(min(1.0, one) - min(1.0, other)) / 2) * SCORE_MAX)


PLUGIN: Final = Plugin(
    name="NodeResourcesFit",
    reads=(pod_reads.REQUESTS,),
    codes=(
        TOO_MANY_PODS,
        INSUFFICIENT,
        NO_DEVICE_CLASS,
    ),
    filters=(NodeFilter(check),),
    node_key=device_fit,
    late_key=cpu_fit,
    normalized_scores=(
        NormalizedScore(weight=1, score=least_allocated, is_preference=False, is_of_node=True),
        NormalizedScore(weight=1, score=balanced_allocation, is_preference=False, is_of_node=True),
    ),
)
