"""One line of a map at its node: whether the node exists, and whether the line's devices are
free.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import msgspec

from scheduler.framework.view import View
from scheduler.model.gpu.cuda_env import (
    CudaMode,
    container_gpus,
    cuda_mode,
    device_shares,
    devices_needed,
    visible,
)
from scheduler.model.gpu.gpu_map import MapEntry
from scheduler.model.node import Node
from scheduler.model.pods.pod import Pod
from scheduler.model.reasons.condition_reason import ConditionReason
from scheduler.model.reasons.reason import Reason
from scheduler.model.reasons.reason_code import ReasonCode, RequeueCause
from scheduler.plugins.gpu.codes import (
    DEVICE_ASSIGNMENT_UNKNOWN,
    DEVICE_HELD,
    KUBELET_ASSIGNS_DEVICES,
    NUMBERS_UNKNOWN,
    broken,
    has_mig,
    without_gpu,
)
from scheduler.plugins.gpu.map_dra_devices import dra_device_problem
from scheduler.plugins.gpu.map_lines import refused
from scheduler.state.dra.store import DraStore
from scheduler.state.node_info import NodeInfo
from scheduler.state.reported_devices import failed_gpus

MAP_NODE_UNKNOWN = ReasonCode(
    name="MAP_NODE_UNKNOWN",
    meaning="no node has the name or alias in the map",
    lifted_by=(RequeueCause.NODE,),
    stage="GPUMap",
    next_step=(
        "correct the name in the map, or give a node that alias: kubectl label node NODE"
        " gpu-node-name=NAME"
    ),
    words=(r"no node is named \S+ or labelled",),
    condition=ConditionReason.WAITING_FOR_MAPPED_NODE,
)
MAP_NODE_AMBIGUOUS = ReasonCode(
    name="MAP_NODE_AMBIGUOUS",
    meaning="the node name in the map matches several nodes",
    lifted_by=(RequeueCause.NODE,),
    stage="GPUMap",
    next_step=(
        "use the name of the node object, or remove the label gpu-node-name from all but one node"
    ),
    words=(r"\S+ of gpu-scheduling-map fits \d+ nodes",),
    condition=ConditionReason.INVALID_MAP,
)
MAP_CHANGED = ReasonCode(
    name="MAP_CHANGED",
    meaning="the map changed after CUDA_VISIBLE_DEVICES was written into the pod",
    lifted_by=(RequeueCause.POD,),
    stage="GPUMap",
    next_step="recreate the pod; its environment is set at creation",
    words=(r"MapChanged: ",),
    condition=ConditionReason.MAP_CHANGED,
)
MAP_REQUEST_MISMATCH = ReasonCode(
    name="MAP_REQUEST_MISMATCH",
    meaning="the sum of the containers' GPU requests differs from the line of the map",
    lifted_by=(RequeueCause.POD,),
    stage="GPUMap",
    next_step=(
        "make the sum of the containers' nvidia.com/gpu requests equal to the line's devices"
    ),
    words=(r"the containers request \d+ GPUs and line",),
    condition=ConditionReason.INVALID_MAP,
)

KUBELET_PICKS: Final = Reason(
    code=KUBELET_ASSIGNS_DEVICES,
    text="node(s) with kubelet-assigned GPUs run pods that request GPUs or MIG instances",
)
CLAIMED: Final = Reason(
    code=DEVICE_ASSIGNMENT_UNKNOWN,
    text="node(s) run pods with resource claims and the GPUs allocated by DRA are unknown",
)


class Target(msgspec.Struct, frozen=True):
    """The node of a mapped pod: ``node_name`` is the real name, ``entry`` its line of the map."""

    node_name: str
    entry: MapEntry


def target(pod: Pod, entry: MapEntry, view: View) -> Target | Reason:
    """The line with its resolved node, or the reason why the node or the share does not exist."""
    return _shares_problem(pod, entry) or _resolved(entry, view)


def device_problem(
    pod: Pod, entry: MapEntry, node_info: NodeInfo, store: DraStore
) -> Reason | None:
    """The reason why the line's devices are not available on the node, or None."""
    node, gpus = node_info.node, node_info.dra_gpus
    assert node is not None
    if gpus is not None and node_info.has_indexes_for(pod):
        return dra_device_problem(pod, entry, node_info, gpus, store)
    failed = failed_gpus(node_info).intersection(entry.devices)
    problem = broken(min(failed)) if failed else absence(node, entry.devices)
    if problem is not None:
        return problem
    if not node_info.has_indexes_for(pod):
        return None  # the kubelet assigns GPUs: no pod holds an index
    return (
        mig_gpu_reason(node, entry.devices)
        or _handed_out(pod, node_info)
        or _held(pod, entry, node_info)
    )


