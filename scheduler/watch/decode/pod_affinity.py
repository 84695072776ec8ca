"""Pod affinity, anti-affinity and topology spread constraints of a pod spec."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from scheduler.model.pods.pod_affinity import (
    NO_AFFINITY,
    PodAffinity,
    PodSelector,
    PodSet,
    PodTerm,
    SpreadConstraint,
    WeightedPodTerm,
    pod_selector,
)
from scheduler.model.pods.pod_fields import (
    DO_NOT_SCHEDULE,
    AffinityFields,
    PodAffinityFields,
    PodTermFields,
    SpreadFields,
)
from scheduler.model.selector import Requirement


def pod_affinity(affinity: AffinityFields | None, namespace: str) -> PodAffinity:
    """The terms about other pods; ``namespace`` is the pod's."""
    if affinity is None or (affinity.pod_affinity is None and affinity.pod_anti_affinity is None):
        return NO_AFFINITY
    near = affinity.pod_affinity or PodAffinityFields()
    away = affinity.pod_anti_affinity or PodAffinityFields()
    return PodAffinity(
        required=tuple(_term(one, namespace) for one in near.required),
        required_anti=tuple(_term(one, namespace) for one in away.required),
        preferred=(*_weighted(near, namespace, 1), *_weighted(away, namespace, -1)),
    )


def spread_constraints(
    constraints: tuple[SpreadFields, ...], namespace: str, labels: Mapping[str, str]
) -> tuple[SpreadConstraint, ...]:
    """The constraints of a pod with these labels.

    The API server merges matchLabelKeys into the selector from 1.34 on; a merged requirement twice
    is the same as once.
    """
    return tuple(
        SpreadConstraint(
            topology_key=one.topology_key,
            max_skew=one.max_skew,
            is_hard=one.when_unsatisfiable == DO_NOT_SCHEDULE,
            pods=PodSet(
                pod_selector(one.label_selector, _own(one.match_label_keys or (), labels)),
                (namespace,),
            ),
            min_domains=one.min_domains or 1,
            honors_affinity=one.node_affinity_policy != "Ignore",
            honors_taints=one.node_taints_policy == "Honor",
        )
        for one in constraints
    )


def _own(keys: tuple[str, ...], labels: Mapping[str, str]) -> Iterator[Requirement]:
    return (Requirement(key, "In", (labels[key],)) for key in keys if key in labels)


def _weighted(fields: PodAffinityFields, namespace: str, sign: int) -> Iterator[WeightedPodTerm]:
    for one in fields.preferred:
        yield WeightedPodTerm(sign * one.weight, _term(one.pod_affinity_term, namespace))


def _term(fields: PodTermFields, namespace: str) -> PodTerm:
    names = tuple(sorted(set(fields.namespaces or ())))
    if not names and fields.namespace_selector is None:
        names = (namespace,)
    selected = fields.namespace_selector
    return PodTerm(
        fields.topology_key,
        PodSet(
            pod_selector(fields.label_selector),
            names,
            PodSelector() if selected is None else pod_selector(selected),
        ),
    )
