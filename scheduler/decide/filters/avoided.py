"""Nodes that rejected pods like this one again and again rest for a while (``state/breaker``)."""

from __future__ import annotations

from scheduler.model.pod import Pod
from scheduler.model.reason import Code, Reason
from scheduler.state.breaker import WHOLE_NODE
from scheduler.state.ledger import NodeBooks

REASON = Reason(
    code=Code.NODE_AVOIDED, text="node(s) were avoided after they rejected pods like this one"
)


def check(pod: Pod, books: NodeBooks) -> tuple[Reason, ...]:
    """Reject a node that is avoided as a whole, for what the pod asks for, or for its kind."""
    avoided = books.avoided
    if not avoided:
        return ()
    asked = (resource for resource, amount in pod.requests.items() if amount > 0)
    is_avoided = not avoided.isdisjoint((WHOLE_NODE, pod.kind_id, *asked))
    return (REASON,) if is_avoided else ()
