"""The ResourceClaims of a degraded pod, and those that its replacement would have.

A claim that was created from a template goes with its pod, and the replacement gets a new one. A
claim that the pod names stays as it is: the replacement would use it with the same devices.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

import msgspec

from scheduler.model.dra.allocation import Allocation
from scheduler.model.dra.claim import ResourceClaim
from scheduler.model.dra.device import DeviceId
from scheduler.model.dra.pod_claims import PodClaim
from scheduler.model.dra.subrequests import (
    degraded_requests,
    first_choice,
    given,
    not_allocated,
)
from scheduler.model.pods.pod import Pod
from scheduler.state.cache.cluster import Cluster
from scheduler.state.dra.store import DraStore

#: Of one pod: its restore does not depend on further ones.
REQUESTS_MAX: Final = 8

#: ``claim/request/subrequest``, as a PodMigration has them beside resources.
Subrequests = dict[str, int]


class DegradedClaims(msgspec.Struct, frozen=True):
    """The claims of a pod with other subrequests than their first, and what the first ones are.

    ``is_named``: none of them was created for the pod. ``claims`` are those that the replacement
    would have, if only the first subrequests would do.
    """

    source: Subrequests
    target: Subrequests
    claims: tuple[ResourceClaim, ...]
    is_named: bool


_NONE: Final = DegradedClaims({}, {}, (), is_named=False)


def degraded_claims(store: DraStore, pod: Pod, *, with_named: bool = True) -> DegradedClaims:
    """The degraded claims of a pod: those created for it or, if there are none and it is asked,
    those that it names. Without any, the claims of its replacement alone.
    """
    if not pod.resource_claims.claims:
        return _NONE
    every = tuple(_claims(store, pod))
    created = tuple((use, one) for use, one in every if not use.claim_name)
    degraded = [pair for pair in created if degraded_requests(pair[1])]
    is_named = with_named and not degraded
    if is_named:
        degraded = [pair for pair in every if degraded_requests(pair[1])]
    changes = [
        (f"{use.name}/{request.name}/", given(claim)[request.name], request.first_available[0].name)
        for use, claim in degraded
        for request in degraded_requests(claim)
    ][:REQUESTS_MAX]
    of_replacement = {claim.key: claim for _, claim in (*created, *degraded)}
    return DegradedClaims(
        source={place + has: 1 for place, has, _ in changes},
        target={place + first: 1 for place, _, first in changes},
        claims=tuple(map(first_choice, of_replacement.values())),
        is_named=is_named and bool(degraded),
    )


def created_again(store: DraStore, pod: Pod) -> tuple[ResourceClaim, ...]:
    """The claims of templates as the pod's replacement would have them."""
    return tuple(not_allocated(claim) for use, claim in _claims(store, pod) if not use.claim_name)


def subrequests_of(store: DraStore, pod: Pod) -> Subrequests:
    """The subrequests that the claims of a pod have, as far as they are seen allocated."""
    return {
        f"{use.name}/{request}/{has}": 1
        for use, claim in _claims(store, pod)
        for request, has in given(claim).items()
    }


def has_subrequests(store: DraStore, pod: Pod, target: Iterable[str]) -> bool | None:
    """Whether the claims of a pod have these subrequests; None until they are seen allocated."""
    has = subrequests_of(store, pod)
    if {_request(name) for name in target} <= {_request(name) for name in has}:
        return has.keys() >= set(target)
    return None


def _request(subrequest: str) -> str:
    return subrequest.rpartition("/")[0]


def degraded_pods(cluster: Cluster) -> Iterator[Pod]:
    """The pods with a degraded claim, some of them several times."""
    for key in cluster.dra.degraded:
        for uid in cluster.dra.users.of(key):
            pod = cluster.pods.get(uid)
            if pod is not None:
                yield pod


def devices_of(allocations: Iterable[Allocation]) -> tuple[DeviceId, ...]:
    """The devices that can be held for a replacement: whole ones."""
    return tuple(
        one.id
        for allocation in allocations
        for one in allocation.results
        if not one.is_shared and not one.admin_access
    )


def _claims(store: DraStore, pod: Pod) -> Iterator[tuple[PodClaim, ResourceClaim]]:
    """The claims of a pod that exist."""
    for use in pod.resource_claims.claims:
        name = use.claim_name or use.created_name
        claim = store.claim(f"{pod.namespace}/{name}") if name else None
        if claim is not None:
            yield use, claim
