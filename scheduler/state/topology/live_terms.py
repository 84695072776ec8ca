"""The affinity terms of placed pods, found by the labels of a pod that they may concern.

A required anti-affinity term of a placed pod rejects other pods in its domain; preferred terms and
required affinity terms weigh at their score. Equal terms of many pods are one entry.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Hashable, Iterable, Mapping
from typing import Generic, TypeVar

from scheduler.model.node import Namespace
from scheduler.model.pods.pod_affinity import PodTerm
from scheduler.state.topology.domains import NodeCounts

#: Namespace, label key and label value that every pod of a term's set has.
_Pair = tuple[str, str, str]
T = TypeVar("T", bound=Hashable)


class LiveTerms(Generic[T]):
    """Terms with the nodes of the pods that have them; ``T`` is the term with what it stands for.

    A term that names its namespaces and requires one value of a label is found by that label; the
    rest are compared one by one.
    """

    def __init__(self) -> None:
        self._counts: dict[T, NodeCounts] = {}
        self._terms: dict[T, PodTerm] = {}
        self._by_pair: dict[_Pair, dict[T, None]] = {}
        self._others: dict[T, None] = {}
        self._keys: Counter[str] = Counter()
        #: Rises when a term is new or gone; not with the number of pods that have it.
        self.version = 0

    def __len__(self) -> int:
        return len(self._counts)

    def add(self, item: T, term: PodTerm, node_name: str, delta: int) -> None:
        """So many pods more with this term on a node."""
        counts = self._counts.get(item)
        if counts is None:
            counts = self._counts[item] = NodeCounts()
            self._terms[item] = term
            self.version += 1
            self._keys.update(term.pods.selector.keys)
            for place in self._places(term):
                place[item] = None
        counts.add(node_name, delta)
        if not counts.by_node:
            self._drop(item)

    def matching(
        self, namespace: Namespace, labels: Mapping[str, str]
    ) -> list[tuple[T, PodTerm, NodeCounts]]:
        """The terms whose set a pod of this namespace with these labels is in."""
        if not self._counts:
            return []
        found: dict[T, None] = dict(self._others)
        for key, value in labels.items():
            found |= self._by_pair.get((namespace.name, key, value), {})
        return [
            (item, self._terms[item], self._counts[item])
            for item in found
            if self._terms[item].pods.has(namespace, labels)
        ]

    @property
    def label_keys(self) -> Collection[str]:
        """The keys of the pod labels that the terms read."""
        return self._keys.keys()

    def counters(self) -> Iterable[NodeCounts]:
        """Every counter."""
        return self._counts.values()

    def _places(self, term: PodTerm) -> list[dict[T, None]]:
        pair = term.pods.selector.required_pair
        if pair is None or term.pods.namespace_selector.requirements is not None:
            return [self._others]
        return [self._by_pair.setdefault((name, *pair), {}) for name in term.pods.namespaces]

    def _drop(self, item: T) -> None:
        term = self._terms.pop(item)
        del self._counts[item]
        self.version += 1
        for key in term.pods.selector.keys:
            self._keys[key] -= 1
            if not self._keys[key]:
                del self._keys[key]
        for place in self._places(term):
            del place[item]
        pair = term.pods.selector.required_pair
        if pair is not None:
            for name in term.pods.namespaces:
                if not self._by_pair.get((name, *pair), True):
                    del self._by_pair[name, *pair]
