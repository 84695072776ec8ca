"""The devices, counters and capacity that allocated claims use, by any scheduler."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from scheduler.model.dra.allocation import Allocation, DeviceResult
from scheduler.model.dra.device import DeviceId
from scheduler.model.dra.resource_slice import PoolId
from scheduler.state.counts import add
from scheduler.state.dra.pool import Counters, Pool

_NONE: Final[Mapping[str, int]] = {}


class DevicesInUse:
    """Sums over allocations; one with admin access uses nothing.

    A device is counted once for each claim: another scheduler may have given it away too, and then
    it is free only when both claims are deallocated.
    """

    def __init__(self) -> None:
        #: Devices that are allocated as a whole, and the number of claims.
        self.dedicated: dict[DeviceId, int] = {}
        #: Devices that are allocated in shares, and the number of shares.
        self.shared: dict[DeviceId, int] = {}
        self._consumed: dict[DeviceId, dict[str, int]] = {}
        self._by_pool: dict[PoolId, dict[str, int]] = {}
        self._versions: dict[PoolId, int] = {}
        self._changes = 0
        self._free_counters: dict[PoolId, tuple[Pool, int, Counters]] = {}

    def is_whole(self, device: DeviceId) -> bool:
        """Whether a claim has the whole device."""
        return device in self.dedicated

    def is_shared(self, device: DeviceId) -> bool:
        """Whether a claim has a share of the device."""
        return device in self.shared

    def consumed(self, device: DeviceId) -> Mapping[str, int]:
        """What the shares of a device take of its capacities, in nano units."""
        return self._consumed.get(device, _NONE)

    def of_pool(self, pool_id: PoolId) -> Mapping[str, int]:
        """The devices of a pool that are allocated, as a whole or in shares."""
        return self._by_pool.get(pool_id, _NONE)

    def version(self, pool_id: PoolId) -> int:
        """Equal numbers mean equal allocations from a pool; 0 where there are none."""
        return self._versions.get(pool_id, 0)

    def free_counters(self, pool: Pool) -> Counters:
        """What is left of a pool's counters; below zero where too much was allocated."""
        version = self.version(pool.id)
        known = self._free_counters.get(pool.id)
        if known is not None and known[0] is pool and known[1] == version:
            return known[2]
        left = dict(pool.counters)
        for name in self.of_pool(pool.id):
            device = pool.by_name.get(name)
            for use in device.consumes if device is not None else ():
                for counter, value in use.counters.items():
                    left[use.counter_set, counter] -= value
        self._free_counters[pool.id] = (pool, version, left)
        return left

    def add(self, allocation: Allocation) -> None:
        """A claim is allocated."""
        for one in allocation.results:
            if not one.admin_access:
                self._count(one, 1)

    def remove(self, allocation: Allocation) -> None:
        """A claim is deallocated, or gone."""
        for one in allocation.results:
            if not one.admin_access:
                self._count(one, -1)

    def _count(self, one: DeviceResult, delta: int) -> None:
        pool_id, device = PoolId(one.driver, one.pool), one.id
        self._changes += 1
        self._versions[pool_id] = self._changes
        by_pool = self._by_pool.setdefault(pool_id, {})
        add(by_pool, one.device, delta)
        if not by_pool:  # again as before the first allocation
            del self._by_pool[pool_id], self._versions[pool_id]
            self._free_counters.pop(pool_id, None)
        if not one.is_shared:
            add(self.dedicated, device, delta)
            return
        add(self.shared, device, delta)
        consumed = self._consumed.setdefault(device, {})
        for name, amount in one.consumed.items():
            consumed[name] = consumed.get(name, 0) + delta * amount
        if not any(consumed.values()):
            del self._consumed[device]
