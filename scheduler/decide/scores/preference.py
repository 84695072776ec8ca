"""Soft preferences: preferred node affinity, and taints with PreferNoSchedule.

kube-scheduler weighs NodeAffinity 2 and TaintToleration 3 on a normalised scale; with
integers of one node only, a taint that is not tolerated costs as much as a term of weight 100.
"""

from __future__ import annotations

from scheduler.model.node import Node
from scheduler.model.pod import Pod
from scheduler.model.selector import matches_term, tolerates

TAINT_COST = 100


def dislike(pod: Pod, node: Node) -> int:
    """How much the pod would rather be elsewhere; negative where it likes the node."""
    liked = sum(
        term.weight
        for term in pod.preferred_terms
        if matches_term(term.preference, node.labels, node.name)
    )
    unwanted = sum(
        1
        for taint in node.taints
        if taint.effect == "PreferNoSchedule"
        and not any(tolerates(toleration, taint) for toleration in pod.tolerations)
    )
    return unwanted * TAINT_COST - liked
