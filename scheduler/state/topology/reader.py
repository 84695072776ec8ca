"""The read side of the counts, as a decision sees them: with pods tried out on top, or without."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Hashable, Iterable, Iterator, Mapping
from typing import Final

import msgspec

from scheduler.model.pods.pod import Pod
from scheduler.model.pods.pod_affinity import NO_AFFINITY, PodSet, PodTerm, WeightedPodTerm
from scheduler.state.topology.domain_paths import DomainPaths
from scheduler.state.topology.domains import ANY_NODE, DomainCounts, Domains, Eligibility
from scheduler.state.topology.families import Families
from scheduler.state.topology.label_groups import Counted
from scheduler.state.topology.topology import Topology, weighted_terms

_UNCHANGED: Final[Mapping[str, int]] = {}


class Change(msgspec.Struct, frozen=True):
    """A pod that is tried out on a node (1), or away from it (-1)."""

    pod: Pod
    node_name: str
    delta: int


class PodsPerDomain(msgspec.Struct, frozen=True):
    """Pods per value of a node label; ``changes`` are added to what is counted."""

    counts: DomainCounts
    changes: Mapping[str, int] = _UNCHANGED

    def at(self, value: str) -> int:
        """The pods at one value."""
        return self.counts.by_value.get(value, 0) + self.changes.get(value, 0)

    def values(self) -> Iterator[str]:
        """The values that have pods."""
        if not self.changes:
            yield from self.counts.by_value
            return
        every = dict.fromkeys((*self.counts.by_value, *self.changes))
        yield from (value for value in every if self.at(value) > 0)

    @property
    def is_empty(self) -> bool:
        """Whether no value has pods."""
        return next(self.values(), None) is None

    def least(self, min_domains: int) -> int:
        """The smallest number of pods of any domain; 0 where there are fewer domains."""
        return self.counts.least(min_domains, self.changes)


class TopologyReader:
    """What decisions ask; ``changes`` are pods that are tried out."""

    def __init__(self, topology: Topology, changes: Iterable[Change] = ()) -> None:
        self._topology = topology
        self._changes = tuple(changes)
        self._have_terms: bool | None = None

    @property
    def generation(self) -> int:
        """Equal numbers mean equal answers, without what is tried out."""
        return self._topology.generation

    @property
    def label_keys(self) -> frozenset[str]:
        """The pod labels that terms of placed pods read."""
        keys = self._topology.label_keys
        for change in self._changes:
            keys |= {key for term in change.pod.affinity.terms() for key in term.pods.selector.keys}
        return keys

    @property
    def is_bare(self) -> bool:
        """Whether no placed pod has a term."""
        if not self._changes:
            return self._topology.is_bare
        if self._have_terms is None:
            self._have_terms = _have_terms(self._changes)
        return self._topology.is_bare and not self._have_terms

    @property
    def detected_levels(self) -> tuple[str, ...]:
        """The label keys that say where GPU nodes are in the network, far first."""
        return self._topology.levels.detected

    @property
    def families(self) -> Families:
        """Pods that stay near each other, without what is tried out."""
        return self._topology.families

    def paths(self, keys: tuple[str, ...]) -> DomainPaths:
        """The domains of all nodes by these labels, far first."""
        return self._topology.paths(keys)

    def with_changes(self, changes: Iterable[Change]) -> TopologyReader:
        """The same with these pods tried out too."""
        more = tuple(changes)
        reader = TopologyReader(self._topology, (*self._changes, *more))
        if self._have_terms is not None:  # many pods one after the other: each is looked at once
            reader._have_terms = self._have_terms or _have_terms(more)
        return reader

    def affine(self, sets: tuple[PodSet, ...], key: str) -> PodsPerDomain:
        """Pods that are in all these sets, terminating ones too, per value of a node label."""
        return self._read(Counted(sets, with_terminating=True), key, ANY_NODE)

    def spread(self, pods: PodSet, key: str, eligibility: Eligibility) -> PodsPerDomain:
        """Pods of a set that are not terminating, per value over the eligible nodes."""
        return self._read(Counted((pods,), with_terminating=False), key, eligibility)

    def anti_terms(self, pod: Pod) -> list[tuple[PodTerm, PodsPerDomain]]:
        """Required anti-affinity terms of placed pods that match a pod, with their domains."""
        if self.is_bare:
            return []
        found = dict(self._topology.anti_terms(pod))
        changes: dict[PodTerm, list[Change]] = {}
        for change in self._changes:
            for term in change.pod.affinity.required_anti:
                if self._matches(term, pod):
                    changes.setdefault(term, []).append(change)
        return [
            (term, self._changed(found.get(term), term.topology_key, changes.get(term, ())))
            for term in dict.fromkeys((*found, *changes))
        ]

    def weighted_terms(self, pod: Pod) -> list[tuple[WeightedPodTerm, PodsPerDomain]]:
        """Terms of placed pods that weigh for or against a pod, with their domains."""
        if self.is_bare:
            return []
        found = dict(self._topology.weighted_terms(pod))
        changes: dict[WeightedPodTerm, list[Change]] = {}
        for change in self._changes:
            for one in weighted_terms(change.pod):
                if self._matches(one.term, pod):
                    changes.setdefault(one, []).append(change)
        return [
            (one, self._changed(found.get(one), one.term.topology_key, changes.get(one, ())))
            for one in dict.fromkeys((*found, *changes))
        ]

    def nodes_with(self, key: str, values: Iterable[str]) -> Iterator[str]:
        """The names of the nodes whose label has one of these values."""
        wanted = frozenset(values)
        value_of = self._topology.domains(key, ANY_NODE).value_of
        return (name for name, value in value_of.items() if value in wanted)

    def domain_count(self, keys: Iterable[str]) -> int:
        """The number of combinations of values of node labels; no label is a value too."""
        every = [self._topology.domains(key, ANY_NODE) for key in keys]
        nodes = self._topology.node_count
        return math.prod(len(one.sizes) + (len(one.value_of) < nodes) for one in every)

    def is_in(self, pods: PodSet, pod: Pod) -> bool:
        """Whether a pod is in a set, by the labels of its namespace now."""
        return pods.has(self._topology.namespace(pod.namespace), pod.labels)

    def concerns(self, waiting: Pod, changed: Pod) -> bool:
        """Whether a placed pod counts for a pod that waits, by a required term of either, or as one
        that it has to be near.
        """
        if waiting.topology is not None and waiting.family == changed.family:
            return True
        own = [*waiting.affinity.required, *waiting.affinity.required_anti]
        sets = [
            *(term.pods for term in own),
            *(one.counted for one in waiting.spread if one.is_hard),
        ]
        return any(self.is_in(pods, changed) for pods in sets) or any(
            self._matches(term, waiting) for term in changed.affinity.required_anti
        )

    def terms_key(self, pod: Pod) -> Hashable:
        """All that terms read of a pod, its own and those of placed pods; None where none can.

        Pods with equal keys get equal answers about their domains.
        """
        if self.is_bare and not pod.has_terms and pod.topology is None:
            return None
        own = (*(term.pods for term in pod.affinity.terms()), *(one.pods for one in pod.spread))
        keys = self.label_keys.union(*(pods.selector.keys for pods in own))
        labels = tuple((key, pod.labels.get(key)) for key in sorted(keys))
        near = None if pod.topology is None else (pod.topology, pod.family)
        return (pod.namespace, pod.affinity, pod.spread, labels, near)

    def _matches(self, term: PodTerm, pod: Pod) -> bool:
        return self.is_in(term.pods, pod)

    def _read(self, counted: Counted, key: str, eligibility: Eligibility) -> PodsPerDomain:
        counts = self._topology.counts(counted, key, eligibility)
        relevant = [
            change
            for change in self._changes
            if (counted.with_terminating or not change.pod.is_deleting)
            and all(self.is_in(pods, change.pod) for pods in counted.sets)
        ]
        return PodsPerDomain(counts, _per_value(counts.domains, relevant))

    def _changed(
        self, counts: DomainCounts | None, key: str, changes: Iterable[Change]
    ) -> PodsPerDomain:
        if counts is None:
            counts = DomainCounts(self._topology.domains(key, ANY_NODE), {})
        return PodsPerDomain(counts, _per_value(counts.domains, changes))


def _have_terms(changes: Iterable[Change]) -> bool:
    affinities = (one.pod.affinity for one in changes)
    return any(one is not NO_AFFINITY and one.terms() for one in affinities)


def _per_value(domains: Domains, changes: Iterable[Change]) -> Mapping[str, int]:
    found: Counter[str] = Counter()
    for change in changes:
        value = domains.value_of.get(change.node_name)
        if value is not None:
            found[value] += change.delta
    return found or _UNCHANGED
