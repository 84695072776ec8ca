"""Pods that must share a domain with other pods, or must not (kube-scheduler: interpodaffinity).

A domain is one value of a node label. Required anti-affinity holds both ways: a placed pod's term
rejects the pods that it matches. Required affinity holds one way.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from scheduler.framework import pod_reads
from scheduler.framework.plugin import (
    FITS,
    NO_LABELS,
    SCORE_MAX,
    BoundFilter,
    NormalizedScore,
    Plugin,
    Reasons,
)
from scheduler.framework.settings import Settings
from scheduler.framework.view import View
from scheduler.model.pods.pod import Pod
from scheduler.model.pods.pod_affinity import NO_AFFINITY
from scheduler.model.reasons.reason import Reason
from scheduler.model.reasons.reason_code import ReasonCode, RequeueCause
from scheduler.state.node_info import NodeInfo
from scheduler.state.topology.reader import PodsPerDomain

POD_AFFINITY = ReasonCode(
    name="POD_AFFINITY",
    meaning="the pods that the pod requires near it are not in the node's domain",
    lifted_by=(RequeueCause.PODS_IN_DOMAIN, RequeueCause.NODE, RequeueCause.NAMESPACE),
    stage="InterPodAffinity",
    next_step="create the pods that spec.affinity.podAffinity names, or use a preferred term",
    words=(r"node\(s\) didn't match pod affinity rules",),
)
POD_ANTI_AFFINITY = ReasonCode(
    name="POD_ANTI_AFFINITY",
    meaning="the node's domain has pods that the pod's anti-affinity excludes",
    lifted_by=(RequeueCause.PODS_IN_DOMAIN, RequeueCause.NODE, RequeueCause.NAMESPACE),
    stage="InterPodAffinity",
    next_step="add nodes in other domains, delete these pods, or use a preferred term",
    words=(r"node\(s\) didn't match pod anti-affinity rules",),
)
EXISTING_ANTI_AFFINITY = ReasonCode(
    name="EXISTING_ANTI_AFFINITY",
    meaning="the node's domain has a pod whose anti-affinity excludes this pod",
    lifted_by=(RequeueCause.PODS_IN_DOMAIN, RequeueCause.NODE, RequeueCause.NAMESPACE),
    stage="InterPodAffinity",
    next_step="add nodes in other domains, or change the labels that the other pod's term selects",
    words=(r"node\(s\) didn't satisfy existing pods anti-affinity rules",),
)

_NOT_NEAR: Final = (
    Reason(code=POD_AFFINITY, text="node(s) didn't match pod affinity rules", resolvable=False),
)
_TOO_NEAR: Final = (
    Reason(code=POD_ANTI_AFFINITY, text="node(s) didn't match pod anti-affinity rules"),
)
_EXCLUDED: Final = (
    Reason(
        code=EXISTING_ANTI_AFFINITY,
        text="node(s) didn't satisfy existing pods anti-affinity rules",
    ),
)

#: A node label, and the pods per value of it.
_Domains = list[tuple[str, PodsPerDomain]]


def pre_filter(view: View, pod: Pod, _settings: Settings) -> BoundFilter | None:
    """Read the counts that the pod's terms, and the placed pods' terms about it, name."""
    topology, affinity = view.topology, pod.affinity
    if affinity is NO_AFFINITY and topology.is_bare:
        return None
    existing = [
        (term.topology_key, pods) for term, pods in topology.anti_terms(pod) if not pods.is_empty
    ]
    anti = [
        (term.topology_key, topology.affine((term.pods,), term.topology_key))
        for term in affinity.required_anti
    ]
    if not (existing or anti or affinity.required):
        return None
    every = tuple(term.pods for term in affinity.required)
    near = [
        (term.topology_key, topology.affine(every, term.topology_key)) for term in affinity.required
    ]
    # The first pod of a group that requires its own kind may go to any domain.
    is_first = (
        bool(near)
        and all(pods.is_empty for _, pods in near)
        and all(topology.is_in(pods, pod) for pods in every)
    )
    only = None
    if near and not is_first:
        key, pods = near[0]
        only = frozenset(topology.nodes_with(key, pods.values()))
    check = _check(near, anti, existing, is_first=is_first)
    return BoundFilter(check, only, topology.generation)


def _check(
    near: _Domains, anti: _Domains, existing: _Domains, *, is_first: bool
) -> Callable[[NodeInfo], Reasons]:
    def check(node_info: NodeInfo) -> Reasons:
        assert node_info.node is not None
        labels = node_info.node.labels
        if near:
            values = [(labels.get(key), pods) for key, pods in near]
            if any(value is None for value, _ in values):
                return _NOT_NEAR
            if not is_first and any(not pods.at(value or "") for value, pods in values):
                return _NOT_NEAR
        if _has_pods(anti, labels):
            return _TOO_NEAR
        return _EXCLUDED if _has_pods(existing, labels) else FITS

    return check


def _has_pods(domains: _Domains, labels: dict[str, str]) -> bool:
    """Whether one of the node's domains has pods; a node without the label is in none."""
    for key, pods in domains:
        value = labels.get(key)
        if value is not None and pods.at(value) > 0:
            return True
    return False


def compares_nodes(view: View, pod: Pod, _settings: Settings) -> frozenset[str]:
    """The topology keys of the pod's preferred terms, and of placed pods' terms about it."""
    preferred, topology = pod.affinity.preferred, view.topology
    if not preferred and topology.is_bare:
        return NO_LABELS
    terms = [*preferred, *(one for one, _ in topology.weighted_terms(pod))]
    return frozenset([one.term.topology_key for one in terms]) if terms else NO_LABELS


def score(view: View, pod: Pod, nodes: Sequence[NodeInfo], _settings: Settings) -> list[int]:
    """The weights of preferred terms, both ways, and 1 for each required affinity term of a placed
    pod that matches the pod; 0 at the smallest sum and SCORE_MAX at the greatest."""
    topology = view.topology
    weighted = [
        (
            one.weight,
            one.term.topology_key,
            topology.affine((one.term.pods,), one.term.topology_key),
        )
        for one in pod.affinity.preferred
    ]
    weighted += [
        (one.weight, one.term.topology_key, pods) for one, pods in topology.weighted_terms(pod)
    ]
    if not weighted:
        return [0] * len(nodes)
    sums = [_sum(weighted, node_info) for node_info in nodes]
    least, most = min(sums, default=0), max(sums, default=0)
    if least == most:
        return [0] * len(sums)
    return [int(SCORE_MAX * ((one - least) / (most - least))) for one in sums]


def _sum(weighted: Sequence[tuple[int, str, PodsPerDomain]], node_info: NodeInfo) -> int:
    assert node_info.node is not None
    labels = node_info.node.labels
    return sum(weight * pods.at(labels[key]) for weight, key, pods in weighted if key in labels)


PLUGIN: Final = Plugin(
    name="InterPodAffinity",
    reads=(pod_reads.TERMS,),
    codes=(POD_AFFINITY, POD_ANTI_AFFINITY, EXISTING_ANTI_AFFINITY),
    pre_filter=pre_filter,
    compares_nodes=compares_nodes,
    normalized_scores=(NormalizedScore(weight=2, score=score),),
)
