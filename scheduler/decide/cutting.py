"""A pod and one node whose GPUs are cut to order: what it takes, what it gets, what is missing."""

from __future__ import annotations

from scheduler.decide import joint
from scheduler.decide.decision import Carve, Placement
from scheduler.model import names
from scheduler.model.device import Devices, Spot
from scheduler.model.pod import Pod
from scheduler.state.cutting import canonical
from scheduler.state.ledger import NodeBooks

#: Whether anything is cut, what that costs later, how many instances do not exist yet.
Effort = tuple[int, float, int]
NONE: Effort = (0, 0.0, 0)


def effort(pod: Pod, books: NodeBooks) -> Effort:
    """What it takes to give the pod its instances here: nothing where they are there already."""
    gpus = books.gpus
    if gpus is None:
        return NONE
    profiles = joint.wanted(pod)
    if not profiles:
        return NONE
    found = joint.choose(gpus, profiles)
    assert found is not None, "the filters let a pod through that has no place"
    return 1, found.rise, found.fresh


def spots(pod: Pod, books: NodeBooks) -> tuple[Spot, ...]:
    """Where the pod's instances go on this node; empty where the kubelet picks."""
    if books.gpus is None:
        return ()
    profiles = joint.wanted(pod)
    found = joint.choose(books.gpus, profiles) if profiles else None
    return found.spots if found is not None else ()


def positioned(pod: Pod, books: NodeBooks, devices: Devices) -> Devices:
    """What the pod gets, with its instances by place where we choose them."""
    chosen = spots(pod, books)
    if not chosen:
        return devices
    mine = {spot.profile for spot in chosen}
    counts = tuple(one for one in devices.counts if canonical(one[0]) not in mine)
    return Devices(devices.numbers, counts, chosen)


def carved(placement: Placement, books: NodeBooks) -> Placement:
    """The placement as it is where all its instances are there, else as a Carve."""
    gpus = books.gpus
    if gpus is None or not placement.devices.spots:
        return placement
    fresh = tuple(
        spot
        for spot in placement.devices.spots
        if (spot.profile, spot.start) not in gpus.idle[spot.gpu]
    )
    if not fresh and _is_advertised(placement.pod, books):
        return placement
    same = {field: getattr(placement, field) for field in placement.__struct_fields__}
    return Carve(**same, fresh=fresh)


def _is_advertised(pod: Pod, books: NodeBooks) -> bool:
    """Whether the kubelet knows of enough instances; it refuses the pod otherwise."""
    assert books.node is not None
    offered, used = books.node.allocatable, books.used
    return all(
        offered.get(resource, 0) - used.get(resource, 0) >= count
        for resource, count in pod.gpu_requests.items()
        if names.is_mig(resource)
    )
