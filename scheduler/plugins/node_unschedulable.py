"""Rejects cordoned nodes unless the pod tolerates the cordon (kube-scheduler:
nodeunschedulable).
"""

from __future__ import annotations

from typing import Final

from scheduler.framework import pod_reads
from scheduler.framework.plugin import FITS, ClassFilter, Plugin, Reasons
from scheduler.model.pods.pod import Pod
from scheduler.model.reasons.reason import Reason
from scheduler.model.reasons.reason_code import ReasonCode, RequeueCause
from scheduler.model.selector import CORDON, tolerates
from scheduler.state.node_info import NodeInfo

NODE_UNSCHEDULABLE = ReasonCode(
    name="NODE_UNSCHEDULABLE",
    meaning="the node is cordoned",
    lifted_by=(
        RequeueCause.NODE,
        RequeueCause.POD,
    ),
    stage="NodeUnschedulable",
    next_step="uncordon the node: kubectl uncordon NODE",
    words=(r"node\(s\) were unschedulable",),
)

REASON = Reason(code=NODE_UNSCHEDULABLE, text="node(s) were unschedulable", resolvable=False)


def check(pod: Pod, node_info: NodeInfo) -> Reasons:
    """Reject a cordoned node unless the pod tolerates the cordon's taint."""
    node = node_info.node
    assert node is not None
    if not node.unschedulable or any(tolerates(t, CORDON) for t in pod.tolerations):
        return FITS
    return (REASON,)


PLUGIN: Final = Plugin(
    name="NodeUnschedulable",
    reads=(pod_reads.CONSTRAINTS,),
    codes=(NODE_UNSCHEDULABLE,),
    filters=(ClassFilter(check),),
)
