"""A reason code: the properties of one kind of rejection, declared by the plugin that gives it.

``plugins.REASON_CODES`` has the codes of all plugins and those of ``framework/reason_codes``;
``docs/reasons.md`` is generated from them.
"""

from __future__ import annotations

import enum

import msgspec

from scheduler.model.reasons.condition_reason import ConditionReason


class RequeueCause(enum.Enum):
    """The kind of cluster change after which a retry can succeed."""

    POD = "the pod itself changed"
    FREED = "a pod on a node was deleted or finished"
    PODS_IN_DOMAIN = (
        "a pod that a term counts was placed, deleted or relabelled, or a domain changed"
    )
    NODE = "a node was added, or its labels, taints or allocatable changed"
    NAMESPACE = "a namespace's labels or annotations changed"
    DEVICES = "the device assignment of a pod became known"
    OWNER = "a pod of the same owner was deleted or finished"
    AVOIDED = "the backoff of a node or GPU expired"
    PAUSE = "a backoff of up to one minute expired"
    CLAIM = (
        "a PersistentVolumeClaim of the pod was created or changed, or another pod stopped using it"
    )
    STORAGE = "a PersistentVolume, a StorageClass, a CSIStorageCapacity or a CSINode changed"
    RESOURCE_CLAIM = "a ResourceClaim of the pod was created or changed"
    RESOURCE_DEVICES = (
        "a ResourceClaim was deallocated, or a ResourceSlice, a DeviceClass or a DeviceTaintRule"
        " changed"
    )
    GROUP = "a member or the minimum of the pod's group was created or changed"
    TEAM = "the pod's team uses less, or may use more"
    ADMISSION = "the pod was created again and passed the webhook"


class ReasonCode(msgspec.Struct, frozen=True, kw_only=True, cache_hash=True):
    """One kind of rejection.

    ``meaning`` is one clause; ``lifted_by`` are the kinds of change after which a retry can
    succeed; ``stage`` names the plugin, by kube-scheduler's name where it has one; ``next_step`` is
    the remediation; ``words`` are regular expressions that match the start of the code's messages
    and of no other code's. ``condition`` is the reason of the condition ``PodScheduled``; None
    where the rejection is of one node and another node may take the pod.

    What a pod waits for at RequeueCause.FREED: the resource that the reason names with
    ``is_about_resource``, else the resource ``frees``, else the end of any pod. With
    ``is_for_siblings`` the rejection holds for all interchangeable pods of one workload and map,
    with ``is_for_class`` for all pods of one equivalence class although it is of the whole pod.
    """

    name: str
    meaning: str
    lifted_by: tuple[RequeueCause, ...]
    stage: str
    next_step: str
    words: tuple[str, ...]
    condition: ConditionReason | None = None
    is_about_resource: bool = False
    frees: str = ""
    is_for_siblings: bool = False
    is_for_class: bool = False
