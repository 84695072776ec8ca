"""The operator's response to a placement that waits for its MIG instances."""

from __future__ import annotations

from collections.abc import Iterable

from scheduler.framework.decision import PendingPlacement
from scheduler.model import well_known
from scheduler.model.crd.mig_partition import MigInstance, PartitionState
from scheduler.model.gpu.device import MigPlacement
from scheduler.model.pods.pod import Pod
from scheduler.state.cache.cluster import Cluster
from scheduler.state.mig.dynamic_gpus import canonical


def refusal(cluster: Cluster, carve: PendingPlacement, until: str) -> MigInstance | None:
    """The operator's rejection of this request; ``until`` distinguishes it from earlier
    requests.
    """
    mine = {_key(mig_placement) for mig_placement in carve.devices.mig_placements}
    for there in _instances(cluster, carve.node_name):
        is_no = there.state is PartitionState.FAILED and there.deadline == until
        if is_no and _key(there.mig_placement) in mine:
            return there
    return None


def is_ready(cluster: Cluster, carve: PendingPlacement, others: Iterable[Pod]) -> bool:
    """Whether all instances exist and the kubelet advertises them; ``others`` are pods that wait
    there too.
    """
    node_info = cluster.at(carve.node_name)
    if node_info is None or node_info.node is None:
        return False
    ready = {
        _key(there.mig_placement)
        for there in _instances(cluster, carve.node_name)
        if there.state is PartitionState.READY
    }
    if not all(_key(mig_placement) in ready for mig_placement in carve.devices.mig_placements):
        return False
    waiting = list(others)
    for resource in filter(well_known.is_mig, carve.pod.gpu_requests):
        asked = sum(pod.requests.get(resource, 0) for pod in waiting)
        held = node_info.used.get(resource, 0) - asked  # includes the pod itself
        if node_info.node.allocatable.get(resource, 0) < held:
            return False
    return True


def lateness(cluster: Cluster, carve: PendingPlacement) -> str:
    """The missing items, as text."""
    answers = {_key(there.mig_placement): there for there in _instances(cluster, carve.node_name)}
    for mig_placement in carve.devices.mig_placements:
        there = answers.get(_key(mig_placement))
        if there is None:
            return f"no status of {mig_placement}"
        if there.state is not PartitionState.READY:
            return f"{mig_placement} was not ready"
    return "the instances exist but the node does not advertise them"


def _instances(cluster: Cluster, node_name: str) -> tuple[MigInstance, ...]:
    known = cluster.nodes.partitions.known.get(node_name)
    return known.instances if known is not None else ()


def _key(mig_placement: MigPlacement) -> tuple[int, int, str]:
    return mig_placement.gpu, mig_placement.start, canonical(mig_placement.profile)
