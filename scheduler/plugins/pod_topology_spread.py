"""Pods that are spread evenly over domains (kube-scheduler: podtopologyspread).

A domain is one value of a node label among the nodes that count for the pod. A node is rejected if
the pod would make its domain's count larger than the smallest one by more than maxSkew.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Final

import msgspec

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
from scheduler.model import well_known
from scheduler.model.pods.default_spread import default_constraints
from scheduler.model.pods.pod import Pod
from scheduler.model.pods.pod_affinity import SpreadConstraint
from scheduler.model.reasons.reason import Reason
from scheduler.model.reasons.reason_code import ReasonCode, RequeueCause
from scheduler.state.node_info import NodeInfo
from scheduler.state.topology.domains import Eligibility
from scheduler.state.topology.reader import PodsPerDomain

TOPOLOGY_SPREAD = ReasonCode(
    name="TOPOLOGY_SPREAD",
    meaning="the pod would make a domain's number of pods exceed another's by more than maxSkew",
    lifted_by=(RequeueCause.PODS_IN_DOMAIN, RequeueCause.NODE),
    stage="PodTopologySpread",
    next_step="add nodes in the domains with the fewest pods, raise maxSkew, or use ScheduleAnyway",
    words=(r"node\(s\) didn't match pod topology spread constraints(?! \(missing)",),
)
TOPOLOGY_LABEL = ReasonCode(
    name="TOPOLOGY_LABEL",
    meaning="the node lacks the label of a topology spread constraint",
    lifted_by=(RequeueCause.NODE,),
    stage="PodTopologySpread",
    next_step="label the nodes with the topologyKey of the constraint",
    words=(r"node\(s\) didn't match pod topology spread constraints \(missing required label\)",),
)

_TOO_MANY: Final = (
    Reason(code=TOPOLOGY_SPREAD, text="node(s) didn't match pod topology spread constraints"),
)
_NO_LABEL: Final = (
    Reason(
        code=TOPOLOGY_LABEL,
        text="node(s) didn't match pod topology spread constraints (missing required label)",
        resolvable=False,
    ),
)


class _Bound(msgspec.Struct, frozen=True):
    """One constraint with the counts: a domain may have up to ``most`` pods of the set."""

    key: str
    pods: PodsPerDomain
    most: int


def pre_filter(view: View, pod: Pod, settings: Settings) -> BoundFilter | None:
    """Read the counts of the pod's hard constraints."""
    if not pod.spread:
        return None
    hard = tuple(one for one in pod.spread if one.is_hard)
    if not hard:
        return None
    keys = frozenset(one.topology_key for one in hard)
    bounds = []
    for one in hard:
        eligible = eligibility(pod, one, keys, compare_numbers=settings.compare_numbers)
        pods = view.topology.spread(one.counted, one.topology_key, eligible)
        itself = view.topology.is_in(one.pods, pod)
        most = one.max_skew + pods.least(one.min_domains) - itself
        bounds.append(_Bound(one.topology_key, pods, most))
    return BoundFilter(_check(bounds), generation=view.topology.generation)


def eligibility(
    pod: Pod,
    constraint: SpreadConstraint,
    keys: frozenset[str],
    *,
    compare_numbers: bool,
) -> Eligibility:
    """The nodes that a constraint counts: those with all of these labels."""
    honors = constraint.honors_affinity
    return Eligibility(
        keys=tuple(sorted(keys)),
        node_selector=tuple(sorted(pod.node_selector.items())) if honors else (),
        required_terms=pod.required_terms if honors else None,
        tolerations=pod.tolerations if constraint.honors_taints else None,
        compare_numbers=compare_numbers,
    )


def _check(bounds: list[_Bound]) -> Callable[[NodeInfo], Reasons]:
    def check(node_info: NodeInfo) -> Reasons:
        assert node_info.node is not None
        labels = node_info.node.labels
        for one in bounds:
            value = labels.get(one.key)
            if value is None:
                return _NO_LABEL
            if one.pods.at(value) > one.most:
                return _TOO_MANY
        return FITS

    return check


def compares_nodes(_view: View, pod: Pod, settings: Settings) -> frozenset[str]:
    """The topology keys of the pod's soft constraints, its own and the default ones."""
    if not (pod.spread or settings.default_spread):
        return NO_LABELS
    soft = (*(one for one in pod.spread if not one.is_hard), *_defaults(pod, settings))
    return frozenset(one.topology_key for one in soft)


def score(view: View, pod: Pod, nodes: Sequence[NodeInfo], settings: Settings) -> list[int]:
    """Fewer pods in a node's domains are more; a constraint weighs by its number of domains."""
    soft = tuple(one for one in pod.spread if not one.is_hard)
    keys = frozenset(one.topology_key for one in soft)
    return _scores(view, pod, nodes, soft, keys, settings)


def default_score(view: View, pod: Pod, nodes: Sequence[NodeInfo], settings: Settings) -> list[int]:
    """The same for the default constraints, which also count for nodes without a label."""
    soft = _defaults(pod, settings)
    return _scores(view, pod, nodes, soft, frozenset(), settings)


def _defaults(pod: Pod, settings: Settings) -> tuple[SpreadConstraint, ...]:
    is_default = settings.default_spread and settings.is_balanced(pod)
    return default_constraints(pod) if is_default else ()


def _scores(
    view: View,
    pod: Pod,
    nodes: Sequence[NodeInfo],
    soft: tuple[SpreadConstraint, ...],
    keys: frozenset[str],
    settings: Settings,
) -> list[int]:
    """The scores by some constraints; a node without one of the labels ``keys`` has 0."""
    if not soft:
        return [0] * len(nodes)
    labels = [node_info.node.labels for node_info in nodes if node_info.node is not None]
    complete = [one for one in labels if keys <= one.keys()]
    weighed = []
    for one in soft:
        key = one.topology_key
        values = {at.get(key) for at in complete}
        domains = len(complete) if key == well_known.HOSTNAME else len(values)
        eligible = eligibility(pod, one, keys, compare_numbers=settings.compare_numbers)
        pods = view.topology.spread(one.counted, key, eligible)
        weighed.append((key, pods, math.log(domains + 2), one.max_skew - 1))
    counts = [_count(weighed, at) if keys <= at.keys() else None for at in labels]
    counted = [count for count in counts if count is not None]
    least, most = min(counted, default=0), max(counted, default=0)
    return [_normalized(count, least, most) for count in counts]


def _count(weighed: Sequence[tuple[str, PodsPerDomain, float, int]], at: dict[str, str]) -> int:
    """The weighed pods in the domains of a node with these labels."""
    total = sum(
        pods.at(at[key]) * weight + skew for key, pods, weight, skew in weighed if key in at
    )
    return int(total + 0.5)


def _normalized(count: int | None, least: int, most: int) -> int:
    if count is None:  # the node lacks a label
        return 0
    return SCORE_MAX * (most + least - count) // most if most else SCORE_MAX


PLUGIN: Final = Plugin(
    name="PodTopologySpread",
    reads=(pod_reads.TERMS,),
    codes=(TOPOLOGY_SPREAD, TOPOLOGY_LABEL),
    pre_filter=pre_filter,
    compares_nodes=compares_nodes,
    normalized_scores=(
        NormalizedScore(weight=2, score=score),
        # The pod did not ask for them, so they do not come before keeping away from devices.
        NormalizedScore(weight=2, score=default_score, is_preference=False),
    ),
)
