"""What a node's operator has answered to a placement that waits for its MIG instances."""

from __future__ import annotations

from collections.abc import Iterable

from scheduler.decide.decision import Carve
from scheduler.model import names
from scheduler.model.cut import CutState, Instance
from scheduler.model.device import Spot
from scheduler.model.pod import Pod
from scheduler.state.cluster import Cluster
from scheduler.state.cutting import canonical


def refusal(cluster: Cluster, carve: Carve, until: str) -> Instance | None:
    """The operator's no to this very request, which ``until`` tells from earlier ones."""
    mine = {_key(spot) for spot in carve.devices.spots}
    for there in _instances(cluster, carve.node_name):
        is_no = there.state is CutState.FAILED and there.deadline == until
        if is_no and _key(there.spot) in mine:
            return there
    return None


def is_ready(cluster: Cluster, carve: Carve, others: Iterable[Pod]) -> bool:
    """Whether everything is there and the kubelet knows of it; ``others`` wait there as well."""
    books = cluster.at(carve.node_name)
    if books is None or books.node is None:
        return False
    ready = {
        _key(there.spot)
        for there in _instances(cluster, carve.node_name)
        if there.state is CutState.READY
    }
    if not all(_key(spot) in ready for spot in carve.devices.spots):
        return False
    waiting = list(others)
    for resource in filter(names.is_mig, carve.pod.gpu_requests):
        asked = sum(pod.requests.get(resource, 0) for pod in waiting)
        held = books.used.get(resource, 0) - asked  # the pod itself included
        if books.node.allocatable.get(resource, 0) < held:
            return False
    return True


def lateness(cluster: Cluster, carve: Carve) -> str:
    """What is still missing, in words."""
    answers = {_key(there.spot): there for there in _instances(cluster, carve.node_name)}
    for spot in carve.devices.spots:
        there = answers.get(_key(spot))
        if there is None:
            return f"no answer about {spot}"
        if there.state is not CutState.READY:
            return f"{spot} was not ready"
    return "it was cut but not advertised"


def _instances(cluster: Cluster, node_name: str) -> tuple[Instance, ...]:
    known = cluster.nodes.cuts.known.get(node_name)
    return known.instances if known is not None else ()


def _key(spot: Spot) -> tuple[int, int, str]:
    return spot.gpu, spot.start, canonical(spot.profile)
