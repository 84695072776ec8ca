"""Nodes with incomplete data: a field of the node, or of a pod on it, cannot be decoded.

The requests of an undecodable pod are unknown, so the free capacity beside it is unknown.
"""

from __future__ import annotations

from typing import Final

from scheduler.framework import pod_reads
from scheduler.framework.plugin import FITS, NodeFilter, Plugin, Reasons
from scheduler.model.pods.pod import Pod
from scheduler.model.reasons.reason import Reason
from scheduler.model.reasons.reason_code import ReasonCode, RequeueCause
from scheduler.state.node_info import NodeInfo

NODE_UNREADABLE = ReasonCode(
    name="NODE_UNREADABLE",
    meaning=(
        "a field of the node or of a pod on it is invalid or exceeds its limit (docs/limits.md)"
    ),
    lifted_by=(
        RequeueCause.NODE,
        RequeueCause.FREED,
        RequeueCause.DEVICES,
    ),
    stage="NodeHealth",
    next_step=(
        "read the events of the node (kubectl describe node NODE) and correct the field;"
        " a pod with invalid requests on the node has an event of its own"
    ),
    words=(
        r"node\(s\) that cannot be read",
        r"node\(s\) whose GPU data is invalid",
        r"node\(s\) run a pod whose requests cannot be read",
    ),
)


def _no(text: str) -> Reasons:
    return (Reason(code=NODE_UNREADABLE, text=text, resolvable=False),)


NODE = _no("node(s) that cannot be read")
GPUS = _no("node(s) whose GPU data is invalid")
HOLDER = (Reason(code=NODE_UNREADABLE, text="node(s) run a pod whose requests cannot be read"),)


def check(pod: Pod, node_info: NodeInfo) -> Reasons:
    """Reject a node whose free capacity for this pod is unknown."""
    node = node_info.node
    assert node is not None
    if node.unread:
        return NODE
    if node_info.unread:
        return HOLDER
    if node.gpu_problem and (pod.gpu_requests or pod.map_text is not None):
        return GPUS
    return FITS


PLUGIN: Final = Plugin(
    name="NodeReadable",
    reads=(
        pod_reads.REQUESTS,
        pod_reads.MAP,
    ),
    codes=(NODE_UNREADABLE,),
    filters=(NodeFilter(check),),
)
