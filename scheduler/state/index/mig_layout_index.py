"""Dynamic MIG nodes, indexed by the layouts of their GPUs.

For one instance all GPUs with the same layout are equivalent. So there is one bucket per layout (at
most 723 on one GPU model, independently of the number of GPUs) with the nodes that have such a GPU,
in best-fit order. The existing layouts are sorted by the added layout cost of one more instance of
a profile::

    2g.20gb:  (cost -1.2, layout A)  (cost -0.4, layout B)  ...        layout B: n4 n7 n9 ...

For several instances in one pod the whole node matters: nodes with equal layouts on their GPUs
are in one bucket.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterable, Iterator

import msgspec

from scheduler.model.mig import layout as mig_layout
from scheduler.model.mig.layout_cost import best_start
from scheduler.state.index.capacity_bucket import CapacityBucket, Group, Slot
from scheduler.state.mig.dynamic_gpus import BLOCKED, DynamicGpus


class LayoutKey(msgspec.Struct, frozen=True, gc=False, order=True, cache_hash=True):
    """GPUs of one model with the same layout."""

    gpu_model: str
    layout: mig_layout.Layout


class IdleKey(msgspec.Struct, frozen=True, gc=False, cache_hash=True):
    """The same, with an idle instance beside the allocated ones."""

    layout_key: LayoutKey
    slot: mig_layout.Slot


class NodeLayouts(msgspec.Struct, frozen=True, gc=False, cache_hash=True):
    """Nodes whose GPUs have the same layouts, whatever their indexes."""

    gpu_model: str
    layouts: tuple[mig_layout.Layout, ...]


Key = LayoutKey | IdleKey | NodeLayouts
Entry = tuple[Key, Group, Slot]


class MigLayoutIndex:
    """Nodes by layout, by layout with an idle instance, and by the layouts of all GPUs."""

    __slots__ = ("_buckets", "_ranked", "node_layouts")

    def __init__(self) -> None:
        self._buckets: dict[Key, CapacityBucket] = {}
        self._ranked: dict[str, list[tuple[float, LayoutKey]]] = {}
        self.node_layouts: dict[NodeLayouts, None] = {}

    def put(self, entry: Entry) -> None:
        """Insert a node."""
        key, group, slot = entry
        bucket = self._buckets.get(key)
        if bucket is None:
            bucket = self._buckets[key] = CapacityBucket()
            self._add_key(key)
        bucket.put(group, slot)

    def take(self, entry: Entry) -> None:
        """Remove a node; it must be in the index."""
        key, group, slot = entry
        bucket = self._buckets[key]
        bucket.take(group, slot)
        if bucket.is_empty:
            del self._buckets[key]
            self._remove_key(key)

    def bucket(self, key: Key) -> CapacityBucket | None:
        """The nodes of one key."""
        return self._buckets.get(key)

    def ranked(self, profile: str) -> list[tuple[float, LayoutKey]]:
        """The existing layouts with room for the profile, lowest added cost first."""
        found = self._ranked.get(profile)
        if found is None:
            layout_keys = [key for key in self._buckets if isinstance(key, LayoutKey)]
            found = sorted(
                entry for layout_key in layout_keys for entry in _cost_deltas(profile, layout_key)
            )
            # A pod may request any profile name; only existing profiles are cached.
            if any(
                mig_layout.profile_of(mig_layout.GPU_MODELS[layout_key.gpu_model], profile)
                for layout_key in layout_keys
            ):
                self._ranked[profile] = found
        return found

    def _add_key(self, key: Key) -> None:
        if isinstance(key, NodeLayouts):
            self.node_layouts[key] = None
        elif isinstance(key, LayoutKey):
            for profile, ranked in self._ranked.items():
                for entry in _cost_deltas(profile, key):
                    insort(ranked, entry)

    def _remove_key(self, key: Key) -> None:
        if isinstance(key, NodeLayouts):
            del self.node_layouts[key]
        elif isinstance(key, LayoutKey):
            for profile, ranked in self._ranked.items():
                for entry in _cost_deltas(profile, key):
                    del ranked[bisect_left(ranked, entry)]


def _cost_deltas(profile: str, layout_key: LayoutKey) -> Iterator[tuple[float, LayoutKey]]:
    found = best_start(mig_layout.GPU_MODELS[layout_key.gpu_model], layout_key.layout, profile)
    if found is not None:
        yield found[1], layout_key


def entries(gpus: DynamicGpus, slot: Slot) -> Iterable[Entry]:
    """The entries of a node."""
    group = (gpus.free_slices, 0)
    keys: dict[Key, None] = {NodeLayouts(gpus.gpu_model.name, gpus.sorted_layouts): None}
    for layout, idle in zip(gpus.held, gpus.idle, strict=True):
        if layout != BLOCKED:
            layout_key = LayoutKey(gpus.gpu_model.name, layout)
            keys[layout_key] = None
            keys.update((IdleKey(layout_key, one), None) for one in idle)
    return ((key, group, slot) for key in keys)
