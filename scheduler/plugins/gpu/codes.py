"""Reason codes of both GPU plugins: who picks the GPUs of a node, and are their numbers known."""

from __future__ import annotations

from typing import Final

from scheduler.model.condition_reason import ConditionReason
from scheduler.model.reason import Reason
from scheduler.model.reason_code import ReasonCode, RequeueCause

NODE_COUNTS_DEVICES = ReasonCode(
    name="NODE_COUNTS_DEVICES",
    meaning=("on this node the kubelet picks the GPU, so mapped and counted GPU pods cannot mix"),
    lifted_by=(
        RequeueCause.FREED,
        RequeueCause.NODE,
    ),
    stage="GPUDevices",
    next_step=(
        "keep mapped pods and pods that request nvidia.com/gpu on different"
        " nodes, or use a device plugin that honours numbers (node label"
        " gpu-scheduler.io/devices=numbered)"
    ),
    words=(r"node\(s\) where the kubelet picks GPUs run",),
)
DEVICES_UNKNOWN = ReasonCode(
    name="DEVICES_UNKNOWN",
    meaning="a pod on the node holds GPUs whose numbers are not known yet",
    lifted_by=(
        RequeueCause.FREED,
        RequeueCause.DEVICES,
        RequeueCause.NODE,
    ),
    stage="GPUDevices",
    next_step=(
        "nothing, if it passes; else recreate the pods on the node whose"
        " annotation gpu-scheduler.io/devices is missing or unreadable; where"
        " pods with resource claims run, map to another node"
    ),
    words=(r"node\(s\) (had GPUs held under unknown numbers|run pods with resource claims)",),
)
NO_VALUE_FOR_ENV = ReasonCode(
    name="NO_VALUE_FOR_ENV",
    meaning="a container reads its devices from an annotation that would stay empty",
    lifted_by=(
        RequeueCause.POD,
        RequeueCause.NODE,
    ),
    stage="GPUDevices",
    next_step=(
        "give the pod a map or a request for nvidia.com/gpu, or take the entry"
        " that reads the annotation out of its environment"
    ),
    words=(
        r"node\(s\) where the kubelet picks GPUs for a container",
        r"a container reads its devices from the annotation",
    ),
    condition=ConditionReason.NO_DEVICES_TO_READ,
)

NUMBERS_UNKNOWN: Final = Reason(
    code=DEVICES_UNKNOWN, text="node(s) had GPUs held under unknown numbers"
)
NOTHING_TO_READ: Final = Reason(
    code=NO_VALUE_FOR_ENV,
    text="node(s) where the kubelet picks GPUs for a container that reads its devices",
    resolvable=False,
)
