"""Cordoned nodes take only pods that tolerate it (plugins/nodeunschedulable)."""

from __future__ import annotations

from scheduler.model.pod import Pod
from scheduler.model.reason import Reason, ReasonCode
from scheduler.model.selector import Taint, tolerates
from scheduler.state.node_info import NodeInfo

CORDON = Taint(key="node.kubernetes.io/unschedulable", effect="NoSchedule")
REASON = Reason(
    code=ReasonCode.NODE_UNSCHEDULABLE, text="node(s) were unschedulable", resolvable=False
)


def check(pod: Pod, node_info: NodeInfo) -> tuple[Reason, ...]:
    """Reject a cordoned node unless the pod tolerates the cordon's taint."""
    node = node_info.node
    assert node is not None
    if not node.unschedulable or any(tolerates(t, CORDON) for t in pod.tolerations):
        return ()
    return (REASON,)
