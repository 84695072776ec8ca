"""An index of the nodes, so that the cost of a decision does not grow with the cluster.

Nodes that no pod distinguishes form a *class*: equal cordon, taints and values of the label keys
that a pod names (design 5.21; ``state/index/label_keys``). Real nodes have timestamps and instance
ids as labels, so keys that no pod names do not count. Allocatable does not count either, because
free capacity is the order in the buckets. A high-cardinality key would make a class per node, so a
value index narrows the candidates instead.

The index only finds candidates in order; the filters decide.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping

import msgspec

from scheduler.model import well_known
from scheduler.model.node import Node
from scheduler.model.selector import Taint
from scheduler.state.index import mig_layout_index
from scheduler.state.index.capacity_bucket import CapacityBucket, Group, Slot
from scheduler.state.index.high_cardinality_keys import HighCardinalityKeys
from scheduler.state.index.label_keys import LabelKeys
from scheduler.state.index.mig_layout_index import MigLayoutIndex
from scheduler.state.node_info import NodeInfo

#: A key with more values than this has a high cardinality.
VALUES_MAX = 64
#: Above this number classes are merged: a decision may visit each class.
CLASSES_MAX = 512
REMEMBERED_MAX = 4096
ANY = ""

AllNodeInfos = Mapping[str, NodeInfo]
#: A node in the bucket of a resource.
Entry = tuple[str, Group, Slot]
Trait = tuple[bool, tuple[Taint, ...], tuple[str | None, ...]]


class NodeClass(msgspec.Struct, kw_only=True):
    """Nodes with equal answers to all constraints on labels and taints; ``sample`` is one of
    them.
    """

    number: int
    trait: Trait
    sample: NodeInfo
    size: int = 0
    buckets: dict[str, CapacityBucket] = {}
    mig_layouts: MigLayoutIndex = msgspec.field(default_factory=MigLayoutIndex)


class RankedClasses(msgspec.Struct, frozen=True):
    """Classes with equal soft preference; ``soft_penalty`` is ``Pipeline.soft_penalty``."""

    soft_penalty: int
    classes: tuple[NodeClass, ...]
    numbers: frozenset[int]


class _Place(msgspec.Struct):
    """The position of a node: its class and its entry in each bucket."""

    node: Node
    node_class: NodeClass
    entries: tuple[Entry, ...] = ()
    mig_layouts: tuple[mig_layout_index.Entry, ...] = ()


class NodeIndex:
    """Classes, buckets and value indexes of all existing nodes."""

    def __init__(self) -> None:
        self.keys: tuple[str, ...] = ()
        self.high_cardinality = HighCardinalityKeys()
        self.classes: dict[Trait, NodeClass] = {}
        self.buckets: dict[str, CapacityBucket] = {}
        self.mig_layouts = MigLayoutIndex()
        self.epoch = 0
        self.labels = LabelKeys()
        #: Number of rebuilds.
        self.rebuilt = 0
        #: The class number of each node, in the order of their addition.
        self.class_numbers: dict[str, int] = {}
        self._places: dict[str, _Place] = {}
        self._numbers = 0
        self._ranked: dict[object, tuple[RankedClasses, ...]] = {}
        self._ranked_epoch = 0
        self._class_keys: frozenset[str] = frozenset()
        self._tracked_keys: dict[str, None] = {}

    def put(self, node_info: NodeInfo) -> None:
        """Insert a node, or update it after a change of its NodeInfo or labels."""
        node = node_info.node
        assert node is not None
        place = self._places.get(node.name)
        if place is not None and place.node is not node:
            self._take_out(node.name)
            place = None
        if place is None:
            self.labels.add_labels(node.labels)
            place = self._enter(node)
        self._insert(place, node_info)

    def _enter(self, node: Node) -> _Place:
        place = self._places[node.name] = _Place(node, self._class(node))
        place.node_class.size += 1
        self.class_numbers[node.name] = place.node_class.number
        self.high_cardinality.put(node)
        return place

    def drop(self, name: str) -> None:
        """Remove a node; an unknown one is ignored."""
        if name in self._places:
            self._take_out(name)
            del self.class_numbers[name]

    def _take_out(self, name: str) -> None:
        place = self._places.pop(name)
        self._remove(place)
        self.labels.remove_labels(place.node.labels)
        self.high_cardinality.take(place.node)
        place.node_class.size -= 1
        if place.node_class.size == 0:
            del self.classes[place.node_class.trait]
            self.epoch += 1

    def track_label_keys(self, keys: Collection[str], node_info: AllNodeInfos) -> None:
        """A pod names these label keys: distinguish nodes by them too, if that pays."""
        if keys:
            self.labels.ask(keys, self._tracked_keys)
        if self.labels.uses:
            self._grow(node_info)

    def _grow(self, node_info: AllNodeInfos) -> None:
        """Add the keys that enough pods have named."""
        keys = self.labels.due(self._tracked_keys)
        if not keys:
            return
        values: dict[str, set[str]] = {key: set() for key in keys}
        for labels in (entry.node.labels for entry in node_info.values() if entry.node is not None):
            for key in values.keys() & labels.keys():
                values[key].add(labels[key])
        high_cardinality = [
            key for key in keys if key in self.high_cardinality or len(values[key]) > VALUES_MAX
        ]
        self.rebuild(
            [key for key in keys if key not in high_cardinality], high_cardinality, node_info
        )
        self._merge_classes(node_info)

    def ranked_classes(
        self, constraints: object, sort: Callable[[Iterable[NodeClass]], tuple[RankedClasses, ...]]
    ) -> tuple[RankedClasses, ...]:
        """The classes that pods with these constraints may use; sorted once, until classes
        change.
        """
        if self._ranked_epoch != self.epoch or len(self._ranked) >= REMEMBERED_MAX:
            self._ranked.clear()
            self._ranked_epoch = self.epoch
        found = self._ranked.get(constraints)
        if found is None:
            found = self._ranked[constraints] = sort(self.classes.values())
        return found

    def shrink_classes(self, node_info: AllNodeInfos) -> None:
        """After a node was added or changed: limit the number of classes, and add its new keys."""
        self._grow(node_info)
        self._merge_classes(node_info)

    def _merge_classes(self, node_info: AllNodeInfos) -> None:
        """Above the maximum number of classes, move the keys with the most values to the value
        index.
        """
        if len(self.classes) <= CLASSES_MAX or not self.keys:
            return
        traits = [node_class.trait for node_class in self.classes.values()]
        left = {at: len({trait[2][at] for trait in traits}) for at in range(len(self.keys))}
        while left and len({_restricted(trait, left) for trait in traits}) > CLASSES_MAX:
            del left[max(left, key=lambda at: left[at])]
        high_cardinality = [key for at, key in enumerate(self.keys) if at not in left]
        self.rebuild(
            [self.keys[at] for at in left], [*self.high_cardinality, *high_cardinality], node_info
        )

    def covers(self, keys: Iterable[str]) -> bool:
        """Whether the classes are sufficient for these label keys: no node has another of them."""
        return self._class_keys.issuperset(keys) or not any(
            self.labels.is_there(key) for key in keys if key not in self._class_keys
        )

    def with_value(self, key: str, value: str) -> set[str] | None:
        """Names of the nodes with this label; None if its key is not in the value index."""
        return self.high_cardinality.with_value(key, value)

    def rebuild(
        self, keys: Iterable[str], high_cardinality: Iterable[str], node_info: AllNodeInfos
    ) -> None:
        """Rebuild the index with exactly these keys."""
        self.keys = tuple(keys)
        self.high_cardinality = HighCardinalityKeys(high_cardinality)
        self._class_keys = frozenset(self.keys)
        self._tracked_keys = dict.fromkeys((*self.keys, *self.high_cardinality))
        self.classes, self.buckets, self._places, self.class_numbers = {}, {}, {}, {}
        self.mig_layouts = MigLayoutIndex()
        self.epoch += 1
        self.rebuilt += 1
        for entry in node_info.values():
            if entry.node is not None:
                self._insert(self._enter(entry.node), entry)

    def _class(self, node: Node) -> NodeClass:
        values = tuple(node.labels.get(key) for key in self.keys)
        trait = (node.unschedulable, node.taints, values)
        node_class = self.classes.get(trait)
        if node_class is None:
            self._numbers += 1
            self.epoch += 1
            node_class = NodeClass(number=self._numbers, trait=trait, sample=NodeInfo(node))
            self.classes[trait] = node_class
        return node_class

    def _insert(self, place: _Place, node_info: NodeInfo) -> None:
        entries = _entries(place.node, node_info)
        mig_layouts = (
            tuple(_mig_layout_entries(place.node, node_info)) if node_info.is_dynamic else ()
        )
        if entries == place.entries and mig_layouts == place.mig_layouts:
            return
        self._remove(place)
        place.entries, place.mig_layouts = entries, mig_layouts
        for entry in mig_layouts:
            self.mig_layouts.put(entry)
            place.node_class.mig_layouts.put(entry)
        for resource, group, slot in entries:
            for buckets in (self.buckets, place.node_class.buckets):
                bucket = buckets.get(resource)
                if bucket is None:
                    bucket = buckets[resource] = CapacityBucket()
                bucket.put(group, slot)

    def _remove(self, place: _Place) -> None:
        for resource, group, slot in place.entries:
            self.buckets[resource].take(group, slot)
            place.node_class.buckets[resource].take(group, slot)
        for entry in place.mig_layouts:
            self.mig_layouts.take(entry)
            place.node_class.mig_layouts.take(entry)
        place.entries = place.mig_layouts = ()


def _restricted(trait: Trait, places: Iterable[int]) -> Trait:
    """A trait restricted to some of the keys."""
    return (trait[0], trait[1], tuple(trait[2][at] for at in places))


def _entries(node: Node, node_info: NodeInfo) -> tuple[Entry, ...]:
    free = node_info.free_devices
    slot = (node_info.free(well_known.CPU), node.name)
    of_any: Entry = (ANY, (0, node_info.device_rank_with(free)), slot)
    if node_info.is_dynamic:
        return (of_any,)  # the layout index finds these nodes
    total = sum(free.values())
    return (of_any, *[(resource, (left, total - left), slot) for resource, left in free.items()])


def _mig_layout_entries(node: Node, node_info: NodeInfo) -> Iterable[mig_layout_index.Entry]:
    assert node_info.gpus is not None
    return mig_layout_index.entries(node_info.gpus, (node_info.free(well_known.CPU), node.name))
