"""Counts of pods per node, and what they add up to per value of a node label (a topology domain).

    pods per node       n1: 2   n2: 1   n3: 1          NodeCounts
    label zone of it    a       a       b
    pods per value      a: 3            b: 1           DomainCounts

A node that does not exist, or lacks the label, has no domain. Counts of zero are not kept.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

import msgspec

from scheduler.model.node import Node
from scheduler.model.selector import Term, Toleration, matches_any, untolerated
from scheduler.state.counts import add

Nodes = Mapping[str, Node]


class Eligibility(msgspec.Struct, frozen=True, gc=False, cache_hash=True):
    """Which nodes a spread constraint counts: those with all keys of the pod's constraints, that
    its node affinity and tolerations do not exclude. None is not compared."""

    keys: tuple[str, ...]
    node_selector: tuple[tuple[str, str], ...] = ()
    required_terms: tuple[Term, ...] | None = None
    tolerations: tuple[Toleration, ...] | None = None
    compare_numbers: bool = False

    def has(self, node: Node) -> bool:
        """Whether a node counts."""
        labels = node.labels
        if any(key not in labels for key in self.keys):
            return False
        if any(labels.get(key) != value for key, value in self.node_selector):
            return False
        if self.required_terms is not None and not matches_any(
            self.required_terms, labels, node.name
        ):
            return False
        if self.tolerations is None:
            return True
        compare = self.compare_numbers
        return untolerated(node.taints, self.tolerations, compare_numbers=compare) is None


ANY_NODE = Eligibility(())


class Domains:
    """The eligible nodes, by their value of one label."""

    def __init__(self, key: str, eligibility: Eligibility, nodes: Nodes) -> None:
        self.key = key
        self.eligibility = eligibility
        self.value_of: dict[str, str] = {}
        #: Number of eligible nodes per value.
        self.sizes: Counter[str] = Counter()
        for node in nodes.values():
            self._enter(node)

    def change(self, name: str, node: Node | None) -> tuple[str | None, str | None]:
        """A node changed or is gone: its value before and now."""
        before = self.value_of.pop(name, None)
        if before is not None:
            add(self.sizes, before, -1)
        return before, self._enter(node) if node is not None else None

    def _enter(self, node: Node) -> str | None:
        value = node.labels.get(self.key)
        if value is None or not self.eligibility.has(node):
            return None
        self.value_of[node.name] = value
        self.sizes[value] += 1
        return value


class DomainCounts:
    """Pods per value of a label over the eligible nodes."""

    def __init__(self, domains: Domains, by_node: Mapping[str, int]) -> None:
        self.domains = domains
        self.by_value: Counter[str] = Counter()
        #: How many values have a count, for counts above zero.
        self._frequency: Counter[int] = Counter()
        for name, count in by_node.items():
            value = domains.value_of.get(name)
            if value is not None:
                self.add(value, count)

    def add(self, value: str, delta: int) -> None:
        """So many pods more on nodes with this value."""
        before = self.by_value[value]
        after = before + delta
        add(self.by_value, value, delta)
        if before:
            add(self._frequency, before, -1)
        if after:
            add(self._frequency, after, 1)

    def least(self, min_domains: int, changes: Mapping[str, int]) -> int:
        """The smallest count of any domain; 0 where there are fewer domains than that.

        ``changes`` are added to the counts for this once.
        """
        if len(self.domains.sizes) < max(min_domains, 1):
            return 0
        frequency = self._frequency
        counted = len(self.by_value)
        changes = {value: delta for value, delta in changes.items() if delta}
        if changes:
            frequency = Counter(frequency)
            for value, delta in changes.items():
                before = self.by_value.get(value, 0)
                counted += (before + delta > 0) - (before > 0)
                add(frequency, before, -1 if before else 0)
                add(frequency, before + delta, 1 if before + delta else 0)
        return 0 if counted < len(self.domains.sizes) else min(frequency)


class NodeCounts:
    """Pods per node, and the domains that are counted from them."""

    def __init__(self) -> None:
        self.by_node: Counter[str] = Counter()
        self._domains: dict[Domains, DomainCounts] = {}

    def add(self, node_name: str, delta: int) -> None:
        """So many pods more on a node."""
        add(self.by_node, node_name, delta)
        for domains, counts in self._domains.items():
            value = domains.value_of.get(node_name)
            if value is not None:
                counts.add(value, delta)

    def per_value(self, domains: Domains) -> DomainCounts:
        """The counts per value; kept up to date from now on."""
        counts = self._domains.get(domains)
        if counts is None:
            counts = self._domains[domains] = DomainCounts(domains, self.by_node)
        return counts

    def move(self, domains: Domains, name: str, before: str | None, after: str | None) -> None:
        """A node's value changed."""
        counts, pods = self._domains.get(domains), self.by_node.get(name, 0)
        if counts is None or not pods:
            return
        if before is not None:
            counts.add(before, -pods)
        if after is not None:
            counts.add(after, pods)

    def drop(self, domains: Domains) -> None:
        """These domains are not counted any more."""
        self._domains.pop(domains, None)
