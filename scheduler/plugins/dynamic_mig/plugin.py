"""MIG instances that are created for the pod, on nodes with dynamic MIG.

Filter: all of the pod's instances must fit together, on GPUs without backoff; NodeResourcesFit then
checks each profile alone. Reserve: the places of the instances. PreBind: the missing instances must
be created before the Binding is sent.
"""

from __future__ import annotations

from typing import Final

import msgspec

from scheduler.framework import pod_reads
from scheduler.framework.decision import CreateInstances, Placement
from scheduler.framework.plugin import FITS, NodeFilter, Plugin, Reasons, ReserveContext
from scheduler.framework.settings import Settings
from scheduler.model.gpu.device import Devices
from scheduler.model.pods.pod import Pod
from scheduler.model.reasons.reason import Reason
from scheduler.model.reasons.reason_code import ReasonCode, RequeueCause
from scheduler.plugins.dynamic_mig import instance_plan, instance_search
from scheduler.state.mig import dynamic_gpus
from scheduler.state.node_info import NodeInfo

INSTANCES_DO_NOT_FIT_TOGETHER = ReasonCode(
    name="INSTANCES_DO_NOT_FIT_TOGETHER",
    meaning=("on dynamic MIG GPUs each MIG instance of the pod fits, but not all of them together"),
    lifted_by=(
        RequeueCause.FREED,
        RequeueCause.NODE,
    ),
    stage="NodeResourcesFit",
    next_step="request fewer instances in one pod, or distribute them over several pods",
    words=(r"node\(s\) where the pod's MIG instances fit one by one",),
)
GPU_BACKOFF = ReasonCode(
    name="GPU_BACKOFF",
    meaning="a MIG partition request failed, and the GPU is in backoff",
    lifted_by=(
        RequeueCause.AVOIDED,
        RequeueCause.FREED,
        RequeueCause.NODE,
    ),
    stage="NodeHealth",
    next_step=(
        "read the operator's status: kubectl -n gpu-scheduler-system get migpartitions"
        " NODE -o yaml; the scheduler retries when the backoff expires"
    ),
    words=(r"node\(s\) whose free GPUs are in backoff",),
)

NOT_TOGETHER = Reason(
    code=INSTANCES_DO_NOT_FIT_TOGETHER,
    text="node(s) where the pod's MIG instances fit one by one but not together",
)
IN_BACKOFF = Reason(
    code=GPU_BACKOFF,
    text="node(s) whose free GPUs are in backoff after a failed MIG partition request",
)


def check(pod: Pod, node_info: NodeInfo) -> Reasons:
    """Reject a node on whose GPUs the pod's instances do not fit together."""
    if not node_info.is_dynamic or not pod.gpu_requests:
        return FITS
    gpus = node_info.gpus
    if gpus is None:
        return FITS
    profiles = instance_search.wanted(pod)
    if not profiles or instance_search.choose(gpus, profiles) is not None:
        return FITS
    if node_info.gpus_in_backoff and _fits_without_backoff(node_info, profiles):
        return (IN_BACKOFF,)
    is_each = all(node_info.free(resource) >= n for resource, n in pod.gpu_requests.items())
    return (NOT_TOGETHER,) if is_each else FITS


def _fits_without_backoff(node_info: NodeInfo, profiles: tuple[str, ...]) -> bool:
    assert node_info.node is not None
    assert node_info.node.dynamic_mig is not None
    without_backoff = dynamic_gpus.count(
        node_info.node.dynamic_mig,
        node_info.pods.values(),
        node_info.instances,
        node_info.node.failed_gpus,
    )
    return instance_search.choose(without_backoff, profiles) is not None


def node_key(pod: Pod, node_info: NodeInfo, _: Settings) -> instance_plan.CreationCost:
    """The added layout cost and the number of instances to create; zeros on other nodes."""
    return (
        instance_plan.creation_cost(pod, node_info)
        if node_info.is_dynamic
        else instance_plan.NO_COST
    )


def reserve(context: ReserveContext, placement: Placement) -> Placement:
    """Choose the place of each instance on a dynamic MIG node; GPUDevices adds the counted
    devices.
    """
    if not context.node_info.is_dynamic:
        return placement
    mig_placements = instance_plan.mig_placements(placement.pod, context.node_info)
    return (
        msgspec.structs.replace(placement, devices=Devices(mig_placements=mig_placements))
        if mig_placements
        else placement
    )


def pre_bind(context: ReserveContext, placement: Placement) -> CreateInstances | None:
    """The instances that the Binding waits for; None if all exist."""
    if not context.node_info.is_dynamic:
        return None
    missing = instance_plan.missing(placement, context.node_info)
    return None if missing is None else CreateInstances(missing)


PLUGIN: Final = Plugin(
    name="DynamicMIG",
    reads=(pod_reads.REQUESTS,),
    codes=(
        INSTANCES_DO_NOT_FIT_TOGETHER,
        GPU_BACKOFF,
    ),
    filters=(NodeFilter(check),),
    node_key=node_key,
    reserve=reserve,
    pre_bind=pre_bind,
)
