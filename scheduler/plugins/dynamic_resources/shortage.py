"""A request that no search can meet on a node, with numbers: too few devices of it are free.

It is found before the search, because a search tries every combination in vain.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from scheduler.framework.budget import Budget
from scheduler.model.dra.allocation import RESULTS_MAX
from scheduler.model.dra.claim import ExactRequest, ResourceClaim
from scheduler.model.reasons.reason import Reason
from scheduler.plugins.dynamic_resources import codes
from scheduler.plugins.dynamic_resources.allocation.requests import (
    Alternative,
    Candidate,
    candidates_of,
)
from scheduler.plugins.dynamic_resources.allocation.taken_devices import AllocationInput, Problem
from scheduler.state.dra.in_use import DevicesInUse

#: What the numbers of the reason count.
RESOURCE = "devices"


class _Count(msgspec.Struct, frozen=True):
    """How many devices match a request: those that are free now, and those that would be if no
    claim had any, as far as the request asks for so many.
    """

    exact: ExactRequest
    free: int
    most: int


def shortage(
    given: AllocationInput, claims: Sequence[ResourceClaim], looks: Budget
) -> Reason | None:
    """The first request with too few free devices in every alternative; None if there is none.

    ``looks`` counts the devices; None too where it is over, because the search has its own limit.
    """
    candidates = candidates_of(given.pools)
    for claim in claims:
        for request in claim.requests:
            found = []
            for exact in request.alternatives:
                asked = given.alternative(request, exact)
                count = None if asked is None else _count(given, asked, candidates, looks)
                if count is None:
                    break
                found.append(count)
            else:
                if found:
                    return _reason(request.name, found)
    return None


def _count(
    given: AllocationInput, asked: Alternative, candidates: Sequence[Candidate], looks: Budget
) -> _Count | None:
    """The devices that match; None where enough are free, or it is not known."""
    exact = asked.exact
    is_other = asked.is_all or exact.admin_access or exact.count > RESULTS_MAX
    if is_other or any(pool.problem for pool in given.pools):
        return None  # the search has a better reason
    free = 0
    used: list[Candidate] = []
    for candidate in candidates:
        if not looks.spend(1):
            return None
        if not _is_free(candidate, given.store.in_use):
            used.append(candidate)
            continue
        selects = asked.selects(candidate)
        if not isinstance(selects, bool):
            return None
        free += selects
        if free >= exact.count:
            return None
    most = free
    for candidate in used:
        if most >= exact.count:
            break
        most += asked.selects(candidate) is True
    return _Count(exact, free, most)


def _is_free(candidate: Candidate, in_use: DevicesInUse) -> bool:
    """Whether one request could have the device, and its counters are left."""
    device = candidate.device
    if in_use.is_whole(device.id):
        return False
    if not device.consumes or in_use.is_shared(device.id):
        return True
    left = in_use.free_counters(candidate.pool)
    return all(
        value <= left[use.counter_set, name]
        for use in device.consumes
        for name, value in use.counters.items()
    )


def _reason(request: str, found: Sequence[_Count]) -> Reason:
    """The end of pods can help where their devices match."""
    first = found[0]
    what = f"request {request}; class {first.exact.class_name}"
    return Reason(
        code=codes.DEVICES_NOT_AVAILABLE,
        text=f"{Problem.NO_DEVICES.value} ({what})",
        resource=RESOURCE,
        need=first.exact.count,
        have=first.free,
        resolvable=any(one.most >= one.exact.count for one in found),
    )
