"""Backoff of nodes that repeatedly rejected similar pods
(``state/breakers/node_circuit_breaker``).
"""

from __future__ import annotations

from typing import Final

from scheduler.framework import pod_reads
from scheduler.framework.plugin import FITS, NodeFilter, Plugin, Reasons
from scheduler.model.pods.pod import Pod
from scheduler.model.reasons.reason import Reason
from scheduler.model.reasons.reason_code import ReasonCode, RequeueCause
from scheduler.state.breakers.kubelet_rejection import covers, stated_most
from scheduler.state.node_info import NodeInfo

NODE_AVOIDED = ReasonCode(
    name="NODE_AVOIDED",
    meaning=(
        "the kubelet rejected several pods with the same requests, and the node is in backoff"
    ),
    lifted_by=(
        RequeueCause.AVOIDED,
        RequeueCause.NODE,
    ),
    stage="NodeHealth",
    next_step=(
        "find out why the kubelet rejects pods (kubectl get pods -A --field-selector"
        " status.phase=Failed); the scheduler retries when the backoff expires"
    ),
    words=(r"node\(s\) were avoided",),
)
TOO_MANY_IN_ONE_CONTAINER = ReasonCode(
    name="TOO_MANY_IN_ONE_CONTAINER",
    meaning="the device plugin of the node rejects that many devices in one container",
    lifted_by=(
        RequeueCause.AVOIDED,
        RequeueCause.NODE,
        RequeueCause.POD,
    ),
    stage="GPUDevices",
    next_step=(
        "request 1 in each container: the GPUs are shared (time-slicing or MPS) and the"
        " device plugin sets failRequestsGreaterThanOne; or select nodes with whole GPUs"
    ),
    words=(r"node\(s\) whose device plugin refuses more than \d+",),
)

REASON = Reason(
    code=NODE_AVOIDED, text="node(s) were avoided after they rejected pods like this one"
)


def check(pod: Pod, node_info: NodeInfo) -> Reasons:
    """Reject a node in backoff for all pods, for the pod's requests, or for its kind."""
    avoided = node_info.avoided
    if not avoided:
        return FITS
    scopes = sorted(scope for scope in avoided if covers(scope, pod))
    stated = [most for most in map(stated_most, scopes) if most is not None]
    if stated:
        return (_too_many(*stated[0]),)
    return (REASON,) if scopes else FITS


def _too_many(resource: str, most: int) -> Reason:
    return Reason(
        code=TOO_MANY_IN_ONE_CONTAINER,
        text=f"node(s) whose device plugin refuses more than {most} {resource} in one container",
    )


PLUGIN: Final = Plugin(
    name="NodeAvoidance",
    reads=(
        pod_reads.REQUESTS,
        pod_reads.CONSTRAINTS,
        pod_reads.HOST_PORTS,
    ),
    codes=(
        NODE_AVOIDED,
        TOO_MANY_IN_ONE_CONTAINER,
    ),
    filters=(NodeFilter(check),),
)
