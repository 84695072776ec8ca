"""For every cluster: what pods and claims hold and what is idle add up to the GPUs and the bill."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.model import well_known
from scheduler.model.cost.prices import PriceTable, parse_prices
from scheduler.model.cost.share import ZERO, usable_share
from scheduler.model.mig import layout as mig_layout
from scheduler.model.mig.gpu_models import GPU_MODELS
from scheduler.model.node import Node
from scheduler.model.pods.pod import Pod
from scheduler.model.well_known import DRA_DRIVER
from scheduler.state.cache.cluster import Cluster
from scheduler.state.capacity.cost import CostSummary
from scheduler.state.capacity.gpu_shares import NodeShares, shares_of
from scheduler.state.snapshot import GpusInBackoff
from tests.builders import cluster, dynamic, node, pod
from tests.dra import (
    allocation_json,
    claiming,
    device_json,
    resource_claim,
    resource_slice,
    result_json,
    taint_rule,
)
from tests.property import strategies

A100 = "NVIDIA-A100-SXM4-80GB"
PRODUCTS = ("", A100, "NVIDIA-A30", "Tesla-T4", f"{A100}-MIG-1g.10gb", f"{A100}-SHARED")
NODE_NAMES = ("n0", "n1", "n2")
PRICES = parse_prices("""
currency: EUR
models: {A100: 1.79, A30: 0.3}
special: [{nodeSelector: {zone: a}, default: 7.123456}]
""")
#: Shares of a device, of 80 GiB each.
SHARED = {
    "allowMultipleAllocations": True,
    "capacity": {"memory": {"value": "80Gi"}},
    "attributes": {"productName": {"string": "NVIDIA A100 80GB"}},
}


@st.composite
def static_nodes(draw: st.DrawFn, name: str) -> Node:
    """Nodes of a device plugin: counted, by index, with MIG, in shares, with failed GPUs."""
    labels = {"zone": draw(st.sampled_from("ab"))}
    if product := draw(st.sampled_from(PRODUCTS)):
        labels[well_known.GPU_PRODUCT] = product
    if draw(st.booleans()):
        labels["nvidia.com/gpu.count"] = str(draw(st.integers(0, 8)))
    if draw(st.integers(0, 3)) == 0:
        labels["nvidia.com/gpu.replicas"] = str(draw(st.integers(1, 5)))
    mig = st.dictionaries(
        st.sampled_from(["1g.10gb", "2g.20gb", "3g.40gb", "4g.40gb", "1g.6gb", "5x"]),
        st.integers(0, 4),
        max_size=3,
    )
    failed = draw(st.sampled_from(["", "", "0", "1,3", "nonsense"]))
    return node(
        name,
        gpus=draw(st.none() | st.integers(0, 5)),
        mig=draw(mig),
        capacity=draw(st.sampled_from([{}, {well_known.GPU: "6"}])),
        with_gpu_indexes=draw(st.booleans()),
        labels=labels,
        annotations={well_known.UNUSABLE_DEVICES: failed} if failed else {},
        cordoned=draw(st.integers(0, 5)) == 5,
    )


@st.composite
def dynamic_nodes(draw: st.DrawFn, name: str) -> Node:
    failed = draw(st.sampled_from(["", "0", "1"]))
    return dynamic(
        name,
        gpus=draw(st.integers(1, 3)),
        labels={"zone": draw(st.sampled_from("ab"))},
        annotations={well_known.UNUSABLE_DEVICES: failed} if failed else {},
        cordoned=draw(st.integers(0, 5)) == 5,
    )


@st.composite
def holders(draw: st.DrawFn, number: int) -> Pod:
    """Bound pods of any origin, with and without a map, a record and a place of their devices."""
    devices = ("gpu:0", "gpu:1,2", "gpu x 1", "3g.40gb@0/4", "1g.10gb@1/0", "2g.20gb@0/0; gpu:1")
    annotations = {
        well_known.DEVICES: draw(st.sampled_from(["", "", *devices])),
        well_known.MAP: draw(st.sampled_from(["", "", "0=n0:0", "0=n1:0,1"])),
    }
    if draw(st.integers(0, 3)) == 0:
        annotations[well_known.FALLBACK] = "1g.10gb"
        annotations[well_known.ORIGINAL] = draw(
            st.sampled_from(["{}", "no", '{"app": {"limits": {"nvidia.com/mig-3g.40gb": "1"}}}'])
        )
    return pod(
        f"p{number}",
        uid=f"u{number}",
        namespace=draw(st.sampled_from(["team", "other", "third"])),
        owner=draw(st.sampled_from(["", "StatefulSet/w"])),
        gpus=draw(st.sampled_from([0, 0, 1, 1, 3])),
        mig=draw(
            st.dictionaries(
                st.sampled_from(["1g.10gb", "2g.20gb", "3g.40gb", "4g.40gb"]),
                st.integers(0, 2),
                max_size=1,
            )
        ),
        annotations={key: value for key, value in annotations.items() if value},
        scheduler=draw(st.sampled_from(["gpu-scheduler", "gpu-scheduler", "default-scheduler"])),
        node=draw(st.sampled_from((*NODE_NAMES, "ghost"))),
        phase=draw(st.sampled_from(["Running", "Running", "Pending", "Succeeded"])),
    )


def _parts() -> list[Any]:
    """A card with its partitions on n2, as NVIDIA's driver publishes them."""
    counters = {f"memory-slice-{at}": {"value": "1"} for at in range(8)}

    def part(name: str, profile: str, first: int, size: int) -> Any:
        used = {f"memory-slice-{at}": {"value": "1"} for at in range(first, first + size)}
        attributes = {"productName": {"string": "NVIDIA A100 80GB PCIe"}}
        if profile:
            attributes["profile"] = {"string": profile}
        uses = [{"counterSet": "card", "counters": used}]
        return device_json(name, attributes=attributes, consumesCounters=uses)

    card = [{"name": "card", "counters": counters}]
    parts = [part("whole", "", 0, 8), part("half-0", "3g.40gb", 0, 4)]
    parts += [part("half-4", "3g.40gb", 4, 4), *(part(f"one-{n}", "1g.10gb", n, 1) for n in (0, 5))]
    cards = {"driver": DRA_DRIVER, "slices": 2}
    return [
        resource_slice("n2", name="a", nodeName="n2", sharedCounters=card, **cards),
        resource_slice("n2", *parts, name="b", **cards),
    ]


