"""The plan for one pod on one dynamic MIG node: cost, places, and missing instances."""

from __future__ import annotations

from scheduler.framework.decision import Placement
from scheduler.model import well_known
from scheduler.model.gpu.device import MigPlacement
from scheduler.model.pods.pod import Pod
from scheduler.plugins.dynamic_mig import instance_search
from scheduler.state.node_info import NodeInfo

#: Whether an instance must be created, the added layout cost, and the number of instances to
#: create.
CreationCost = tuple[int, float, int]
NO_COST: CreationCost = (0, 0.0, 0)


def creation_cost(pod: Pod, node_info: NodeInfo) -> CreationCost:
    """The cost of the pod's instances on this node; zero if they exist already."""
    gpus = node_info.gpus
    if gpus is None:
        return NO_COST
    profiles = instance_search.wanted(pod)
    if not profiles:
        return NO_COST
    found = instance_search.choose(gpus, profiles)
    assert found is not None, "the filters let a pod through that has no place"
    return 1, found.cost_delta, found.new_instances


def mig_placements(pod: Pod, node_info: NodeInfo) -> tuple[MigPlacement, ...]:
    """The places of the pod's instances on this node; empty if the kubelet chooses."""
    if not node_info.is_dynamic or node_info.gpus is None:
        return ()
    profiles = instance_search.wanted(pod)
    found = instance_search.choose(node_info.gpus, profiles) if profiles else None
    return found.mig_placements if found is not None else ()


def missing(placement: Placement, node_info: NodeInfo) -> tuple[MigPlacement, ...] | None:
    """The placement's instances that do not exist yet; None if the kubelet advertises all.

    The tuple is empty if all exist and the kubelet does not advertise enough of them yet.
    """
    gpus = node_info.gpus
    if gpus is None or not placement.devices.mig_placements:
        return None
    new_instances = tuple(
        mig_placement
        for mig_placement in placement.devices.mig_placements
        if (mig_placement.profile, mig_placement.start) not in gpus.idle[mig_placement.gpu]
    )
    return new_instances if new_instances or not _is_advertised(placement.pod, node_info) else None


def _is_advertised(pod: Pod, node_info: NodeInfo) -> bool:
    """Whether the kubelet advertises enough instances; otherwise it rejects the pod."""
    assert node_info.node is not None
    offered, used = node_info.node.allocatable, node_info.used
    return all(
        offered.get(resource, 0) - used.get(resource, 0) >= count
        for resource, count in pod.gpu_requests.items()
        if well_known.is_mig(resource)
    )
