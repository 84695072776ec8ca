"""The table of every "no" that the scheduler can give, and what would lift it.

It is the only one: ``docs/reasons.md`` is generated from it, and what to do about each code
stands in ``model/advice``.
"""

from __future__ import annotations

import enum


class Cause(enum.Enum):
    """What would have to change in the cluster before a retry can help."""

    POD = "the pod itself changed"
    FREED = "a pod that held something on a node went away"
    NODE = "a node appeared, or its labels, taints or allocatable changed"
    NAMESPACE = "a namespace's labels or annotations changed"
    DEVICES = "which devices a pod holds became known"
    OWNER = "a pod of the same owner went away"
    AVOIDED = "the pause of a node that rejected pods is over"
    PAUSE = "a pause that grows to a minute is over"
    ADMISSION = "the pod is created again, and this time the webhook is asked"


class Code(enum.Enum):
    """Every rejection the scheduler can give: code -> (meaning, causes that lift it)."""

    NODE_UNSCHEDULABLE = ("the node is cordoned", (Cause.NODE, Cause.POD))
    TAINT = ("the node has a taint that the pod does not tolerate", (Cause.NODE, Cause.POD))
    AFFINITY = ("node selector or required node affinity", (Cause.NODE, Cause.POD))
    PORTS = ("a host port of the pod is taken", (Cause.FREED, Cause.NODE))
    TOO_MANY_PODS = ("the node's pod limit is reached", (Cause.FREED, Cause.NODE))
    INSUFFICIENT = ("not enough of a resource is free", (Cause.FREED, Cause.NODE))
    NO_ROOM_TOGETHER = (
        "on GPUs that are cut to order, the pod's MIG instances fit one by one but not together",
        (Cause.FREED, Cause.NODE),
    )
    MIG_NOT_READY = ("the node's GPUs are being cut, or cutting them failed", (Cause.NODE,))
    GPUS_ARE_SLICES = (
        "on this node nvidia.com/gpu counts MIG slices, and one container asked for several",
        (Cause.NODE, Cause.POD),
    )
    GPU_MEMORY_TOO_SMALL = (
        "the node's GPUs, or the shares of one that pods get there, have too little memory",
        (Cause.NODE, Cause.POD),
    )
    GPU_MEMORY_UNKNOWN = (
        "the node has no label nvidia.com/gpu.memory, and the pod asks for GPU memory",
        (Cause.NODE, Cause.POD),
    )
    GPU_RESTS = (
        "a MIG instance that was asked for was not cut, and the GPU rests for a while",
        (Cause.AVOIDED, Cause.FREED, Cause.NODE),
    )
    NODE_COUNTS_DEVICES = (
        "on this node the kubelet picks the GPU, so mapped and counted GPU pods cannot mix",
        (Cause.FREED, Cause.NODE),
    )
    DEVICE_HELD = ("a mapped device is held by a pod that does not share it", (Cause.FREED,))
    DEVICE_NOT_FOUND = (
        "the map names a device that the node does not have, or a GPU that is cut",
        (Cause.NODE, Cause.POD),
    )
    DEVICE_FAILED = (
        "the map names a GPU that failed",
        (Cause.NODE, Cause.POD, Cause.DEVICES, Cause.FREED),
    )
    DEVICES_UNKNOWN = (
        "a pod on the node holds GPUs whose numbers are not known yet",
        (Cause.FREED, Cause.DEVICES, Cause.NODE),
    )
    NODE_AVOIDED = (
        "the node rejected pods that ask for the same again and again, and rests for a while",
        (Cause.AVOIDED, Cause.NODE),
    )
    TOO_MANY_IN_ONE_CONTAINER = (
        "the node's device plugin refused a pod of which one container asks for as many",
        (Cause.AVOIDED, Cause.NODE, Cause.POD),
    )
    NOT_IN_MAP = ("the map names another node for this pod", (Cause.NODE, Cause.POD))
    MAP_INVALID = ("the map cannot be read", (Cause.POD,))
    MAP_NOT_ALLOWED = ("the namespace may not use maps", (Cause.NAMESPACE,))
    MAP_NODE_UNKNOWN = ("no node has the name or label that the map gives", (Cause.NODE,))
    MAP_NODE_AMBIGUOUS = ("the map's node name fits several nodes", (Cause.NODE,))
    MAP_CHANGED = ("the map changed after the devices were written into the pod", (Cause.POD,))
    INDEX_UNKNOWN = ("the pod's index cannot be told", (Cause.POD,))
    INDEX_NOT_IN_MAP = ("the map has no line for the pod's index", (Cause.POD,))
    INDEX_HELD = ("another live pod of the same owner holds the index", (Cause.OWNER,))
    INDEX_HELD_BY_OLDER_REVISION = (
        "all indexes are held by pods of an older revision",
        (Cause.OWNER,),
    )
    NO_LINE_LEFT = (
        "siblings hold every line of the map, or every line that its node and devices allow",
        (Cause.OWNER,),
    )
    SHARES_MISMATCH = ("the containers' GPU requests do not add up to the map", (Cause.POD,))
    NO_VALUE_FOR_ENV = (
        "a container reads its devices from an annotation that would stay empty",
        (Cause.POD, Cause.NODE),
    )
    NOT_MUTATED = (
        "the pod was created without the webhook, so its containers were not told their GPUs, or"
        " got no request for them",
        (Cause.ADMISSION,),
    )
    UNREADABLE = (
        "a part of the pod cannot be read, or is beyond its bound (docs/limits.md)",
        (Cause.POD,),
    )
    NODE_UNREADABLE = (
        "the node or a pod on it cannot be read, or is beyond its bound (docs/limits.md)",
        (Cause.NODE, Cause.FREED, Cause.DEVICES),
    )
    INTERNAL = (
        "the scheduler raised an exception at this pod; its log has the id in the sentence",
        (Cause.POD, Cause.PAUSE),
    )
    UNSUPPORTED = ("the pod uses a field that this scheduler does not implement", (Cause.POD,))
    TOO_COMPLEX = (
        "deciding about the pod would take more steps than one decision may take",
        (Cause.POD,),
    )
    NO_NODES = ("the cluster has no nodes", (Cause.NODE,))

    @property
    def meaning(self) -> str:
        """One clause for people who read the table."""
        meaning: str = self.value[0]
        return meaning

    @property
    def causes(self) -> tuple[Cause, ...]:
        """The kinds of change after which a retry may succeed."""
        causes: tuple[Cause, ...] = self.value[1]
        return causes
