"""The table of every "no" that the scheduler can give, and what would lift it.

It is the only one: ``docs/reasons.md`` is generated from it, and what to do about each code
stands in ``model/remediation``.
"""

from __future__ import annotations

import enum


class RequeueCause(enum.Enum):
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


class ReasonCode(enum.Enum):
    """Every rejection the scheduler can give: code -> (meaning, causes that lift it)."""

    NODE_UNSCHEDULABLE = ("the node is cordoned", (RequeueCause.NODE, RequeueCause.POD))
    TAINT = (
        "the node has a taint that the pod does not tolerate",
        (RequeueCause.NODE, RequeueCause.POD),
    )
    AFFINITY = ("node selector or required node affinity", (RequeueCause.NODE, RequeueCause.POD))
    PORTS = ("a host port of the pod is taken", (RequeueCause.FREED, RequeueCause.NODE))
    TOO_MANY_PODS = ("the node's pod limit is reached", (RequeueCause.FREED, RequeueCause.NODE))
    INSUFFICIENT = ("not enough of a resource is free", (RequeueCause.FREED, RequeueCause.NODE))
    NO_ROOM_TOGETHER = (
        "on GPUs that are cut to order, the pod's MIG instances fit one by one but not together",
        (RequeueCause.FREED, RequeueCause.NODE),
    )
    MIG_NOT_READY = ("the node's GPUs are being cut, or cutting them failed", (RequeueCause.NODE,))
    GPUS_ARE_SLICES = (
        "on this node nvidia.com/gpu counts MIG slices, and one container asked for several",
        (RequeueCause.NODE, RequeueCause.POD),
    )
    GPU_MEMORY_TOO_SMALL = (
        "the node's GPUs, or the shares of one that pods get there, have too little memory",
        (RequeueCause.NODE, RequeueCause.POD),
    )
    GPU_MEMORY_UNKNOWN = (
        "the node has no label nvidia.com/gpu.memory, and the pod asks for GPU memory",
        (RequeueCause.NODE, RequeueCause.POD),
    )
    GPU_RESTS = (
        "a MIG instance that was asked for was not cut, and the GPU rests for a while",
        (RequeueCause.AVOIDED, RequeueCause.FREED, RequeueCause.NODE),
    )
    NODE_COUNTS_DEVICES = (
        "on this node the kubelet picks the GPU, so mapped and counted GPU pods cannot mix",
        (RequeueCause.FREED, RequeueCause.NODE),
    )
    DEVICE_HELD = ("a mapped device is held by a pod that does not share it", (RequeueCause.FREED,))
    DEVICE_NOT_FOUND = (
        "the map names a device that the node does not have, or a GPU that is cut",
        (RequeueCause.NODE, RequeueCause.POD),
    )
    DEVICE_FAILED = (
        "the map names a GPU that failed",
        (RequeueCause.NODE, RequeueCause.POD, RequeueCause.DEVICES, RequeueCause.FREED),
    )
    DEVICES_UNKNOWN = (
        "a pod on the node holds GPUs whose numbers are not known yet",
        (RequeueCause.FREED, RequeueCause.DEVICES, RequeueCause.NODE),
    )
    NODE_AVOIDED = (
        "the node rejected pods that ask for the same again and again, and rests for a while",
        (RequeueCause.AVOIDED, RequeueCause.NODE),
    )
    TOO_MANY_IN_ONE_CONTAINER = (
        "the node's device plugin refused a pod of which one container asks for as many",
        (RequeueCause.AVOIDED, RequeueCause.NODE, RequeueCause.POD),
    )
    NOT_IN_MAP = ("the map names another node for this pod", (RequeueCause.NODE, RequeueCause.POD))
    MAP_INVALID = ("the map cannot be read", (RequeueCause.POD,))
    MAP_NOT_ALLOWED = ("the namespace may not use maps", (RequeueCause.NAMESPACE,))
    MAP_NODE_UNKNOWN = ("no node has the name or label that the map gives", (RequeueCause.NODE,))
    MAP_NODE_AMBIGUOUS = ("the map's node name fits several nodes", (RequeueCause.NODE,))
    MAP_CHANGED = (
        "the map changed after the devices were written into the pod",
        (RequeueCause.POD,),
    )
    INDEX_UNKNOWN = ("the pod's index cannot be told", (RequeueCause.POD,))
    INDEX_NOT_IN_MAP = ("the map has no line for the pod's index", (RequeueCause.POD,))
    INDEX_HELD = ("another live pod of the same owner holds the index", (RequeueCause.OWNER,))
    INDEX_HELD_BY_OLDER_REVISION = (
        "all indexes are held by pods of an older revision",
        (RequeueCause.OWNER,),
    )
    NO_LINE_LEFT = (
        "siblings hold every line of the map, or every line that its node and devices allow",
        (RequeueCause.OWNER,),
    )
    SHARES_MISMATCH = ("the containers' GPU requests do not add up to the map", (RequeueCause.POD,))
    NO_VALUE_FOR_ENV = (
        "a container reads its devices from an annotation that would stay empty",
        (RequeueCause.POD, RequeueCause.NODE),
    )
    NOT_MUTATED = (
        "the pod was created without the webhook, so its containers were not told their GPUs, or"
        " got no request for them",
        (RequeueCause.ADMISSION,),
    )
    UNREADABLE = (
        "a part of the pod cannot be read, or is beyond its bound (docs/limits.md)",
        (RequeueCause.POD,),
    )
    NODE_UNREADABLE = (
        "the node or a pod on it cannot be read, or is beyond its bound (docs/limits.md)",
        (RequeueCause.NODE, RequeueCause.FREED, RequeueCause.DEVICES),
    )
    INTERNAL = (
        "the scheduler raised an exception at this pod; its log has the id in the sentence",
        (RequeueCause.POD, RequeueCause.PAUSE),
    )
    UNSUPPORTED = (
        "the pod uses a field that this scheduler does not implement",
        (RequeueCause.POD,),
    )
    TOO_COMPLEX = (
        "deciding about the pod would take more steps than one decision may take",
        (RequeueCause.POD,),
    )
    NO_NODES = ("the cluster has no nodes", (RequeueCause.NODE,))

    @property
    def meaning(self) -> str:
        """One clause for people who read the table."""
        meaning: str = self.value[0]
        return meaning

    @property
    def causes(self) -> tuple[RequeueCause, ...]:
        """The kinds of change after which a retry may succeed."""
        causes: tuple[RequeueCause, ...] = self.value[1]
        return causes
