"""Node selector and required node affinity (plugins/nodeaffinity)."""

from __future__ import annotations

from scheduler.model.pod import Pod
from scheduler.model.reason import Code, Reason
from scheduler.model.selector import matches_any
from scheduler.state.ledger import NodeBooks

REASON = Reason(
    code=Code.AFFINITY,
    text="node(s) didn't match Pod's node affinity/selector",
    resolvable=False,
)
NO = (REASON,)


def check(pod: Pod, books: NodeBooks) -> tuple[Reason, ...]:
    """Reject a node that misses a selector's label or matches none of the terms."""
    node = books.node
    assert node is not None
    for key, value in pod.node_selector.items():
        if node.labels.get(key) != value:
            return NO
    if pod.required_terms is not None and not matches_any(
        pod.required_terms, node.labels, node.name
    ):
        return NO
    return ()
