"""A pod and one node whose GPUs are cut to order: what it takes, what it gets, what is missing."""

from __future__ import annotations

from scheduler.decide.decision import PendingPlacement, Placement
from scheduler.decide.mig import instance_search
from scheduler.model import well_known
from scheduler.model.device import Devices, MigPlacement
from scheduler.model.pod import Pod
from scheduler.state.mig.dynamic_gpus import canonical
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
    if node_info.gpus is None:
        return ()
    profiles = instance_search.wanted(pod)
    found = instance_search.choose(node_info.gpus, profiles) if profiles else None
    return found.spots if found is not None else ()


def positioned(pod: Pod, node_info: NodeInfo, devices: Devices) -> Devices:
    """What the pod gets, with its instances by place where we choose them."""
    chosen = spots(pod, node_info)
    if not chosen:
        return devices
    mine = {spot.profile for spot in chosen}
    counts = tuple(one for one in devices.counts if canonical(one[0]) not in mine)
    return Devices(devices.numbers, counts, chosen)


def carved(placement: Placement, node_info: NodeInfo) -> Placement:
    """The placement as it is where all its instances are there, else as a Carve."""
    gpus = node_info.gpus
    if gpus is None or not placement.devices.spots:
        return placement
    fresh = tuple(
        spot
        for spot in placement.devices.spots
        if (spot.profile, spot.start) not in gpus.idle[spot.gpu]
    )
    if not fresh and _is_advertised(placement.pod, node_info):
        return placement
    same = {field: getattr(placement, field) for field in placement.__struct_fields__}
    return PendingPlacement(**same, fresh=fresh)


def _is_advertised(pod: Pod, node_info: NodeInfo) -> bool:
    """Whether the kubelet knows of enough instances; it refuses the pod otherwise."""
    assert node_info.node is not None
    offered, used = node_info.node.allocatable, node_info.used
    return all(
        offered.get(resource, 0) - used.get(resource, 0) >= count
        for resource, count in pod.gpu_requests.items()
        if well_known.is_mig(resource)
    )
