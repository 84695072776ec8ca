"""Placed pods counted per topology domain: what affinity and spread decide on.

Events keep the counts; a decision reads them and never walks over pods. Terminating pods count for
affinity, both ways, and not for spread, as in kube-scheduler (``interpodaffinity``,
``podtopologyspread``).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

import msgspec

from scheduler.model.node import Namespace, Node
from scheduler.model.pods.pod import Pod
from scheduler.model.pods.pod_affinity import NO_AFFINITY, PodTerm, WeightedPodTerm
from scheduler.state.topology.domain_paths import DomainPaths
from scheduler.state.topology.domains import (
    ANY_NODE,
    DomainCounts,
    Domains,
    Eligibility,
    NodeCounts,
)
from scheduler.state.topology.families import Families
from scheduler.state.topology.label_groups import Counted, GroupKey, LabelGroups
from scheduler.state.topology.levels import Levels
from scheduler.state.topology.live_terms import LiveTerms

#: What a required affinity term of a placed pod weighs for a pod that it matches
#: (kube-scheduler: hardPodAffinityWeight).
REQUIRED_WEIGHT: Final = 1
#: More tables of eligible nodes than this are not kept; the one that was read least lately goes.
DOMAINS_MAX: Final = 512
#: Likewise of paths.
PATHS_MAX: Final = 64

#: More results of comparisons with live terms than this are not kept.
MATCHES_MAX: Final = 4_096


class _Matches(msgspec.Struct, frozen=True):
    """The terms of placed pods that match pods with equal labels, as far as terms read them."""

    anti: tuple[tuple[PodTerm, PodTerm, NodeCounts], ...]
    weighted: tuple[tuple[WeightedPodTerm, PodTerm, NodeCounts], ...]


_NO_MATCHES: Final = _Matches((), ())


class _Placed(msgspec.Struct, frozen=True):
    """How a pod was counted."""

    pod: Pod
    node_name: str


class Topology:
    """The counts of all placed pods. ``namespace`` gives the labels of a namespace."""

    def __init__(self, namespace: Callable[[str], Namespace]) -> None:
        self.namespace = namespace
        self._nodes: dict[str, Node] = {}
        self._placed: dict[str, _Placed] = {}
        self._groups = LabelGroups(namespace)
        self._anti: LiveTerms[PodTerm] = LiveTerms()
        self._weighted: LiveTerms[WeightedPodTerm] = LiveTerms()
        self._domains: dict[tuple[str, Eligibility], Domains] = {}
        self._paths: dict[tuple[str, ...], DomainPaths] = {}
        self.levels = Levels()
        self.families = Families()
        self._matches: dict[tuple[str | None, ...], _Matches] = {}
        self._matches_version = 0
        self._read_keys: tuple[str, ...] = ()
        #: Whether no placed pod has a term.
        self.is_bare = True
        #: Rises with every change after which a decision may read something else.
        self.generation = 0

    @property
    def node_count(self) -> int:
        """The number of nodes."""
        return len(self._nodes)

    # --- events ------------------------------------------------------------------------------

    def add_pod(self, pod: Pod, node_name: str) -> None:
        """A pod is placed, or a placed pod changed."""
        known = self._placed.get(pod.uid)
        if known is not None:
            if known.node_name == node_name and _is_counted_alike(known.pod, pod):
                return
            self._count(known, -1)
        placed = self._placed[pod.uid] = _Placed(pod, node_name)
        self._count(placed, 1)

    def remove_pod(self, uid: str) -> None:
        """A pod is not placed any more."""
        placed = self._placed.pop(uid, None)
        if placed is not None:
            self._count(placed, -1)

    def upsert_node(self, node: Node) -> None:
        """A node is new or changed."""
        before = self._nodes.get(node.name)
        self._nodes[node.name] = node
        if before is None or (before.labels, before.taints) != (node.labels, node.taints):
            self._node_changed(node.name, node)
        self.levels.change(node.name, node)

    def delete_node(self, name: str) -> None:
        """A node is gone; pods on it have no domain."""
        if self._nodes.pop(name, None) is not None:
            self._node_changed(name, None)
            self.levels.change(name, None)

    def relabel_namespace(self, name: str) -> None:
        """The labels of a namespace changed."""
        self._matches.clear()
        if self._groups.relabel(name) or len(self._anti) or len(self._weighted):
            self.generation += 1

    def _count(self, placed: _Placed, delta: int) -> None:
        pod, at = placed.pod, placed.node_name
        is_read = self._groups.add(group_of(pod), at, delta, is_terminating=pod.is_deleting)
        if pod.affinity is not NO_AFFINITY:
            self._count_terms(pod, at, delta)
            is_read = is_read or bool(pod.affinity.terms())
        if pod.topology is not None:
            self.families.count(pod, at, delta)
            is_read = True
        self.generation += is_read

    def _count_terms(self, pod: Pod, at: str, delta: int) -> None:
        for term in pod.affinity.required_anti:
            self._anti.add(term, term, at, delta)
        for one in weighted_terms(pod):
            self._weighted.add(one, one.term, at, delta)
        self.is_bare = not len(self._anti) and not len(self._weighted)

    def _node_changed(self, name: str, node: Node | None) -> None:
        for paths in self._paths.values():
            self.generation += paths.change(name, node)
        for domains in self._domains.values():
            before, after = domains.change(name, node)
            if before != after:
                self.generation += 1
                for counts in self._every_counter():
                    counts.move(domains, name, before, after)

    def _every_counter(self) -> Iterator[NodeCounts]:
        yield from self._groups.counters()
        yield from self._anti.counters()
        yield from self._weighted.counters()

    # --- reading, see ``state/topology/reader`` ----------------------------------------------

    @property
    def label_keys(self) -> frozenset[str]:
        """The pod labels that terms of placed pods read."""
        return frozenset((*self._anti.label_keys, *self._weighted.label_keys))

    def counts(self, counted: Counted, key: str, eligibility: Eligibility) -> DomainCounts:
        """Pods of a set per value of a node label."""
        return self._groups.counts(counted).per_value(self.domains(key, eligibility))

    def anti_terms(self, pod: Pod) -> Iterator[tuple[PodTerm, DomainCounts]]:
        """Required anti-affinity terms of placed pods that match a pod."""
        for term, _, counts in self._matching(pod).anti:
            yield term, counts.per_value(self.domains(term.topology_key, ANY_NODE))

    def weighted_terms(self, pod: Pod) -> Iterator[tuple[WeightedPodTerm, DomainCounts]]:
        """Terms of placed pods that weigh for or against a pod."""
        for one, term, counts in self._matching(pod).weighted:
            yield one, counts.per_value(self.domains(term.topology_key, ANY_NODE))

    def _matching(self, pod: Pod) -> _Matches:
        """The terms of placed pods that match a pod.

        They are compared once per namespace and values of the labels that they read, until a term
        is new or gone. So a pod that none of them selects costs one look-up.
        """
        if self.is_bare:
            return _NO_MATCHES
        version = self._anti.version + self._weighted.version
        if version != self._matches_version or len(self._matches) >= MATCHES_MAX:
            self._matches.clear()
            self._matches_version = version
            self._read_keys = tuple(sorted(self.label_keys))
        labels = pod.labels
        place = (pod.namespace, *[labels.get(key) for key in self._read_keys])
        found = self._matches.get(place)
        if found is None:
            namespace = self.namespace(pod.namespace)
            anti = tuple(self._anti.matching(namespace, labels))
            weighted = tuple(self._weighted.matching(namespace, labels))
            found = self._matches[place] = _Matches(anti, weighted)
        return found

    def paths(self, keys: tuple[str, ...]) -> DomainPaths:
        """The domains of all nodes by these labels, far first; kept up to date from now on."""
        paths = self._paths.pop(keys, None)
        if paths is None:
            while len(self._paths) >= PATHS_MAX:
                del self._paths[next(iter(self._paths))]
            paths = DomainPaths(keys, self._nodes)
        self._paths[keys] = paths
        return paths

    def domains(self, key: str, eligibility: Eligibility) -> Domains:
        """The eligible nodes by their value of a label."""
        place = (key, eligibility)
        domains = self._domains.pop(place, None)
        if domains is None:
            while len(self._domains) >= DOMAINS_MAX:
                dropped = self._domains.pop(next(iter(self._domains)))
                for counts in self._every_counter():
                    counts.drop(dropped)
            domains = Domains(key, eligibility, self._nodes)
        self._domains[place] = domains
        return domains


def group_of(pod: Pod) -> GroupKey:
    """The pods that are counted together with a pod."""
    return pod.namespace, pod.labels_key


def weighted_terms(pod: Pod) -> Iterator[WeightedPodTerm]:
    """What a placed pod's terms weigh for pods that they match."""
    yield from pod.affinity.preferred
    for term in pod.affinity.required:
        yield WeightedPodTerm(REQUIRED_WEIGHT, term)


def _is_counted_alike(one: Pod, other: Pod) -> bool:
    return (one.labels, one.is_deleting, one.affinity) == (
        other.labels,
        other.is_deleting,
        other.affinity,
    )
