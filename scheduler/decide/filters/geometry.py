"""Instances that are cut to order: one pod's must all find room at once, on GPUs that do not rest.

A part of ``fit``, which then says whether each profile alone has room.
"""

from __future__ import annotations

from scheduler.decide.mig import instance_search
from scheduler.model.pod import Pod
from scheduler.model.reason import Reason, ReasonCode
from scheduler.state.mig import dynamic_gpus
from scheduler.state.node_info import NodeInfo

NOT_TOGETHER = Reason(
    code=ReasonCode.NO_ROOM_TOGETHER,
    text="node(s) where the pod's MIG instances fit one by one but not together",
)
RESTS = Reason(
    code=ReasonCode.GPU_RESTS,
    text="node(s) where GPUs with room rest after a MIG instance was not cut",
)


def check(pod: Pod, node_info: NodeInfo) -> tuple[Reason, ...]:
    """Reject a node on whose GPUs the pod's instances cannot be placed beside each other."""
    gpus = node_info.gpus
    if gpus is None or not pod.gpu_requests:
        return ()
    profiles = instance_search.wanted(pod)
    if not profiles or instance_search.choose(gpus, profiles) is not None:
        return ()
    if node_info.resting and _fits_without_rest(node_info, profiles):
        return (RESTS,)
    is_each = all(node_info.free(resource) >= n for resource, n in pod.gpu_requests.items())
    return (NOT_TOGETHER,) if is_each else ()


def _fits_without_rest(node_info: NodeInfo, profiles: tuple[str, ...]) -> bool:
    assert node_info.node is not None
    assert node_info.node.cuttable is not None
    awake = dynamic_gpus.count(
        node_info.node.cuttable, node_info.pods.values(), node_info.cuts, node_info.node.failed_gpus
    )
    return instance_search.choose(awake, profiles) is not None
