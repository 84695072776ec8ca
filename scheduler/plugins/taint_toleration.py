"""Rejects nodes with taints that the pod does not tolerate (kube-scheduler: tainttoleration).

Node conditions are ignored: the node controllers convert them into taints.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache, partial
from typing import Final

import msgspec

from scheduler.framework import pod_reads
from scheduler.framework.plugin import (
    FITS,
    SCORE_MAX,
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
from scheduler.model.selector import Taint, tolerates, untolerated
from scheduler.state.node_info import NodeInfo

TAINT = ReasonCode(
    name="TAINT",
    meaning="the node has a taint that the pod does not tolerate",
    lifted_by=(
        RequeueCause.NODE,
        RequeueCause.POD,
    ),
    stage="TaintToleration",
    next_step="tolerate the taint in spec.tolerations, or remove it from the node",
    words=(r"node\(s\) had untolerated taint",),
)

#: The penalty of an untolerated PreferNoSchedule taint equals a preferred term of weight 100.
#: kube-scheduler weighs NodeAffinity 2 and TaintToleration 3 on a normalised scale, which needs the
#: scores of all nodes; this penalty needs one node.
SOFT_TAINT_COST: Final = 100


def check(pod: Pod, node_info: NodeInfo, *, compare_numbers: bool = False) -> Reasons:
    """Reject the node for its first taint that the pod does not tolerate."""
    node = node_info.node
    assert node is not None
    if not node.taints:
        return FITS
    taint = untolerated(node.taints, pod.tolerations, compare_numbers=compare_numbers)
    return () if taint is None else _no(taint)


@lru_cache(maxsize=1024)
def _no(taint: Taint) -> Reasons:
    # The message of Kubernetes up to 1.34; later versions leave the taint out.
    text = f"node(s) had untolerated taint {{{taint.key}: {taint.value}}}"
    return (Reason(code=TAINT, text=text, resolvable=False),)


def soft_penalty(pod: Pod, node: Node, *, compare_numbers: bool = False) -> int:
    """The penalty of the PreferNoSchedule taints that the pod does not tolerate."""
    return SOFT_TAINT_COST * _untolerated_soft(pod, node, compare_numbers=compare_numbers)


def score(_view: View, pod: Pod, nodes: Sequence[NodeInfo], settings: Settings) -> list[int]:
    """The number of untolerated PreferNoSchedule taints of each node, normalized: fewer is more."""
    every = [node_info.node for node_info in nodes if node_info.node is not None]
    if not any(node.taints for node in every):
        return [SCORE_MAX] * len(every)
    compare = settings.compare_numbers
    taints = [_untolerated_soft(pod, node, compare_numbers=compare) for node in every]
    return normalized(taints, reverse=True)


def _untolerated_soft(pod: Pod, node: Node, *, compare_numbers: bool) -> int:
    if not node.taints:
        return 0
    return sum(
        1
        for taint in node.taints
        if taint.effect == "PreferNoSchedule"
        and not any(
            tolerates(one, taint, compare_numbers=compare_numbers) for one in pod.tolerations
        )
    )


PLUGIN: Final = Plugin(
    name="TaintToleration",
    reads=(pod_reads.CONSTRAINTS,),
    codes=(TAINT,),
    filters=(ClassFilter(check),),
    soft_penalty=soft_penalty,
    normalized_scores=(NormalizedScore(weight=3, score=score),),
)
#: The same where the operators Lt and Gt count (TaintTolerationComparisonOperators).
COMPARING: Final = msgspec.structs.replace(
    PLUGIN,
    filters=(ClassFilter(partial(check, compare_numbers=True)),),
    soft_penalty=partial(soft_penalty, compare_numbers=True),
)