def _devices() -> list[Any]:
    """Whole GPUs, GPUs in shares, and a partition of an unknown card, of n2 or of all nodes."""
    slice_of = {"profile": {"string": "2g.20gb"}}
    some: list[Any] = [
        "gpu-0",
        "gpu-1",
        device_json("shared", **SHARED),
        device_json("s", attributes=slice_of),
    ]
    return [resource_slice("n2", *some, driver=DRA_DRIVER)]


@st.composite
def claims(draw: st.DrawFn) -> list[Any]:
    """Devices of a DRA driver, claims with some of them, also twice, and their pods."""
    kind = draw(st.sampled_from(["none", "cards", "devices"]))
    if kind == "none":
        return []
    names = (
        ("whole", "half-0", "half-4", "one-0", "one-5")
        if kind == "cards"
        else ("gpu-0", "gpu-1", "shared", "s")
    )
    objects: list[Any] = _parts() if kind == "cards" else _devices()
    if draw(st.booleans()):
        objects.append(taint_rule(driver=DRA_DRIVER, device=names[0]))
    for number in range(draw(st.integers(0, 4))):
        device = draw(st.sampled_from(names))
        more: Any = {}
        if device == "shared":
            more["shareID"] = f"0000000{number}"
            if draw(st.booleans()):
                more["consumedCapacity"] = {"memory": draw(st.sampled_from(["8Gi", "60Gi"]))}
        given_ = allocation_json(result_json(device, driver=DRA_DRIVER, node="n2", **more))
        users = [f"c{number}-{at}" for at in range(draw(st.integers(0, 3)))]
        objects.append(resource_claim(f"c{number}", allocation=given_, users=users))
        objects += [pod(user, node="n2", spec=claiming(f"c{number}")) for user in users]
    return objects


@st.composite
def clusters(draw: st.DrawFn) -> Cluster:
    """Three nodes of any kind, and pods on them that may hold more than there is."""
    objects: list[Any] = [
        draw(st.one_of(static_nodes(name), dynamic_nodes(name), strategies.nodes(name)))
        for name in NODE_NAMES
    ]
    objects += draw(claims())
    objects += [draw(holders(number)) for number in range(draw(st.integers(0, 8)))]
    if draw(st.booleans()):
        objects.append(GpusInBackoff(node_name="n1", gpus=(0,)))
    return cluster(*objects)


def nodes_of(state: Cluster) -> list[NodeShares]:
    seen: set[Any] = set()
    names = (one.node.name for one in state.candidates() if one.node is not None)
    infos = [state.at(name) for name in sorted(names)]
    return [shares_of(one, state.dra, seen) for one in infos if one is not None]


@pytest.mark.contract("S4-24")
@given(clusters(), st.sampled_from([PRICES, PriceTable()]))
def test_shares_and_idle_parts_are_the_gpus_and_the_bill(
    state: Cluster, prices: PriceTable
) -> None:
    summary = CostSummary(prices)
    nodes = nodes_of(state)
    for one in nodes:
        idle = one.idle
        parts = [held.share for held in one.held] + [gpu.idle for gpu in one.cut]
        parts += [idle.free, idle.stranded, idle.failed, idle.unavailable]
        assert min(parts) >= 0
        assert sum(parts, ZERO) == one.gpus
        summary.add_node(one)
    summary.finish()
    namespaces = summary.namespaces()

    held = sum((one.gpus for one in namespaces), ZERO)
    assert held + summary.idle().total == summary.gpus == sum(one.gpus for one in nodes)
    cost = sum((one.per_hour for one in namespaces), ZERO)
    assert cost + summary.idle_per_hour().total == summary.per_hour
    for model in summary.models.values():
        assert model.held + model.idle.total == model.gpus


def _layouts(name: str) -> st.SearchStrategy[mig_layout.Layout]:
    return st.sampled_from(list(mig_layout.layouts(GPU_MODELS[name])))


@given(_layouts("A100-80"), st.sets(st.sampled_from(list(GPU_MODELS["A100-80"].profiles))))
def test_profiles_fit_exactly_where_room_is_free(
    layout: mig_layout.Layout, profiles: set[str]
) -> None:
    model = GPU_MODELS["A100-80"]
    fits = any(mig_layout.fits(model, layout, name) for name in profiles)

    assert (usable_share(model, layout, profiles) > Fraction(0)) == fits
