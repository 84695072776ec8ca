"""Nodes that rejected pods like this one again and again rest for a while
(``state/breakers/node_circuit_breaker``)."""

from __future__ import annotations

from scheduler.model.pod import Pod
from scheduler.model.reason import Reason, ReasonCode
from scheduler.state.breakers.kubelet_rejection import covers, stated_most
from scheduler.state.node_info import NodeInfo

REASON = Reason(
    code=ReasonCode.NODE_AVOIDED, text="node(s) were avoided after they rejected pods like this one"
)


def check(pod: Pod, node_info: NodeInfo) -> tuple[Reason, ...]:
    """Reject a node that is avoided as a whole, for what the pod asks for, or for its kind."""
    avoided = node_info.avoided
    if not avoided:
        return ()
    scopes = sorted(scope for scope in avoided if covers(scope, pod))
    stated = [most for most in map(stated_most, scopes) if most is not None]
    if stated:
        return (_too_many(*stated[0]),)
    return (REASON,) if scopes else ()


def _too_many(resource: str, most: int) -> Reason:
    return Reason(
        code=ReasonCode.TOO_MANY_IN_ONE_CONTAINER,
        text=f"node(s) whose device plugin refuses more than {most} {resource} in one container",
    )
