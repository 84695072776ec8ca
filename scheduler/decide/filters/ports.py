"""Host ports (plugins/nodeports): one address, protocol and port has one pod per node."""

from __future__ import annotations

from scheduler.model.pod import HostPort, Pod
from scheduler.model.reason import Reason, ReasonCode
from scheduler.state.node_info import NodeInfo

EVERY_ADDRESS = "0.0.0.0"  # noqa: S104 - compared with, never listened on
REASON = Reason(
    code=ReasonCode.PORTS, text="node(s) didn't have free ports for the requested pod ports"
)


def check(pod: Pod, node_info: NodeInfo) -> tuple[Reason, ...]:
    """Reject a node on which one of the pod's host ports is taken."""
    if not pod.host_ports or not node_info.ports:
        return ()
    taken = node_info.ports
    clash = any(_clash(wanted, held) for wanted in pod.host_ports for held in taken)
    return (REASON,) if clash else ()


def _clash(one: HostPort, other: HostPort) -> bool:
    if one.port != other.port or one.protocol != other.protocol:
        return False
    return one.address == other.address or EVERY_ADDRESS in (one.address, other.address)