def _handed_out(pod: Pod, node_info: NodeInfo) -> Reason | None:
    """The reason if another component assigns GPUs to pods here, so the free ones are unknown."""
    node = node_info.node
    assert node is not None
    if node_info.claims and not node.honours_indexes:
        return CLAIMED
    if not node.is_index_assigned and node_info.usage.holds_plugin_devices:
        return KUBELET_PICKS
    if not pod.gpu_requests and node_info.usage.holds_slices:
        return KUBELET_PICKS  # the GPU of a future MIG instance is not known yet
    if node.is_index_assigned and node_info.usage.unknown:
        return NUMBERS_UNKNOWN
    return None


def literal_problem(pod: Pod, entry: MapEntry, node_info: NodeInfo) -> Reason | None:
    """The reason if a literal environment variable of a container differs from the current map.

    Only where the indexes of the map reach the containers: elsewhere the author owns the literal.
    """
    mode = cuda_mode(pod)
    if (
        mode is CudaMode.NONE
        or node_info.dra_gpus is not None
        or not node_info.has_indexes_for(pod)
    ):
        return None
    requests = container_gpus(pod)
    shares = device_shares(requests, entry.devices) if devices_needed(requests) else None
    for position, container in enumerate(pod.containers):
        expected = visible(entry.devices if shares is None else shares[position], mode)
        literal = container.cuda_literal
        if literal is not None and expected and literal != expected:
            return refused(
                MAP_CHANGED,
                f"MapChanged: container {container.name} was created with CUDA_VISIBLE_DEVICES"
                f"={literal[:40]} and gpu-scheduling-map now says {expected}; recreate the pod",
            )
    return None


def _shares_problem(pod: Pod, entry: MapEntry) -> Reason | None:
    needed = devices_needed(container_gpus(pod))
    if not needed or needed == len(entry.devices):
        return None
    return refused(
        MAP_REQUEST_MISMATCH,
        f"the containers request {needed} GPUs and line {entry.index} of gpu-scheduling-map"
        f" gives {len(entry.devices)}",
    )


def _resolved(entry: MapEntry, view: View) -> Target | Reason:
    found = view.resolve(entry.node)
    if not found:
        return refused(
            MAP_NODE_UNKNOWN,
            f"no node is named {entry.node} or labelled gpu-node-name={entry.node}",
        )
    if len(found) > 1:
        return refused(
            MAP_NODE_AMBIGUOUS,
            f"{entry.node} of gpu-scheduling-map fits {len(found)} nodes:"
            f" {' and '.join(sorted(found)[:3])}",
        )
    return Target(next(iter(found)), entry)


def _held(pod: Pod, entry: MapEntry, node_info: NodeInfo) -> Reason | None:
    holders = node_info.usage.holders
    for number in entry.devices:
        for allocation in holders.get(number, ()):
            if not allocation.is_mapped or allocation.sharing != pod.sharing:
                return Reason(
                    code=DEVICE_HELD,
                    text=f"node(s) where GPU {number} is held by a pod that does not share it",
                )
    return None


def crowding(pod: Pod, entry: MapEntry, node_info: NodeInfo) -> Pod | None:
    """A sibling with another map, as during a rollout, that holds one of the line's devices.

    Siblings may share a device, but a line without such a sibling is preferred. A sibling in
    deletion is named first: its device becomes free soon.
    """
    holders = node_info.usage.holders
    if not any(number in holders for number in entry.devices):
        return None
    wanted = frozenset(entry.devices)
    found = [
        other
        for other, allocation in node_info.pods.values()
        if other.map_text != pod.map_text and not wanted.isdisjoint(allocation.numbers)
    ]
    return min(found, key=lambda other: (not other.is_deleting, other.name), default=None)


def leaving(sibling: Pod, entry: MapEntry, node_info: NodeInfo) -> Reason:
    """The reason while the sibling that holds the line is being deleted."""
    _, allocation = node_info.pods[sibling.uid]
    number = next(number for number in entry.devices if number in allocation.numbers)
    return Reason(
        code=DEVICE_HELD,
        text=f"node(s) where GPU {number} is held by pod {sibling.name} until that pod is deleted",
    )


def absence(node: Node, devices: Sequence[int]) -> Reason | None:
    """The reason if a node cannot assign these devices to any pod: a GPU is missing or failed.

    The physical GPUs count: fewer are advertised while some are unhealthy, more if they are shared.
    """
    if failed := node.failed_gpus.intersection(devices):
        return broken(min(failed))
    count = node.physical_gpu_count
    if count is None or max(devices) < count:
        return None
    return without_gpu(max(devices), count)


def mig_gpu_reason(node: Node, devices: Sequence[int]) -> Reason | None:
    """The reason if one of these devices has MIG instances, so no container can use it as a whole
    GPU.
    """
    there = node.mig_gpus
    found = devices if there is None else [index for index in devices if index in there]
    return has_mig(min(found)) if found else None
