"""Resources (plugins/noderesources/fit.go): the pod's effective requests against what is free."""

from __future__ import annotations

from scheduler.model import names
from scheduler.model.pod import Pod
from scheduler.model.reason import Code, Reason
from scheduler.state.ledger import NodeBooks

TOO_MANY_PODS = Reason(code=Code.TOO_MANY_PODS, text="Too many pods")


def check(pod: Pod, books: NodeBooks) -> tuple[Reason, ...]:
    """One reason for each resource of which the node has too little."""
    node = books.node
    assert node is not None
    reasons: list[Reason] = []
    if len(books.pods) + 1 > node.allocatable.get(names.PODS, 0):
        reasons.append(TOO_MANY_PODS)
    for resource, need in pod.requests.items():
        if need <= 0:
            continue
        have = books.free(resource)
        if need > have:
            reasons.append(_insufficient(resource, need, have, node.allocatable.get(resource, 0)))
    return tuple(reasons)


def _insufficient(resource: str, need: int, have: int, allocatable: int) -> Reason:
    return Reason(
        code=Code.INSUFFICIENT,
        text=f"Insufficient {resource}",
        resource=resource,
        need=need,
        have=have,
        resolvable=need <= allocatable,
    )
