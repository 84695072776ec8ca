"""Which other pods a pod wants near it, and how evenly its kind is spread (kube-scheduler:
interpodaffinity, podtopologyspread).

Every selector is canonical and hashable, so pods whose terms mean the same share one counter
(``state/topology``). Terms are resolved against the pod that has them: a term without namespaces
means the pod's own.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import msgspec

from scheduler.model.node import Namespace
from scheduler.model.selector import LabelSelector, Requirement, holds, is_sound_label_selector


class PodSelector(msgspec.Struct, frozen=True, gc=False, cache_hash=True):
    """Requirements on labels, all of which must hold; None matches no labels at all."""

    requirements: tuple[Requirement, ...] | None = None

    def matches(self, labels: Mapping[str, str]) -> bool:
        """Whether labels meet every requirement."""
        if self.requirements is None:
            return False
        return all(holds(requirement, labels) for requirement in self.requirements)

    @property
    def keys(self) -> frozenset[str]:
        """The label keys that the requirements read."""
        return frozenset(requirement.key for requirement in self.requirements or ())

    @property
    def required_pair(self) -> tuple[str, str] | None:
        """One label with its value that every matching object has, where there is one."""
        for requirement in self.requirements or ():
            if requirement.operator == "In" and len(requirement.values) == 1:
                return requirement.key, requirement.values[0]
        return None


class PodSet(msgspec.Struct, frozen=True, gc=False, cache_hash=True):
    """The pods that a term counts: those of some namespaces with some labels.

    ``namespaces`` are names; a namespace also belongs to the set if its labels match
    ``namespace_selector``.
    """

    selector: PodSelector
    namespaces: tuple[str, ...] = ()
    namespace_selector: PodSelector = PodSelector()

    def has_namespace(self, namespace: Namespace) -> bool:
        """Whether the pods of a namespace are in the set."""
        return namespace.name in self.namespaces or self.namespace_selector.matches(
            namespace.labels
        )

    def has(self, namespace: Namespace, labels: Mapping[str, str]) -> bool:
        """Whether a pod of this namespace with these labels is in the set."""
        return self.has_namespace(namespace) and self.selector.matches(labels)


class PodTerm(msgspec.Struct, frozen=True, gc=False, cache_hash=True):
    """Pods that share a value of the node label ``topology_key`` with the pod, or must not."""

    topology_key: str
    pods: PodSet


class WeightedPodTerm(msgspec.Struct, frozen=True, gc=False, cache_hash=True):
    """A preferred term; ``weight`` is below zero for anti-affinity."""

    weight: int
    term: PodTerm


class PodAffinity(msgspec.Struct, frozen=True, gc=False, cache_hash=True):
    """``spec.affinity.podAffinity`` and ``podAntiAffinity``."""

    required: tuple[PodTerm, ...] = ()
    required_anti: tuple[PodTerm, ...] = ()
    preferred: tuple[WeightedPodTerm, ...] = ()

    def terms(self) -> tuple[PodTerm, ...]:
        """Every term."""
        return (*self.required, *self.required_anti, *(one.term for one in self.preferred))


class SpreadConstraint(msgspec.Struct, frozen=True, gc=False, cache_hash=True, kw_only=True):
    """One of ``spec.topologySpreadConstraints``; ``is_hard`` with DoNotSchedule.

    ``honors_affinity`` and ``honors_taints`` say whether nodes that the pod's node affinity, or its
    tolerations, exclude have no domain.
    """

    topology_key: str
    max_skew: int
    is_hard: bool
    pods: PodSet
    min_domains: int = 1
    honors_affinity: bool = True
    honors_taints: bool = False

    @property
    def counted(self) -> PodSet:
        """The placed pods that the constraint counts: none for an empty label selector.

        The pod itself is counted in that case too (kube-scheduler: podtopologyspread/common.go
        countPodsMatchSelector).
        """
        return self.pods if self.pods.selector.requirements else PodSet(PodSelector())


NO_AFFINITY = PodAffinity()


def pod_selector(selector: LabelSelector | None, extra: Iterable[Requirement] = ()) -> PodSelector:
    """The canonical form of a label selector: none, and one that cannot be parsed, match nothing.

    ``extra`` requirements hold beside it (matchLabelKeys).
    """
    if selector is None or not is_sound_label_selector(selector):
        return PodSelector()
    pairs = (Requirement(key, "In", (value,)) for key, value in selector.match_labels.items())
    every = {*pairs, *selector.match_expressions, *extra}
    return PodSelector(tuple(sorted(every, key=lambda one: (one.key, one.operator, one.values))))
