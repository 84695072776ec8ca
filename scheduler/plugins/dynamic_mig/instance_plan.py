"""A pod and one node whose GPUs are cut to order: what it takes, what it gets, what is missing."""

from __future__ import annotations

from scheduler.framework.decision import Placement
from scheduler.model import well_known
from scheduler.model.gpu.device import MigPlacement
from scheduler.model.pods.pod import Pod
from scheduler.plugins.dynamic_mig import instance_search
from scheduler.state.node_info import NodeInfo

#: Whether anything is cut, what that costs later, how many instances do not exist yet.
Effort = tuple[int, float, int]
NONE: Effort = (0, 0.0, 0)


def effort(pod: Pod, node_info: NodeInfo) -> Effort:
    """What it takes to give the pod its instances here: nothing where they are there already."""
    gpus = node_info.gpus
    if gpus is None:
        return NONE
    profiles = instance_search.wanted(pod)
    if not profiles:
        return NONE
    found = instance_search.choose(gpus, profiles)
    assert found is not None, "the filters let a pod through that has no place"
    return 1, found.rise, found.fresh


def spots(pod: Pod, node_info: NodeInfo) -> tuple[MigPlacement, ...]:
    """Where the pod's instances go on this node; empty where the kubelet picks."""
    if not node_info.is_dynamic or node_info.gpus is None:
        return ()
    profiles = instance_search.wanted(pod)
    found = instance_search.choose(node_info.gpus, profiles) if profiles else None
    return found.spots if found is not None else ()


def missing(placement: Placement, node_info: NodeInfo) -> tuple[MigPlacement, ...] | None:
    """The placement's instances that do not exist yet; None where the kubelet knows of all.

    The tuple is empty where all exist and the kubelet does not advertise enough of them yet.
    """
    gpus = node_info.gpus
    if gpus is None or not placement.devices.spots:
        return None
    fresh = tuple(
        spot
        for spot in placement.devices.spots
        if (spot.profile, spot.start) not in gpus.idle[spot.gpu]
    )
    return fresh if fresh or not _is_advertised(placement.pod, node_info) else None


def _is_advertised(pod: Pod, node_info: NodeInfo) -> bool:
    """Whether the kubelet knows of enough instances; it refuses the pod otherwise."""
    assert node_info.node is not None
    offered, used = node_info.node.allocatable, node_info.used
    return all(
        offered.get(resource, 0) - used.get(resource, 0) >= count
        for resource, count in pod.gpu_requests.items()
        if well_known.is_mig(resource)
    )
