"""Reason codes about ResourceClaims; every sentence begins with kube-scheduler's."""

from __future__ import annotations

from typing import Final

from scheduler.model.reasons.condition_reason import ConditionReason
from scheduler.model.reasons.reason_code import ReasonCode, RequeueCause

STAGE: Final = "DynamicResources"
_CLAIM: Final = (RequeueCause.RESOURCE_CLAIM,)
_DEVICES: Final = (RequeueCause.RESOURCE_DEVICES, RequeueCause.RESOURCE_CLAIM)
_PLACE: Final = (*_DEVICES, RequeueCause.NODE)
#: Names of claims in a reason.
SHOWN_MAX: Final = 3
_WAITS: Final = ConditionReason.WAITING_FOR_CLAIM

RESOURCE_CLAIM_NOT_FOUND = ReasonCode(
    name="RESOURCE_CLAIM_NOT_FOUND",
    meaning="a ResourceClaim of the pod does not exist yet or cannot be read",
    lifted_by=(RequeueCause.POD, *_CLAIM),
    stage=STAGE,
    next_step="create the ResourceClaim or its ResourceClaimTemplate in the namespace of the pod;"
    " kube-controller-manager creates claims from templates",
    words=(
        r'resourceclaim "[^"]+" (not found|cannot be read)',
        r'pod "[^"]+": ResourceClaim not created yet',
    ),
    condition=_WAITS,
)
RESOURCE_CLAIM_NOT_USABLE = ReasonCode(
    name="RESOURCE_CLAIM_NOT_USABLE",
    meaning="a ResourceClaim of the pod is being deleted, belongs to another pod, is used by too"
    " many pods, or has a request of an unknown type or with derived attributes",
    lifted_by=(RequeueCause.POD, *_CLAIM),
    stage=STAGE,
    next_step="read the claim with kubectl get resourceclaim NAME -o yaml; delete it and create it"
    " again",
    words=(
        r'resourceclaim "[^"]+" (is being deleted|in use)',
        r"ResourceClaim \S+ was not created for Pod",
        r"resource claim \S+ request \S+: (unknown request type|cannot handle derivedAttributes)",
        r'pod "[^"]+" claim \S+: none of the supported fields are set',
    ),
    condition=_WAITS,
)
RESOURCE_CLAIM_PENDING = ReasonCode(
    name="RESOURCE_CLAIM_PENDING",
    meaning="a ResourceClaim of the pod is being allocated for another pod, or is being deallocated"
    " for one that preempted this pod",
    lifted_by=_CLAIM,
    stage=STAGE,
    next_step="wait; the pod is retried when the claim is written",
    words=(r"resource claim \S+ is in the process of being (de)?allocated",),
    condition=_WAITS,
)
RESOURCE_CLAIM_SHARED = ReasonCode(
    name="RESOURCE_CLAIM_SHARED",
    meaning="a pod of another scheduler names the same ResourceClaim, and two schedulers would"
    " allocate it",
    lifted_by=(RequeueCause.POD, *_CLAIM),
    stage=STAGE,
    next_step="use one schedulerName for all pods of the claim, or a claim for each pod",
    words=(r'resourceclaim "[^"]+" is shared with pod',),
    condition=_WAITS,
)
DEVICE_CLASS_NOT_FOUND = ReasonCode(
    name="DEVICE_CLASS_NOT_FOUND",
    meaning="the DeviceClass of a request does not exist or cannot be read",
    lifted_by=_DEVICES,
    stage=STAGE,
    next_step="create the DeviceClass (a DRA driver's chart does), or correct the request:"
    " kubectl get deviceclasses",
    words=(r"request \S+: device class \S+ (does not exist|cannot be read)",),
    condition=_WAITS,
)
RESOURCE_CLAIM_ELSEWHERE = ReasonCode(
    name="RESOURCE_CLAIM_ELSEWHERE",
    meaning="a ResourceClaim of the pod is allocated, and the node cannot use its devices",
    lifted_by=(*_CLAIM, RequeueCause.NODE),
    stage=STAGE,
    next_step="read status.allocation of the claim; it is free for another node when no pod has it"
    " reserved",
    words=(r"resourceclaim not available on the node",),
)
DEVICES_NOT_AVAILABLE = ReasonCode(
    name="DEVICES_NOT_AVAILABLE",
    meaning="the node does not have free devices for all ResourceClaims of the pod",
    lifted_by=_PLACE,
    stage=STAGE,
    next_step="read the devices: kubectl get resourceslices; wait for claims to be deallocated, or"
    " add a node",
    words=(r"cannot allocate all claims",),
)
DEVICE_POOL_INVALID = ReasonCode(
    name="DEVICE_POOL_INVALID",
    meaning="the ResourceSlices of a pool contradict each other, and no other pool has devices",
    lifted_by=_PLACE,
    stage=STAGE,
    next_step="read the log of the DRA driver, and its slices: kubectl get resourceslices -o yaml",
    words=(r"invalid resource pools were encountered",),
)
DEVICE_SELECTOR_FAILED = ReasonCode(
    name="DEVICE_SELECTOR_FAILED",
    meaning="a CEL selector cannot be compiled, or fails on a device of the node",
    lifted_by=_PLACE,
    stage=STAGE,
    next_step="guard the attribute in the selector: has(), or .? with orValue()",
    words=(r"(class|request) \S+: selector #\d+ on device",),
)
DEVICE_REQUEST_IMPOSSIBLE = ReasonCode(
    name="DEVICE_REQUEST_IMPOSSIBLE",
    meaning="a request cannot be met on the node as it is written: it asks for too many devices, or"
    " for all devices of a pool that is incomplete or against a constraint",
    lifted_by=_PLACE,
    stage=STAGE,
    next_step="change the request or the constraint that the message names",
    words=(r"impossible request: ",),
)
DEVICE_SEARCH_LIMIT = ReasonCode(
    name="DEVICE_SEARCH_LIMIT",
    meaning="the search for devices on the node exceeds the step limit",
    lifted_by=_PLACE,
    stage=STAGE,
    next_step="use fewer requests, smaller counts or narrower selectors in the claims of the pod",
    words=(r"the search for devices takes more than \d+ steps",),
)
MAP_CLAIM_MISMATCH = ReasonCode(
    name="MAP_CLAIM_MISMATCH",
    meaning="the claims of a pod with a map ask for other devices than its line names",
    lifted_by=(RequeueCause.POD, *_PLACE),
    stage=STAGE,
    next_step="request nvidia.com/gpu instead of a claim, or let the claims ask for as many whole"
    " GPUs as the line names, with selectors that admit them",
    words=(r"node\(s\) where line \d+ of gpu-scheduling-map names GPUs? ",),
    condition=ConditionReason.INVALID_MAP,
)

CODES: Final = (
    RESOURCE_CLAIM_NOT_FOUND,
    RESOURCE_CLAIM_NOT_USABLE,
    RESOURCE_CLAIM_PENDING,
    RESOURCE_CLAIM_SHARED,
    DEVICE_CLASS_NOT_FOUND,
    RESOURCE_CLAIM_ELSEWHERE,
    DEVICES_NOT_AVAILABLE,
    DEVICE_POOL_INVALID,
    DEVICE_SELECTOR_FAILED,
    DEVICE_REQUEST_IMPOSSIBLE,
    DEVICE_SEARCH_LIMIT,
    MAP_CLAIM_MISMATCH,
)
