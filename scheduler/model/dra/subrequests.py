"""Which subrequests of ``firstAvailable`` an allocated claim has, and the claim that a new pod of
the same template would get.

The subrequests are in the order of preference: a claim with a later one than the first is degraded.
"""

from __future__ import annotations

import msgspec

from scheduler.model.dra.claim import DeviceRequest, ResourceClaim


def given(claim: ResourceClaim) -> dict[str, str]:
    """Request -> the name of the subrequest that it has; no requests without subrequests."""
    if claim.allocation is None or not any(one.first_available for one in claim.requests):
        return {}
    names = {result.request for result in claim.allocation.results}
    return {
        request.name: exact.name
        for request in claim.requests
        for exact in request.first_available
        if request.name_of(exact) in names
    }


def degraded_requests(claim: ResourceClaim) -> tuple[DeviceRequest, ...]:
    """The requests that have another subrequest than their first."""
    has = given(claim)
    return tuple(
        one
        for one in claim.requests
        if one.name in has and has[one.name] != one.first_available[0].name
    )


def not_allocated(claim: ResourceClaim) -> ResourceClaim:
    """The claim as it would be created again."""
    return msgspec.structs.replace(
        claim, allocation=None, reserved_for=(), devices=(), is_deleting=False
    )


def first_choice(claim: ResourceClaim) -> ResourceClaim:
    """The same, if only the first subrequest of each request would do."""
    requests = tuple(
        msgspec.structs.replace(one, first_available=one.first_available[:1])
        for one in claim.requests
    )
    return msgspec.structs.replace(not_allocated(claim), requests=requests)
