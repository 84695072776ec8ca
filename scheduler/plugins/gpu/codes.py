"""Reason codes of both GPU plugins: which component assigns a node's GPUs, whether their indexes
are known, and which GPUs a map cannot have.
"""

from __future__ import annotations

from typing import Final

from scheduler.model.reasons.condition_reason import ConditionReason
from scheduler.model.reasons.reason import Reason
from scheduler.model.reasons.reason_code import ReasonCode, RequeueCause

KUBELET_ASSIGNS_DEVICES = ReasonCode(
    name="KUBELET_ASSIGNS_DEVICES",
    meaning=(
        "the kubelet assigns the GPUs of the node, so pods with and without a map cannot share it"
    ),
    lifted_by=(
        RequeueCause.FREED,
        RequeueCause.NODE,
    ),
    stage="GPUDevices",
    next_step=(
        "keep pods with a map and pods that request nvidia.com/gpu on different nodes, or"
        " use a device plugin that honours indexes (node label"
        " gpu-scheduler.io/devices=numbered)"
    ),
    words=(r"node\(s\) with kubelet-assigned GPUs run",),
)
DEVICE_ASSIGNMENT_UNKNOWN = ReasonCode(
    name="DEVICE_ASSIGNMENT_UNKNOWN",
    meaning="the GPU indexes of a pod on the node are not known yet",
    lifted_by=(
        RequeueCause.FREED,
        RequeueCause.DEVICES,
        RequeueCause.NODE,
    ),
    stage="GPUDevices",
    next_step=(
        "wait; if it persists, recreate the pods on the node whose annotation"
        " gpu-scheduler.io/devices is missing or invalid; if pods with resource claims"
        " run there, use another node in the map"
    ),
    words=(r"node\(s\) run pods (whose GPU indexes are unknown|with resource claims)",),
)
NO_DEVICE_FOR_ENV = ReasonCode(
    name="NO_DEVICE_FOR_ENV",
    meaning="a container reads its devices from an annotation that would stay empty",
    lifted_by=(
        RequeueCause.POD,
        RequeueCause.NODE,
    ),
    stage="GPUDevices",
    next_step=(
        "add a map or a request for nvidia.com/gpu, or remove the environment variable"
        " that reads the annotation"
    ),
    words=(
        r"node\(s\) with kubelet-assigned GPUs leave the annotation",
        r"a container reads its devices from the annotation",
    ),
    condition=ConditionReason.NO_DEVICE_FOR_ENV,
)
DEVICE_HELD = ReasonCode(
    name="DEVICE_HELD",
    meaning="a device of the map is assigned to a pod that does not share it",
    lifted_by=(RequeueCause.FREED, RequeueCause.RESOURCE_DEVICES),
    stage="GPUMap",
    next_step="name other devices in the map, or delete the pod that uses them; pods share a DRA"
    " device by one ResourceClaim only",
    words=(r"node\(s\) where GPU \d+ is held",),
)
DEVICE_NOT_FOUND = ReasonCode(
    name="DEVICE_NOT_FOUND",
    meaning="the map names a device that the node does not have, or a GPU with MIG instances",
    lifted_by=(
        RequeueCause.NODE,
        RequeueCause.POD,
        RequeueCause.RESOURCE_DEVICES,
    ),
    stage="GPUMap",
    next_step="name only GPUs that the node has and that have no MIG instances, counted from 0",
    words=(r"node\(s\) (without GPU \d+|whose GPU \d+ has MIG)",),
    condition=ConditionReason.DEVICE_NOT_FOUND,
)
DEVICE_FAILED = ReasonCode(
    name="DEVICE_FAILED",
    meaning="the map names a failed GPU, or a DRA device with a taint",
    lifted_by=(
        RequeueCause.NODE,
        RequeueCause.POD,
        RequeueCause.DEVICES,
        RequeueCause.FREED,
        RequeueCause.RESOURCE_DEVICES,
    ),
    stage="GPUMap",
    next_step="name another device in the map, or wait until the node's GPU is repaired",
    words=(r"node\(s\) whose GPU \d+ (failed|has the taint)",),
)

NUMBERS_UNKNOWN: Final = Reason(
    code=DEVICE_ASSIGNMENT_UNKNOWN, text="node(s) run pods whose GPU indexes are unknown"
)
NOTHING_TO_READ: Final = Reason(
    code=NO_DEVICE_FOR_ENV,
    text="node(s) with kubelet-assigned GPUs leave the annotation of a container's devices empty",
    resolvable=False,
)


def _not_there(text: str) -> Reason:
    return Reason(code=DEVICE_NOT_FOUND, text=text, resolvable=False)


def without_gpu(index: int, count: int) -> Reason:
    """The rejection of a map with a GPU that the node does not have; it has ``count``."""
    return _not_there(f"node(s) without GPU {index} (the node has {count})")


def has_mig(index: int) -> Reason:
    """The rejection of a map with a GPU that pods get in MIG instances only."""
    return _not_there(f"node(s) whose GPU {index} has MIG instances")


def broken(index: int) -> Reason:
    """The rejection of a map with a failed GPU."""
    text = f"node(s) whose GPU {index} failed"
    return Reason(code=DEVICE_FAILED, text=text, resolvable=False)
