"""Cordoned nodes take only pods that tolerate it (plugins/nodeunschedulable)."""

from __future__ import annotations

from scheduler.model.pod import Pod
from scheduler.model.reason import Code, Reason
from scheduler.model.selector import Taint, tolerates
from scheduler.state.ledger import NodeBooks

CORDON = Taint(key="node.kubernetes.io/unschedulable", effect="NoSchedule")
REASON = Reason(code=Code.NODE_UNSCHEDULABLE, text="node(s) were unschedulable", resolvable=False)


def check(pod: Pod, books: NodeBooks) -> tuple[Reason, ...]:
    """Reject a cordoned node unless the pod tolerates the cordon's taint."""
    node = books.node
    assert node is not None
    if not node.unschedulable or any(tolerates(t, CORDON) for t in pod.tolerations):
        return ()
    return (REASON,)
