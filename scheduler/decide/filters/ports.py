"""Host ports (plugins/nodeports): one address, protocol and port has one pod per node."""

from __future__ import annotations

from scheduler.model.pod import HostPort, Pod
from scheduler.model.reason import Code, Reason
from scheduler.state.ledger import NodeBooks

EVERY_ADDRESS = "0.0.0.0"  # noqa: S104 - compared with, never listened on
REASON = Reason(code=Code.PORTS, text="node(s) didn't have free ports for the requested pod ports")


def check(pod: Pod, books: NodeBooks) -> tuple[Reason, ...]:
    """Reject a node on which one of the pod's host ports is taken."""
    if not pod.host_ports or not books.ports:
        return ()
    taken = books.ports
    clash = any(_clash(wanted, held) for wanted in pod.host_ports for held in taken)
    return (REASON,) if clash else ()


def _clash(one: HostPort, other: HostPort) -> bool:
    if one.port != other.port or one.protocol != other.protocol:
        return False
    return one.address == other.address or EVERY_ADDRESS in (one.address, other.address)
