"""Nodes whose MIG configuration changes, and nodes on which a "GPU" is a MIG instance.

While mig-manager works, the node's resources are about to change, and a process on a GPU makes
mig-manager fail. After a failure the instances are unknown. A new node with a wanted MIG
configuration is excluded as long as its labels may be missing (``state/mig/layout_wait``).

With strategy ``single`` ``nvidia.com/gpu`` counts MIG instances. A process can use only one of
them, so several in one container are an error of the author.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Final

from scheduler.framework import pod_reads
from scheduler.framework.plugin import FITS, NodeFilter, Plugin, Reasons
from scheduler.model import well_known
from scheduler.model.pods.pod import Pod
from scheduler.model.reasons.reason import Reason
from scheduler.model.reasons.reason_code import ReasonCode, RequeueCause
from scheduler.state.mig.layout_wait import SETTLED_AFTER_S
from scheduler.state.node_info import NodeInfo

LABEL_VALUE_SHOWN_MAX = 63


MIG_NOT_READY = ReasonCode(
    name="MIG_NOT_READY",
    meaning="the MIG configuration of the node is in progress or failed",
    lifted_by=(RequeueCause.NODE,),
    stage="GPUDevices",
    next_step=(
        "wait until mig-manager finishes; when the state is failed, read its log and set"
        " the node's label nvidia.com/mig.config again"
    ),
    words=(
        r"node\(s\) had nvidia\.com/mig\.config\.state \S+",
        r"node\(s\) that wait for their MIG layout \S+",
    ),
)
GPU_RESOURCE_IS_MIG = ReasonCode(
    name="GPU_RESOURCE_IS_MIG",
    meaning=(
        "nvidia.com/gpu counts MIG instances on this node, and one container requests several"
    ),
    lifted_by=(
        RequeueCause.NODE,
        RequeueCause.POD,
    ),
    stage="GPUDevices",
    next_step=(
        "request one nvidia.com/gpu in each container, or select nodes with whole GPUs by"
        " their label nvidia.com/gpu.product"
    ),
    words=(r"node\(s\) where nvidia\.com/gpu counts slices",),
)


def check(pod: Pod, node_info: NodeInfo) -> Reasons:
    """Reject GPU pods while the MIG configuration changes, and several MIG instances as GPUs in one
    container.
    """
    node = node_info.node
    assert node is not None
    if not pod.gpu_requests and pod.map_text is None:
        return FITS
    if node.mig_hold:
        return _no(node.mig_hold)
    if node.mig_awaited and not node_info.is_settled:
        return _awaited(node.mig_awaited[:LABEL_VALUE_SHOWN_MAX])
    if node.single_profile and any(c.devices.get(well_known.GPU, 0) > 1 for c in pod.containers):
        return _slices(node.single_profile)
    return FITS


@lru_cache(maxsize=64)
def _no(state: str) -> Reasons:
    text = f"node(s) had {well_known.MIG_STATE} {state}"
    return (Reason(code=MIG_NOT_READY, text=text, resolvable=False),)


@lru_cache(maxsize=64)
def _awaited(layout: str) -> Reasons:
    text = (
        f"node(s) that wait for their MIG layout {layout} ({well_known.MIG_STATE} is not set yet;"
        f" at most {SETTLED_AFTER_S // 60} min after the node's creation)"
    )
    return (Reason(code=MIG_NOT_READY, text=text, resolvable=False),)


@lru_cache(maxsize=64)
def _slices(profile: str) -> Reasons:
    text = (
        f"node(s) where {well_known.GPU} counts slices of {profile} and one container"
        " asked for more"
    )
    return (Reason(code=GPU_RESOURCE_IS_MIG, text=text, resolvable=False),)


PLUGIN: Final = Plugin(
    name="MIGState",
    reads=(
        pod_reads.REQUESTS,
        pod_reads.MAP,
    ),
    codes=(
        MIG_NOT_READY,
        GPU_RESOURCE_IS_MIG,
    ),
    filters=(NodeFilter(check),),
)
