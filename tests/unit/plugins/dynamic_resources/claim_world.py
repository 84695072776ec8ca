"""Claims on one node, allocated by one order or the other."""

from __future__ import annotations

from scheduler.framework.budget import Budget
from scheduler.model.dra.claim import ResourceClaim
from scheduler.model.dra.objects import DraObject
from scheduler.model.dra.resource_slice import ResourceSlice
from scheduler.model.node import Node
from scheduler.plugins.dynamic_resources.allocation.allocator import allocate, first_fit
from scheduler.plugins.dynamic_resources.allocation.best_fit import best_fit
from scheduler.plugins.dynamic_resources.allocation.selectors import matches
from scheduler.plugins.dynamic_resources.allocation.taken_devices import (
    AllocationInput,
    NoAllocation,
)
from scheduler.state.dra.store import DraStore
from tests.dra import CLASS, Json, device_class, device_json, resource_slice

NODE = Node(name="n1")
PRODUCT = "NVIDIA H100 80GB HBM3"
#: The memory slices of a profile at a start.
SIZES = {"1g.10gb": 1, "1g.20gb": 2, "2g.20gb": 2, "3g.40gb": 4, "4g.40gb": 4, "7g.80gb": 8}
STARTS = {
    "1g.10gb": range(7),
    "1g.20gb": (0, 2, 4, 6),
    "2g.20gb": (0, 2, 4),
    "3g.40gb": (0, 4),
    "4g.40gb": (0,),
    "7g.80gb": (0,),
}


def store(*objects: DraObject) -> DraStore:
    """What the API server has, with a class of all devices."""
    found = DraStore()
    for one in (device_class(), *objects):
        found.upsert(one)
    return found


def given(
    state: DraStore, *claims: ResourceClaim, best: bool = True, node: Node = NODE
) -> list[list[str]] | NoAllocation:
    """The devices of each claim on the node, or why there are none."""
    pools = state.pools.on_node(node.name, node.labels)
    order = best_fit(state.in_use) if best else first_fit
    search = AllocationInput(node, pools, state, matches)
    found = allocate(search, claims, Budget(10_000), order)
    if isinstance(found, NoAllocation):
        return found
    return [[one.device for one in allocation.results] for allocation in found]


def whole_gpu(name: str, numa: int, root: str = "") -> Json:
    """A GPU at its place in the machine."""
    place: Json = {"resource.kubernetes.io/numaNode": {"int": numa}}
    if root:
        place["resource.kubernetes.io/pcieRoot"] = {"string": root}
    return device_json(name, attributes=place)


def mig_card(cards: int = 1, node_name: str = "n1") -> tuple[ResourceSlice, ...]:
    """The slices of H100 cards that are offered in parts, as NVIDIA's driver publishes them."""
    counters, devices = [], []
    for card in range(cards):
        name = f"gpu-{card}-counter-set"
        every = {f"memory-slice-{at}": {"value": "1"} for at in range(8)}
        counters.append({"name": name, "counters": {**every, "memory": {"value": "81559Mi"}}})
        devices += [
            _part(card, name, profile, start)
            for profile, starts in STARTS.items()
            for start in starts
        ]
    return (
        resource_slice(
            node_name,
            name=f"{node_name}-c",
            slices=2,
            sharedCounters=counters,
            nodeName=node_name,
        ),
        resource_slice(node_name, *devices, name=f"{node_name}-d", slices=2),
    )


def _part(card: int, counter_set: str, profile: str, start: int) -> Json:
    taken = {f"memory-slice-{start + at}": {"value": "1"} for at in range(SIZES[profile])}
    return device_json(
        f"{card}-{profile}-{start}",
        attributes={"productName": {"string": PRODUCT}, "profile": {"string": profile}},
        consumesCounters=[{"counterSet": counter_set, "counters": taken}],
    )


def selecting(profile: str) -> Json:
    """The selector of a MIG profile, as a part of a request."""
    text = f'device.attributes["{CLASS}"].profile == "{profile}"'
    return {"selectors": [{"cel": {"expression": text}}]}
