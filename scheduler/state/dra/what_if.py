"""The store after some claims are deallocated and others are allocated, without a change of it."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Set

from scheduler.model.dra.allocation import Allocation, DeviceResult
from scheduler.model.dra.claim import ResourceClaim
from scheduler.model.dra.claim_plan import ClaimPlan
from scheduler.model.dra.device import DeviceId
from scheduler.model.dra.resource_slice import PoolId
from scheduler.model.pods.pod import Pod
from scheduler.state.dra.claims.extended_claims import NOT_CREATED
from scheduler.state.dra.device_holders import DeviceHolders
from scheduler.state.dra.in_use import DevicesInUse
from scheduler.state.dra.pool import Counters, Pool
from scheduler.state.dra.store import DraStore


class WhatIfInUse(DevicesInUse):
    """Its own sums are the differences from those ``below``, which may be negative."""

    def __init__(self, below: DevicesInUse) -> None:
        super().__init__()
        self._below = below
        #: The devices that are used otherwise than below, by pool.
        self._changed: dict[PoolId, set[DeviceId]] = {}

    def is_whole(self, device: DeviceId) -> bool:
        return self._below.dedicated.get(device, 0) + self.dedicated.get(device, 0) > 0

    def is_shared(self, device: DeviceId) -> bool:
        return self._below.shared.get(device, 0) + self.shared.get(device, 0) > 0

    def consumed(self, device: DeviceId) -> Mapping[str, int]:
        return _sum(self._below.consumed(device), super().consumed(device))

    def of_pool(self, pool_id: PoolId) -> Mapping[str, int]:
        return _sum(self._below.of_pool(pool_id), super().of_pool(pool_id))

    def free_counters(self, pool: Pool) -> Counters:
        if self.is_changed(pool.id):
            return super().free_counters(pool)
        return self._below.free_counters(pool)

    def is_changed(self, pool_id: PoolId) -> bool:
        """Whether a pool's devices are used otherwise than in the store."""
        return pool_id in self._changed

    def changed_pools(self) -> Iterable[PoolId]:
        """The pools for which that is so."""
        return self._changed

    def _count(self, one: DeviceResult, delta: int) -> None:
        """A share that is freed and another one that is held are no change only if both are
        equal.
        """
        super()._count(one, delta)
        pool_id, device = PoolId(one.driver, one.pool), one.id
        changed = self._changed.setdefault(pool_id, set())
        if device in self.dedicated or device in self.shared or device in self._consumed:
            changed.add(device)
        else:
            changed.discard(device)
        if not changed:
            del self._changed[pool_id]


def _sum(below: Mapping[str, int], more: Mapping[str, int]) -> Mapping[str, int]:
    """Both together, without what is 0 now."""
    if not more:
        return below
    every = {name: below.get(name, 0) + more.get(name, 0) for name in (*below, *more)}
    return {name: value for name, value in every.items() if value}


class WhatIfHolders(DeviceHolders):
    """Its own entries come behind those ``below`` that are not ``free``."""

    def __init__(self, below: DeviceHolders, free: Set[str]) -> None:
        super().__init__()
        self._below = below
        self._free = free

    def of(self, device: DeviceId) -> tuple[str, ...]:
        kept = (key for key in self._below.of(device) if key not in self._free)
        return (*kept, *super().of(device))


class WhatIfDra(DraStore):
    """A store to read: everything but the use of devices is that of the store ``below``, and some
    ``claims``, whose former devices stay in use.
    """

    def __init__(self, below: DraStore, claims: Collection[ResourceClaim] = ()) -> None:
        vars(self).update(vars(below))
        self._other_claims = {one.key: one for one in claims}
        self._free: set[str] = set()
        self.in_use: WhatIfInUse = WhatIfInUse(below.in_use)
        self.holders = WhatIfHolders(below.holders, self._free)
        self._counter = self._counter.counting(self.in_use)

    def claim(self, key: str) -> ResourceClaim | None:
        """A claim as it is assumed here, or as the API server has it."""
        return self._other_claims.get(key) or super().claim(key)

    def version(self, node_name: str) -> tuple[int, int] | None:
        """None where the use of the node's devices is another one."""
        for pool_id in self.in_use.changed_pools():
            nodes = self.pools.nodes_of(pool_id)
            if nodes is None or node_name in nodes:
                return None
        return super().version(node_name)

    def give(self, pod: Pod, plan: ClaimPlan) -> None:
        """A pod that is nominated for a node holds the devices that are planned for it."""
        for allocation in plan.allocations:
            self.in_use.add(allocation)
            self.holders.add(f"{NOT_CREATED}/{pod.uid}", allocation)

    def take_back(self, pod: Pod, plan: ClaimPlan) -> None:
        """It holds them no more."""
        for allocation in plan.allocations:
            self.in_use.remove(allocation)
            self.holders.remove(f"{NOT_CREATED}/{pod.uid}", allocation)

    def set_free(self, keys: Set[str]) -> bool:
        """These claims, and no others, are deallocated; returns whether that is a change."""
        if keys == self._free:
            return False
        for key in keys - self._free:
            self.in_use.remove(self._allocation(key))
        for key in self._free - keys:
            self.in_use.add(self._allocation(key))
        self._free.clear()
        self._free.update(keys)
        return True

    def _allocation(self, key: str) -> Allocation:
        found = self.counted(key)
        assert found is not None, f"claim {key} has no allocation"
        return found
