"""Nodes of which not everything is known: what they, or pods on them, say cannot be read.

What an unreadable pod takes is not known, so nothing beside it may be counted on.
"""

from __future__ import annotations

from scheduler.model.pod import Pod
from scheduler.model.reason import Code, Reason
from scheduler.state.ledger import NodeBooks


def _no(text: str) -> tuple[Reason, ...]:
    return (Reason(code=Code.NODE_UNREADABLE, text=text, resolvable=False),)


NODE = _no("node(s) that cannot be read")
GPUS = _no("node(s) whose GPUs say what cannot be")
HOLDER = (
    Reason(code=Code.NODE_UNREADABLE, text="node(s) run a pod whose requests cannot be read"),
)


def check(pod: Pod, books: NodeBooks) -> tuple[Reason, ...]:
    """Reject a node of which not everything is known that would have to be counted."""
    node = books.node
    assert node is not None
    if node.unread:
        return NODE
    if books.unread:
        return HOLDER
    if node.gpu_problem and (pod.gpu_requests or pod.map_text is not None):
        return GPUS
    return ()
