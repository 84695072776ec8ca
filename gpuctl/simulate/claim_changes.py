"""ResourceClaims as other programs change them: kube-controller-manager and the scheduler. Pure.

kube-controller-manager creates the claims of a pod's templates, and at the end of a pod it deletes
these and takes back the reservations of others (``pkg/controller/resourceclaim``). The scheduler
allocates and reserves.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

import msgspec

from scheduler.model.dra.claim import ClaimConsumer, ResourceClaim
from scheduler.model.dra.claim_plan import NewClaim, PlannedClaim
from scheduler.model.pods.pod import Pod
from scheduler.state import event as ev


def naming(pod: Pod, created: Mapping[str, str]) -> Pod:
    """The pod after its status names the ``created`` claims, by their names in the pod."""
    uses = tuple(
        msgspec.structs.replace(use, has_status=True, created_name=created[use.name])
        if use.name in created
        else use
        for use in pod.resource_claims.claims
    )
    claims = msgspec.structs.replace(pod.resource_claims, claims=uses)
    return msgspec.structs.replace(pod, resource_claims=claims)


def reserved(claim: ResourceClaim, planned: PlannedClaim, pod: Pod) -> ResourceClaim:
    """The claim as it is allocated and reserved for a pod."""
    users = claim.reserved_for
    if not claim.is_reserved_for(pod.uid):
        users = (*users, ClaimConsumer(pod.uid, pod.name))
    allocation = claim.allocation if planned.allocation is None else planned.allocation
    return msgspec.structs.replace(claim, allocation=allocation, reserved_for=users)


def extended(pod: Pod, planned: NewClaim, name: str) -> ResourceClaim:
    """The claim that the scheduler creates for a pod's extended resources."""
    return ResourceClaim(
        namespace=pod.namespace,
        name=name,
        uid=f"{pod.namespace}/{name}",
        owner_uid=pod.uid,
        is_extended=True,
        requests=planned.asked.requests,
        allocation=planned.allocation,
        reserved_for=(ClaimConsumer(pod.uid, pod.name),),
    )


def released(claims: Iterable[ResourceClaim], uid: str) -> Iterator[ev.DraEvent]:
    """What the end of the pod with this uid does to claims."""
    for claim in claims:
        if claim.owner_uid == uid:
            yield ev.DraDeleted(ResourceClaim, claim.key)
        elif claim.is_reserved_for(uid):
            users = tuple(one for one in claim.reserved_for if one.uid != uid)
            left = msgspec.structs.replace(claim, reserved_for=users)
            yield ev.DraUpdated(left if users else deallocated(left))


def deallocated(claim: ResourceClaim) -> ResourceClaim:
    """The claim after its last reservation is taken back."""
    return msgspec.structs.replace(claim, allocation=None, reserved_for=(), devices=())
