"""Node selector and node affinity, required and preferred (kube-scheduler: nodeaffinity)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from scheduler.framework import pod_reads
from scheduler.framework.plugin import (
    FITS,
    ClassFilter,
    NormalizedScore,
    Plugin,
    Reasons,
    normalized,
)
from scheduler.framework.settings import Settings
from scheduler.framework.view import View
from scheduler.model.node import Node
from scheduler.model.pods.pod import Pod
from scheduler.model.reasons.reason import Reason
from scheduler.model.reasons.reason_code import ReasonCode, RequeueCause
from scheduler.model.selector import matches_any, matches_term
from scheduler.state.node_info import NodeInfo

AFFINITY = ReasonCode(
    name="AFFINITY",
    meaning="the node does not match the pod's node selector or required node affinity",
    lifted_by=(
        RequeueCause.NODE,
        RequeueCause.POD,
    ),
    stage="NodeAffinity",
    next_step=(
        "compare spec.nodeSelector and spec.affinity with: kubectl get nodes --show-labels; the"
        " annotation gpu-scheduler.io/tier-nodes lists what the webhook added to them for a tier"
    ),
    words=(r"node\(s\) didn't match Pod's node affinity/selector",),
)

NO: Final = (
    Reason(
        code=AFFINITY,
        text="node(s) didn't match Pod's node affinity/selector",
        resolvable=False,
    ),
)


def check(pod: Pod, node_info: NodeInfo) -> Reasons:
    """Reject a node that lacks a label of the selector or matches none of the terms."""
    node = node_info.node
    assert node is not None
    for key, value in pod.node_selector.items():
        if node.labels.get(key) != value:
            return NO
    terms = pod.required_terms
    return FITS if terms is None or matches_any(terms, node.labels, node.name) else NO


def soft_penalty(pod: Pod, node: Node) -> int:
    """The weights of the preferred terms that the node matches, as a negative penalty."""
    if not pod.preferred_terms:
        return 0
    return -sum(
        term.weight
        for term in pod.preferred_terms
        if matches_term(term.preference, node.labels, node.name)
    )


def score(_view: View, pod: Pod, nodes: Sequence[NodeInfo], _settings: Settings) -> list[int]:
    """The sum of the weights of the preferred terms that each node matches, normalized."""
    if not pod.preferred_terms:
        return [0] * len(nodes)
    return normalized([-soft_penalty(pod, node_info.node) for node_info in nodes if node_info.node])


PLUGIN: Final = Plugin(
    name="NodeAffinity",
    reads=(pod_reads.CONSTRAINTS,),
    codes=(AFFINITY,),
    filters=(ClassFilter(check),),
    soft_penalty=soft_penalty,
    normalized_scores=(NormalizedScore(weight=2, score=score),),
)
