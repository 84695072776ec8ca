"""ResourceSlices by node and pool, and the pools of each node, built when they are asked for."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final, TypeVar

from scheduler.model.dra.resource_slice import PoolId, ResourceSlice
from scheduler.state.dra.pool import Pool, is_for_node, pool_on_node

_NONE: Final[Mapping[str, ResourceSlice]] = {}
Key = TypeVar("Key")


class Pools:
    """All slices; most of them belong to one node, few to several."""

    def __init__(self) -> None:
        self.slices: dict[str, ResourceSlice] = {}
        #: Slices that more than one node may use, by name.
        self._shared: dict[str, ResourceSlice] = {}
        self._by_node: dict[str, dict[str, ResourceSlice]] = {}
        self._by_pool: dict[PoolId, dict[str, ResourceSlice]] = {}
        #: Node -> the labels that its pools were built for, and the pools.
        self._built: dict[str, tuple[Mapping[str, str], tuple[Pool, ...]]] = {}
        #: Pools with the devices of all their nodes.
        self._whole: dict[PoolId, Pool] = {}

    def on_node(self, node_name: str, labels: Mapping[str, str]) -> tuple[Pool, ...]:
        """The pools that a node can use, by driver and name; those with binding conditions last."""
        known = self._built.get(node_name)
        if known is not None and (not self._shared or known[0] == labels):
            return known[1]
        built = tuple(sorted(self._pools_of(node_name, labels), key=_order))
        if built or node_name in self._by_node:
            self._built[node_name] = (labels, built)
        return built

    def nodes(self) -> Mapping[str, object] | None:
        """The nodes that may have a pool; None where a slice does not name its node."""
        return None if self._shared else self._by_node

    def nodes_of(self, pool_id: PoolId) -> frozenset[str] | None:
        """The nodes that can use a pool; None where a slice does not name its node."""
        slices = self._by_pool.get(pool_id, _NONE).values()
        named = frozenset(one.nodes.node_name for one in slices)
        return None if "" in named else named

    def whole(self, pool_id: PoolId) -> Pool | None:
        """A pool with the devices of all its nodes; None where there is none."""
        known = self._whole.get(pool_id)
        slices = tuple(self._by_pool.get(pool_id, _NONE).values()) if known is None else ()
        if slices:
            known = pool_on_node(pool_id, slices, slices)
            assert known is not None, f"{pool_id} has no slice of its newest generation"
            self._whole[pool_id] = known
        return known

    def put(self, before: ResourceSlice | None, after: ResourceSlice | None) -> None:
        """A slice changed; None where it was not there, or is gone."""
        for one in (before, after):
            if one is not None:
                self._whole.pop(one.pool_id, None)
                self._forget_built(one)
        if before is not None:
            self._drop(before)
        if after is None:
            return
        self.slices[after.name] = after
        self._by_pool.setdefault(after.pool_id, {})[after.name] = after
        node_name = after.nodes.node_name
        if node_name:
            self._by_node.setdefault(node_name, {})[after.name] = after
        else:
            self._shared[after.name] = after
        self._forget_built(after)

    def _drop(self, one: ResourceSlice) -> None:
        self.slices.pop(one.name, None)
        self._shared.pop(one.name, None)
        _discard(self._by_pool, one.pool_id, one.name)
        _discard(self._by_node, one.nodes.node_name, one.name)

    def _forget_built(self, one: ResourceSlice) -> None:
        """The pools of every node that has a part of the slice's pool are built again."""
        named = self.nodes_of(one.pool_id)
        if named is None or not one.nodes.node_name:
            self._built.clear()
            return
        for node_name in (*named, one.nodes.node_name):
            self._built.pop(node_name, None)

    def _pools_of(self, node_name: str, labels: Mapping[str, str]) -> Iterator[Pool]:
        by_pool: dict[PoolId, list[ResourceSlice]] = {}
        for one in self._by_node.get(node_name, _NONE).values():
            by_pool.setdefault(one.pool_id, []).append(one)
        for one in self._shared.values():
            if is_for_node(one, node_name, labels):
                by_pool.setdefault(one.pool_id, []).append(one)
        size = 0
        for pool_id, mine in sorted(by_pool.items()):
            every = tuple(self._by_pool[pool_id].values())
            pool = pool_on_node(pool_id, mine, every, size)
            if pool is not None:
                size += pool.size
                yield pool


def _discard(found: dict[Key, dict[str, ResourceSlice]], place: Key, name: str) -> None:
    inner = found.get(place)
    if inner is not None:
        inner.pop(name, None)
        if not inner:
            del found[place]


def _order(pool: Pool) -> tuple[bool, PoolId]:
    return pool.has_conditions, pool.id
