"""Claims that have together more than there is: two schedulers allocated the same devices.

The API server does not check it. The claim that was allocated later is one too many; a claim gives
way too where the order is not known.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import msgspec

from scheduler.model.dra.allocation import DeviceResult
from scheduler.model.dra.claim import ResourceClaim
from scheduler.model.dra.device import DeviceId
from scheduler.model.dra.resource_slice import PoolId
from scheduler.state.dra.in_use import DevicesInUse
from scheduler.state.dra.pool import Pool
from scheduler.state.dra.store import DraStore

#: Claims in a sentence.
SHOWN_MAX: Final = 2


class Collision(msgspec.Struct, frozen=True):
    """``what`` a claim has although the claims that were allocated before, ``others``, left none of
    it.
    """

    what: str
    others: tuple[str, ...]

    def __str__(self) -> str:
        return f"{self.what} is also allocated to claim {' and '.join(self.others[:SHOWN_MAX])}"


def collision(store: DraStore, claim: ResourceClaim) -> Collision | None:
    """What a claim has too much, with the claims that may have been allocated before it."""
    if claim.allocation is None or claim.key not in store.versions:
        return None
    for result in claim.allocation.results:
        if not result.admin_access:
            pool = store.pools.whole(PoolId(result.driver, result.pool))
            if _excess(store.in_use, pool, result):
                found = _with_former(store, claim, pool, result)
                if found is not None:
                    return found
    return None


def unusable_pool(store: DraStore, claim: ResourceClaim) -> str:
    """Why it is not known whether a claim has too much of a card or of a shared device; empty if it
    is known.

    A driver writes the slices of a pool one after the other: until the last one the pool's counters
    and capacities are unknown. Of a pool without slices nothing more becomes known.
    """
    for result in claim.allocation.results if claim.allocation is not None else ():
        pool_id = PoolId(result.driver, result.pool)
        pool = None if result.admin_access else store.pools.whole(pool_id)
        if pool is not None and not pool.is_usable:
            return f"pool {result.driver}/{result.pool}: {pool.problem or 'incomplete'}"
    return ""


def _with_former(
    store: DraStore, claim: ResourceClaim, pool: Pool | None, result: DeviceResult
) -> Collision | None:
    """The collision of one device with what was allocated before."""
    assert claim.allocation is not None
    former = DevicesInUse()
    former.add(claim.allocation)
    rivals: list[str] = []
    for key in dict.fromkeys(_neighbours(store, result)):
        other = store.claim(key)
        is_former = (
            key != claim.key
            and key in store.versions
            and not store.versions.is_later(key, claim.key)
        )
        if is_former and other is not None and other.allocation is not None:
            former.add(other.allocation)
            rivals.append(key)
    what = _excess(former, pool, result) if rivals else ""
    if not what:
        return None
    holders = store.holders.of(result.id)
    same = tuple(key for key in rivals if key in holders)
    return Collision(what, same or tuple(rivals))


def _neighbours(store: DraStore, result: DeviceResult) -> Iterator[str]:
    """The claims with a device of the same pool."""
    for name in store.in_use.of_pool(PoolId(result.driver, result.pool)):
        yield from store.holders.of(DeviceId(result.driver, result.pool, name))


def _excess(in_use: DevicesInUse, pool: Pool | None, result: DeviceResult) -> str:
    """What of a device is used more than there is; empty if nothing is."""
    device_id = result.id
    wholes, is_shared = in_use.dedicated.get(device_id, 0), device_id in in_use.shared
    if wholes + is_shared > 1:
        return f"device {device_id}"
    device = pool.by_name.get(device_id.device) if pool is not None else None
    if pool is None or device is None:
        return ""  # its driver publishes it no more, or is about to (unusable_pool)
    if is_shared:
        for name, amount in in_use.consumed(device_id).items():
            capacity = device.capacities.get(name)
            if capacity is not None and amount > capacity.value:
                return f"capacity {name} of device {device_id}"
    if device.consumes:
        left = in_use.free_counters(pool)
        for use in device.consumes:
            for name in use.counters:
                if left[use.counter_set, name] < 0:
                    return f"counter {name} of {use.counter_set} for device {device_id}"
    return ""
