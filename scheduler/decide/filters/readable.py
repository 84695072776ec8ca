"""Nodes of which not everything is known: what they, or pods on them, say cannot be read.

What an unreadable pod takes is not known, so nothing beside it may be counted on.
"""

from __future__ import annotations

from scheduler.model.pod import Pod
from scheduler.model.reason import Reason, ReasonCode
from scheduler.state.node_info import NodeInfo


def _no(text: str) -> tuple[Reason, ...]:
    return (Reason(code=ReasonCode.NODE_UNREADABLE, text=text, resolvable=False),)


NODE = _no("node(s) that cannot be read")
GPUS = _no("node(s) whose GPUs say what cannot be")
HOLDER = (
    Reason(code=ReasonCode.NODE_UNREADABLE, text="node(s) run a pod whose requests cannot be read"),
)


def check(pod: Pod, node_info: NodeInfo) -> tuple[Reason, ...]:
    """Reject a node of which not everything is known that would have to be counted."""
    node = node_info.node
    assert node is not None
    if node.unread:
        return NODE
    if node_info.unread:
        return HOLDER
    if node.gpu_problem and (pod.gpu_requests or pod.map_text is not None):
        return GPUS
    return ()
