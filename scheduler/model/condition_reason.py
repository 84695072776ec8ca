"""The reason of the condition ``PodScheduled`` while a pod waits: what autoscalers act on.

cluster-autoscaler and Karpenter take every pod with reason ``Unschedulable`` and without a
nominated node for a wish for nodes. So that word means that another node would help, and nothing
else. What only a changed pod, a changed map or a wait can lift has a word of its own.

A map names its node, so another node never helps a mapped pod. That holds as well where no node has
the name yet: a node of that name may come, but an autoscaler cannot be asked for it.
"""

from __future__ import annotations

import enum
from typing import Final


class ConditionReason(enum.StrEnum):
    """All reasons; where several hold, the first one here is written."""

    SCHEDULER_ERROR = "SchedulerError"
    NO_SUCH_PROFILE = "NoSuchProfile"
    UNSCHEDULABLE = "Unschedulable"
    WAITING_FOR_GROUP = "WaitingForGroup"
    QUOTA_EXCEEDED = "QuotaExceeded"
    WAITING_FOR_CAPACITY = "WaitingForCapacity"
    UNREADABLE_POD = "UnreadablePod"
    UNSUPPORTED_FIELD = "UnsupportedField"
    TOO_COMPLEX = "TooComplex"
    NO_DEVICES_TO_READ = "NoDevicesToRead"
    NOT_MUTATED = "NotMutated"
    MAPS_NOT_ALLOWED = "MapsNotAllowed"
    INVALID_MAP = "InvalidMap"
    MAP_CHANGED = "MapChanged"
    INDEX_UNKNOWN = "IndexUnknown"
    INDEX_NOT_IN_MAP = "IndexNotInMap"
    INDEX_HELD = "IndexHeld"
    INDEX_HELD_BY_OLDER_REVISION = "IndexHeldByOlderRevision"
    NO_LINE_LEFT = "NoLineLeft"
    DEVICE_NOT_FOUND = "DeviceNotFound"
    WAITING_FOR_MAPPED_NODE = "WaitingForMappedNode"

    @property
    def meaning(self) -> str:
        """One clause for people who read the table."""
        return _MEANINGS[self]


_R: Final = ConditionReason

_MEANINGS: Final = {
    _R.SCHEDULER_ERROR: "the scheduler failed at the pod, or a node was found and the Binding or"
    " the cutting of MIG instances failed",
    _R.NO_SUCH_PROFILE: "no GPU model here has the MIG profile that the pod asks for",
    _R.UNSCHEDULABLE: "another node would help",
    _R.WAITING_FOR_GROUP: "reserved: members of the pod's group are missing",
    _R.QUOTA_EXCEEDED: "reserved: the pod's team holds as much as it may",
    _R.WAITING_FOR_CAPACITY: "a node becomes free for the pod, or is being cut for it; it stands in"
    " `status.nominatedNodeName`",
    _R.UNREADABLE_POD: "a part of the pod cannot be read, or is beyond its bound",
    _R.UNSUPPORTED_FIELD: "the pod uses a field that this scheduler does not implement",
    _R.TOO_COMPLEX: "one decision about the pod takes more steps than it may",
    _R.NO_DEVICES_TO_READ: "a container reads its devices from an annotation that would stay empty",
    _R.NOT_MUTATED: "the pod was created without the webhook",
    _R.MAPS_NOT_ALLOWED: "the pod's namespace may not use maps",
    _R.INVALID_MAP: "the map cannot be read, is ambiguous, or does not fit the pod's requests",
    _R.MAP_CHANGED: "the map changed after the devices were written into the pod",
    _R.INDEX_UNKNOWN: "the pod's index cannot be told",
    _R.INDEX_NOT_IN_MAP: "the map has no line for the pod's index",
    _R.INDEX_HELD: "a sibling holds the pod's index",
    _R.INDEX_HELD_BY_OLDER_REVISION: "pods of an older revision hold all indexes",
    _R.NO_LINE_LEFT: "no line of the map can be had: siblings hold some, the nodes or devices of"
    " the others cannot be had",
    _R.DEVICE_NOT_FOUND: "the map names a device that its node does not have",
    _R.WAITING_FOR_MAPPED_NODE: "the node that the map names does not exist or cannot take the pod"
    " now; no other node would help",
}

#: Where several reasons hold, the first one is written.
ORDER: Final = {reason: place for place, reason in enumerate(ConditionReason)}
