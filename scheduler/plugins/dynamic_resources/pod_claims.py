"""The claims of one pod: allocated already, or to be allocated on the chosen node.

The rules are those of ``podResourceClaims`` and PreFilter in kube-scheduler's dynamicresources.
"""

from __future__ import annotations

import msgspec

from scheduler.framework.plugin import Refuse
from scheduler.framework.view import View
from scheduler.model.dra.claim import RESERVED_FOR_MAX, ResourceClaim
from scheduler.model.dra.pod_claims import PodClaim
from scheduler.model.pods.pod import Pod
from scheduler.model.reasons.reason import Reason
from scheduler.model.reasons.reason_code import ReasonCode
from scheduler.plugins.dynamic_resources import codes
from scheduler.state.dra.store import DraStore


class FoundClaims(msgspec.Struct, frozen=True):
    """The claims of a pod in its order, each once."""

    claims: tuple[ResourceClaim, ...] = ()

    @property
    def allocated(self) -> tuple[ResourceClaim, ...]:
        """Those that have devices already."""
        return tuple(one for one in self.claims if one.allocation is not None)

    @property
    def waiting(self) -> tuple[ResourceClaim, ...]:
        """Those that are to be allocated."""
        return tuple(one for one in self.claims if one.allocation is None)


def claims_of(view: View, pod: Pod) -> FoundClaims | Refuse:
    """The claims of a pod, or why no node can take it now."""
    found: dict[str, ResourceClaim] = {}
    for use in pod.resource_claims.claims:
        claim = _named(view.dra, pod, use)
        if isinstance(claim, Refuse):
            return claim
        if claim is not None:
            found[claim.key] = claim
    for claim in found.values():
        problem = _in_use(view.dra, pod, claim) or _request_problem(view.dra, claim)
        if problem is not None:
            return problem
    return FoundClaims(tuple(found.values()))


def _named(store: DraStore, pod: Pod, use: PodClaim) -> ResourceClaim | Refuse | None:
    """The claim of one entry; None where the entry needs none."""
    name = use.claim_name or use.created_name
    if not use.claim_name:
        if not use.template_name:
            text = f'pod "{pod.key}" claim {use.name}: none of the supported fields are set'
            return _refuse(codes.RESOURCE_CLAIM_NOT_USABLE, text)
        if not pod.uid:
            return None  # a pod under review is not created yet, and neither is its claim
        if not use.has_status:
            text = f'pod "{pod.key}": ResourceClaim not created yet (claim {use.name})'
            return _refuse(codes.RESOURCE_CLAIM_NOT_FOUND, text)
        if not name:
            return None
    claim = store.claim(f"{pod.namespace}/{name}")
    if claim is None:
        return _refuse(codes.RESOURCE_CLAIM_NOT_FOUND, f'resourceclaim "{name}" not found')
    return _unusable(pod, use, claim) or claim


def _unusable(pod: Pod, use: PodClaim, claim: ResourceClaim) -> Refuse | None:
    name = f'resourceclaim "{claim.name}"'
    if claim.unread:
        return _refuse(codes.RESOURCE_CLAIM_NOT_FOUND, f"{name} cannot be read: {claim.unread}")
    if claim.is_deleting:
        return _refuse(codes.RESOURCE_CLAIM_NOT_USABLE, f"{name} is being deleted")
    if not use.claim_name and claim.owner_uid != pod.uid:
        text = f"ResourceClaim {claim.key} was not created for Pod {pod.key} (Pod is not owner)"
        return _refuse(codes.RESOURCE_CLAIM_NOT_USABLE, text)
    return None


def _in_use(store: DraStore, pod: Pod, claim: ResourceClaim) -> Refuse | None:
    """Whether other pods keep this one from using a claim."""
    other = store.users.of_another_scheduler(claim.key, pod)
    if other:
        text = f'resourceclaim "{claim.name}" is shared with pod {other} of another scheduler'
        return _refuse(codes.RESOURCE_CLAIM_SHARED, text)
    if store.releases.has(claim.key):
        text = f"resource claim {claim.key} is in the process of being deallocated"
        return _refuse(codes.RESOURCE_CLAIM_PENDING, text)
    if claim.allocation is None:
        if not store.is_being_allocated(claim.key):
            return None
        text = f"resource claim {claim.key} is in the process of being allocated"
        return _refuse(codes.RESOURCE_CLAIM_PENDING, text)
    if len(claim.reserved_for) >= RESERVED_FOR_MAX and not claim.is_reserved_for(pod.uid):
        text = f'resourceclaim "{claim.name}" in use by {RESERVED_FOR_MAX} pods'
        return _refuse(codes.RESOURCE_CLAIM_NOT_USABLE, text)
    return None


def _request_problem(store: DraStore, claim: ResourceClaim) -> Refuse | None:
    """A request of a claim without allocation that no node can meet."""
    for request in claim.requests if claim.allocation is None else ():
        if not request.alternatives:
            text = f"resource claim {claim.key} request {request.name}: unknown request type"
            return _refuse(codes.RESOURCE_CLAIM_NOT_USABLE, text)
        for exact in request.alternatives:
            found = store.classes.get(exact.class_name)
            if found is None or found.unread:
                what = "does not exist" if found is None else f"cannot be read: {found.unread}"
                text = f"request {request.name_of(exact)}: device class {exact.class_name} {what}"
                return _refuse(codes.DEVICE_CLASS_NOT_FOUND, text)
            if exact.is_derived:
                name = request.name_of(exact)
                text = f"resource claim {claim.key} request {name}: cannot handle derivedAttributes"
                return _refuse(codes.RESOURCE_CLAIM_NOT_USABLE, text)
    return None


def _refuse(code: ReasonCode, text: str) -> Refuse:
    return Refuse(Reason(code=code, text=text, resolvable=False))
