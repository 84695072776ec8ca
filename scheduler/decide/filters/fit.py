"""Resources (plugins/noderesources/fit.go): the pod's effective requests against what is free."""

from __future__ import annotations

from functools import lru_cache

from scheduler.decide.filters import geometry
from scheduler.model import well_known
from scheduler.model.pod import Pod
from scheduler.model.reason import Reason, ReasonCode
from scheduler.state.node_info import NodeInfo

NO_PLUGIN = (
    " from a device plugin (a DRA driver may serve the node's GPUs; gpu-scheduler does not allocate"
    " DRA devices yet)"
)
TOO_MANY_PODS = Reason(code=ReasonCode.TOO_MANY_PODS, text="Too many pods")


def check(pod: Pod, node_info: NodeInfo) -> tuple[Reason, ...]:
    """One reason for each resource of which the node has too little."""
    node = node_info.node
    assert node is not None
    if node_info.is_dynamic and (reasons := geometry.check(pod, node_info)):
        return reasons
    reasons = ()
    if len(node_info.pods) + 1 > node.allocatable.get(well_known.PODS, 0):
        reasons = (TOO_MANY_PODS,)
    left = node_info.left
    for resource, need in pod.requests.items():
        have = left.get(resource, 0)
        if need > have and need > 0:
            is_plain = not node_info.is_dynamic
            most = node.allocatable.get(resource, 0) if is_plain else node.most(resource)
            source = NO_PLUGIN if _is_dra(node_info, resource) else ""
            reasons += _insufficient(resource, need, have, most, source)
    return reasons


def _is_dra(node_info: NodeInfo, resource: str) -> bool:
    """Whether the node has GPUs that no device plugin offers: a DRA driver may serve them.

    kube-scheduler then gives them to a pod that asks for ``nvidia.com/gpu`` too, by the
    ``extendedResourceName`` of a DeviceClass (KEP-5004).
    """
    if not well_known.is_gpu_device(resource):
        return False
    node = node_info.node
    assert node is not None
    return not node.advertises_gpus and (node_info.claims > 0 or node.has_plugin)


@lru_cache(maxsize=16384)
def _insufficient(
    resource: str, need: int, have: int, most: int, source: str
) -> tuple[Reason, ...]:
    """Most nodes that say no say the same: it is kept once."""
    reason = Reason(
        code=ReasonCode.INSUFFICIENT,
        text=f"Insufficient {resource}{source}",
        resource=resource,
        need=need,
        have=have,
        resolvable=need <= most,
    )
    return (reason,)
