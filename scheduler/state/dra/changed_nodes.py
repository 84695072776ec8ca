"""The nodes of which devices changed: by a slice, a class, a taint rule or an allocation."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from scheduler.model.dra.allocation import Allocation
from scheduler.model.dra.resource_slice import PoolId, ResourceSlice
from scheduler.state.dra.pools import Pools

NO_NODES: Final[frozenset[str]] = frozenset()


class ChangedNodes:
    """The nodes since the last ``take``, and how often each changed."""

    def __init__(self, pools: Pools) -> None:
        self._pools = pools
        #: Changes that any node may see, and those of each.
        self._everywhere = 0
        self._at: dict[str, int] = {}
        self._is_any = False
        self._names: set[str] = set()

    def add_any(self) -> None:
        """What concerns the devices of every node changed."""
        self._everywhere += 1
        self._is_any = True

    def add_pools_of(self, *changed: Allocation | ResourceSlice | None) -> None:
        """Devices of these pools were published, taken or freed, or are about to be."""
        ids: set[PoolId] = set()
        for one in changed:
            if isinstance(one, ResourceSlice):
                ids.add(one.pool_id)
            elif one is not None:
                ids.update(PoolId(result.driver, result.pool) for result in one.results)
        self._add(ids)

    def version(self, node_name: str) -> tuple[int, int]:
        """Equal versions mean equal devices and allocations for a node whose labels are equal."""
        return self._everywhere, self._at.get(node_name, 0)

    def take(self) -> frozenset[str] | None:
        """The nodes; None: any node."""
        is_any, names = self._is_any, self._names
        if not is_any and not names:
            return NO_NODES
        self._is_any, self._names = False, set()
        return None if is_any else frozenset(names)

    def _add(self, ids: Iterable[PoolId]) -> None:
        for pool_id in ids:
            nodes = self._pools.nodes_of(pool_id)
            if nodes is None:
                self.add_any()
                continue
            self._names |= nodes
            for name in nodes:
                self._at[name] = self._at.get(name, 0) + 1
