"""Reason codes of both GPU plugins: which component assigns a node's GPUs, and whether their
indexes are known.
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

NUMBERS_UNKNOWN: Final = Reason(
    code=DEVICE_ASSIGNMENT_UNKNOWN, text="node(s) run pods whose GPU indexes are unknown"
)
NOTHING_TO_READ: Final = Reason(
    code=NO_DEVICE_FOR_ENV,
    text="node(s) with kubelet-assigned GPUs leave the annotation of a container's devices empty",
    resolvable=False,
)
