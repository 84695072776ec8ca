"""The reason of the condition ``PodScheduled`` of a pending pod, which autoscalers read.

cluster-autoscaler and Karpenter add nodes for every pod with the reason ``Unschedulable`` and
without a nominated node. So ``Unschedulable`` means only that another node would help. Rejections
that only a changed pod, a changed map or time can resolve have reasons of their own.

A map names its node, so another node never helps a pod with a map. This includes a map whose node
does not exist: an autoscaler cannot create a node with a given name.
"""

from __future__ import annotations

import enum
from typing import Final


class ConditionReason(enum.StrEnum):
    """All reasons, in the order of precedence."""

    SCHEDULER_ERROR = "SchedulerError"
    NO_SUCH_PROFILE = "NoSuchProfile"
    #: Where some nodes are too small, a larger one would not help beyond the quota.
    QUOTA_EXCEEDED = "QuotaExceeded"
    UNSCHEDULABLE = "Unschedulable"
    WAITING_FOR_GROUP = "WaitingForGroup"
    WAITING_FOR_CAPACITY = "WaitingForCapacity"
    WAITING_FOR_VOLUME = "WaitingForVolume"
    WAITING_FOR_CLAIM = "WaitingForClaim"
    UNKNOWN_TOPOLOGY = "UnknownTopology"
    UNREADABLE_POD = "UnreadablePod"
    UNSUPPORTED_FIELD = "UnsupportedField"
    TOO_COMPLEX = "TooComplex"
    NO_DEVICE_FOR_ENV = "NoDeviceForEnv"
    NOT_MUTATED = "NotMutated"
    MAPS_NOT_ALLOWED = "MapsNotAllowed"
    INVALID_MAP = "InvalidMap"
    MAP_CHANGED = "MapChanged"
    INDEX_UNKNOWN = "IndexUnknown"
    INDEX_NOT_IN_MAP = "IndexNotInMap"
    INDEX_HELD = "IndexHeld"
    INDEX_HELD_BY_OLDER_REVISION = "IndexHeldByOlderRevision"
    NO_FREE_MAP_LINE = "NoFreeMapLine"
    DEVICE_NOT_FOUND = "DeviceNotFound"
    WAITING_FOR_MAPPED_NODE = "WaitingForMappedNode"

    @property
    def meaning(self) -> str:
        """The meaning of the reason, one clause."""
        return _MEANINGS[self]


_R: Final = ConditionReason

_MEANINGS: Final = {
    _R.SCHEDULER_ERROR: "the scheduler raised an exception for the pod, or the Binding, the"
    " creation of MIG instances or the binding of volumes failed",
    _R.NO_SUCH_PROFILE: "no GPU model in the cluster has the requested MIG profile",
    _R.UNSCHEDULABLE: "another node would help",
    _R.WAITING_FOR_GROUP: "members of the pod's group are missing, or the object with its minimum",
    _R.QUOTA_EXCEEDED: "the pod's team would use more than its quota allows",
    _R.WAITING_FOR_CAPACITY: "capacity becomes free, MIG instances are being created or volumes are"
    " being bound; the node is in `status.nominatedNodeName`",
    _R.WAITING_FOR_VOLUME: "a PersistentVolumeClaim of the pod is missing, not bound or in use; no"
    " other node would help",
    _R.WAITING_FOR_CLAIM: "a ResourceClaim of the pod or its DeviceClass is missing, being"
    " allocated or not usable; no other node would help",
    _R.UNKNOWN_TOPOLOGY: "no node has the label of the level that the pod's topology annotation"
    " requires",
    _R.UNREADABLE_POD: "a field of the pod is invalid or exceeds its limit",
    _R.UNSUPPORTED_FIELD: "the pod uses a field that this scheduler does not implement",
    _R.TOO_COMPLEX: "one scheduling decision for the pod exceeds the step limit",
    _R.NO_DEVICE_FOR_ENV: "a container reads its devices from an annotation that would stay empty",
    _R.NOT_MUTATED: "the pod was created without the webhook",
    _R.MAPS_NOT_ALLOWED: "the pod's namespace may not use maps",
    _R.INVALID_MAP: "the map is invalid or ambiguous, or does not match the pod's requests",
    _R.MAP_CHANGED: "the map changed after CUDA_VISIBLE_DEVICES was written into the pod",
    _R.INDEX_UNKNOWN: "the index of the pod is unknown",
    _R.INDEX_NOT_IN_MAP: "the map has no line for the pod's index",
    _R.INDEX_HELD: "another pod of the owner holds the index",
    _R.INDEX_HELD_BY_OLDER_REVISION: "pods of an older revision hold all indexes",
    _R.NO_FREE_MAP_LINE: "no line of the map is available: other pods of the owner use some, and"
    " the nodes or devices of the others are not available",
    _R.DEVICE_NOT_FOUND: "the map names a device that its node does not have",
    _R.WAITING_FOR_MAPPED_NODE: "the node that the map names does not exist or cannot take the pod"
    " now; no other node would help",
}

#: Where several reasons hold, the first one is written.
ORDER: Final = {reason: place for place, reason in enumerate(ConditionReason)}
