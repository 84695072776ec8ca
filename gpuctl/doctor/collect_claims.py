"""Collects what ResourceClaims have more of than there is: two schedulers allocated it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import msgspec

from gpuctl.doctor.facts import Excess
from gpuctl.doctor.reader import Reader, or_none
from scheduler.model.dra.claim import ResourceClaim
from scheduler.model.dra.resource_slice import ResourceSlice
from scheduler.state.dra.collisions import collision
from scheduler.state.dra.store import DraStore
from scheduler.watch.decode.dra.claims import CLAIMS
from scheduler.watch.decode.dra.slices import SLICES

_GROUP: Final = "/apis/resource.k8s.io/v1"


async def colliding_claims(reader: Reader) -> tuple[Excess, ...]:
    """Every device, capacity and counter of which claims have too much."""
    claims = await or_none(reader.raw_objects(f"{_GROUP}/resourceclaims")) or []
    slices = await or_none(reader.raw_objects(f"{_GROUP}/resourceslices")) or []
    return excesses(claims, slices)


def excesses(
    claims: Iterable[bytes | msgspec.Raw], slices: Iterable[bytes | msgspec.Raw]
) -> tuple[Excess, ...]:
    """The same for these objects; admin access does not count."""
    store = DraStore()
    store.replace(ResourceSlice, filter(None, map(SLICES.read, map(bytes, slices))))
    listed = [one for one in map(CLAIMS.read, map(bytes, claims)) if one is not None]
    store.replace(ResourceClaim, listed)
    found: dict[str, set[str]] = {}
    for claim in listed:
        one = collision(store, claim)
        if one is not None:  # in a list each of them may have been the later one
            found.setdefault(one.what, set()).update((claim.key, *one.others))
    return tuple(Excess(what, tuple(sorted(keys))) for what, keys in sorted(found.items()))
