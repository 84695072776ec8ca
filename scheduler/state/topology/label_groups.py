"""Placed pods grouped by namespace and labels, and the counters that each group feeds.

The pods of one workload have equal labels, so a selector is compared once per group and not once
per pod; a pod that is added then costs one look-up and the counters of its group.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Final

import msgspec

from scheduler.model.node import Namespace
from scheduler.model.pods.pod_affinity import PodSet
from scheduler.state.counts import add
from scheduler.state.topology.domains import NodeCounts

#: More counters than this are not kept; the one that was read least lately goes.
COUNTERS_MAX: Final = 4_096

Labels = tuple[tuple[str, str], ...]
GroupKey = tuple[str, Labels]


class Counted(msgspec.Struct, frozen=True, gc=False, cache_hash=True):
    """What a counter counts: pods that are in all these sets."""

    sets: tuple[PodSet, ...]
    with_terminating: bool

    def has(self, namespace: Namespace, labels: Mapping[str, str]) -> bool:
        """Whether pods with these labels are counted."""
        return all(one.has(namespace, labels) for one in self.sets)


class LabelGroup:
    """Pods with equal namespace and labels; ``living`` are those that are not terminating."""

    __slots__ = ("counters", "labels", "living", "namespace", "terminating")

    def __init__(self, namespace: str, labels: Mapping[str, str]) -> None:
        self.namespace = namespace
        self.labels = labels
        self.living: dict[str, int] = {}
        self.terminating: dict[str, int] = {}
        self.counters: list[tuple[Counted, NodeCounts]] = []

    def pods_on_nodes(self, *, with_terminating: bool) -> Iterable[tuple[str, int]]:
        """Node and number of pods."""
        yield from self.living.items()
        if with_terminating:
            yield from self.terminating.items()


class LabelGroups:
    """All groups, and a counter for every set that was asked for."""

    def __init__(self, namespace: Callable[[str], Namespace]) -> None:
        self._namespace = namespace
        self._groups: dict[GroupKey, LabelGroup] = {}
        self._of_namespace: dict[str, dict[Labels, LabelGroup]] = {}
        self._counters: dict[Counted, NodeCounts] = {}

    def add(self, key: GroupKey, node_name: str, delta: int, *, is_terminating: bool) -> bool:
        """So many pods more of a group on a node; whether a counter changed."""
        group = self._groups.get(key) or self._found(key)
        add(group.terminating if is_terminating else group.living, node_name, delta)
        is_counted = False
        for counted, counts in group.counters:
            if counted.with_terminating or not is_terminating:
                counts.add(node_name, delta)
                is_counted = True
        if not group.living and not group.terminating:
            self._drop(key)
        return is_counted

    def counts(self, counted: Counted) -> NodeCounts:
        """The counter of these pods; the first call compares every group."""
        counts = self._counters.pop(counted, None)
        if counts is None:
            counts = self._counter(counted)
        self._counters[counted] = counts  # at the end: read last
        return counts

    def counters(self) -> Iterable[NodeCounts]:
        """Every counter."""
        return self._counters.values()

    def relabel(self, namespace: str) -> bool:
        """The labels of a namespace changed; whether a counter may have changed."""
        groups = self._of_namespace.get(namespace, {}).values()
        for group in groups:
            _feed(group, group.counters, -1)
            group.counters = self._counters_of(group)
            _feed(group, group.counters, 1)
        return bool(groups) and bool(self._counters)

    def _counter(self, counted: Counted) -> NodeCounts:
        while len(self._counters) >= COUNTERS_MAX:
            oldest = next(iter(self._counters))
            del self._counters[oldest]
            for group in self._groups.values():
                group.counters = [one for one in group.counters if one[0] != oldest]
        counts = NodeCounts()
        for group in self._candidates(counted):
            if counted.has(self._namespace(group.namespace), group.labels):
                pair = (counted, counts)
                group.counters.append(pair)
                _feed(group, (pair,), 1)
        return counts

    def _candidates(self, counted: Counted) -> Iterable[LabelGroup]:
        """The groups of the namespaces that a set names, or all of them."""
        named = next((s for s in counted.sets if s.namespace_selector.requirements is None), None)
        if named is None:
            return self._groups.values()
        return [
            group
            for name in named.namespaces
            for group in self._of_namespace.get(name, {}).values()
        ]

    def _found(self, key: GroupKey) -> LabelGroup:
        namespace, labels = key
        group = self._groups[key] = LabelGroup(namespace, dict(labels))
        self._of_namespace.setdefault(namespace, {})[labels] = group
        group.counters = self._counters_of(group)
        return group

    def _counters_of(self, group: LabelGroup) -> list[tuple[Counted, NodeCounts]]:
        namespace = self._namespace(group.namespace)
        return [
            (counted, counts)
            for counted, counts in self._counters.items()
            if counted.has(namespace, group.labels)
        ]

    def _drop(self, key: GroupKey) -> None:
        del self._groups[key]
        groups = self._of_namespace[key[0]]
        del groups[key[1]]
        if not groups:
            del self._of_namespace[key[0]]


def _feed(group: LabelGroup, counters: Iterable[tuple[Counted, NodeCounts]], sign: int) -> None:
    for counted, counts in counters:
        for name, pods in group.pods_on_nodes(with_terminating=counted.with_terminating):
            counts.add(name, sign * pods)
