"""Host ports (kube-scheduler: nodeports): one pod per node, address, protocol and port."""

from __future__ import annotations

from typing import Final

from scheduler.framework import pod_reads
from scheduler.framework.plugin import FITS, NodeFilter, Plugin, Reasons
from scheduler.model.pods.pod import HostPort, Pod
from scheduler.model.reasons.reason import Reason
from scheduler.model.reasons.reason_code import ReasonCode, RequeueCause
from scheduler.state.node_info import NodeInfo

EVERY_ADDRESS = "0.0.0.0"  # noqa: S104 - compared with, never listened on
PORTS = ReasonCode(
    name="PORTS",
    meaning="a host port of the pod is in use on the node",
    lifted_by=(
        RequeueCause.FREED,
        RequeueCause.NODE,
    ),
    stage="NodePorts",
    next_step="remove hostPort, use another port, or delete the pod that uses it",
    words=(r"node\(s\) didn't have free ports",),
)

REASON = Reason(code=PORTS, text="node(s) didn't have free ports for the requested pod ports")


def check(pod: Pod, node_info: NodeInfo) -> Reasons:
    """Reject a node on which one of the pod's host ports is in use."""
    if not pod.host_ports or not node_info.ports:
        return FITS
    taken = node_info.ports
    clash = any(_clash(wanted, held) for wanted in pod.host_ports for held in taken)
    return (REASON,) if clash else FITS


def _clash(one: HostPort, other: HostPort) -> bool:
    if one.port != other.port or one.protocol != other.protocol:
        return False
    return one.address == other.address or EVERY_ADDRESS in (one.address, other.address)


PLUGIN: Final = Plugin(
    name="NodePorts",
    skips_plain=True,
    reads=(pod_reads.HOST_PORTS,),
    codes=(PORTS,),
    filters=(NodeFilter(check),),
)
