"""The devices of a node count for the extended resource of their class."""

from __future__ import annotations

from typing import Any

import pytest

from scheduler.model.dra.objects import DraObject
from scheduler.state import event as ev
from scheduler.state.cache.cluster import Cluster
from scheduler.state.fold import fold
from tests.builders import GPU, MIG_1G, cluster, node, pod
from tests.dra import (
    CLASS,
    allocation_json,
    device_class,
    device_json,
    resource_claim,
    resource_slice,
    result_json,
    taint_rule,
)

EVERY_GPU = device_class(CLASS, f"device.driver == '{CLASS}'", extendedResourceName=GPU)


def counts(state: Cluster, resource: str = GPU, name: str = "n1") -> tuple[int, int]:
    """All devices and the free ones on a node."""
    node_info = state.at(name)
    assert node_info is not None
    return node_info.most(resource), node_info.free(resource)


def held(*devices: str, **more: Any) -> DraObject:
    """An allocated claim."""
    return resource_claim(allocation=allocation_json(*map(result_json, devices)), **more)


def typed(kind: str, *names: str) -> list[Any]:
    """Devices with an attribute ``type``."""
    return [device_json(one, attributes={"type": {"string": kind}}) for one in names]


def test_devices_of_the_class_count() -> None:
    whole = device_class(
        CLASS, f"device.attributes['{CLASS}'].type == 'gpu'", extendedResourceName=GPU
    )
    published = resource_slice("n1", *typed("gpu", "a", "b"), *typed("mig", "c"))

    assert counts(cluster(node(), published, whole)) == (2, 2)


@pytest.mark.parametrize("order", [(0, 1, 2), (2, 1, 0), (1, 2, 0)])
def test_node_class_and_slice_may_come_in_any_order(order: tuple[int, ...]) -> None:
    objects: list[Any] = [node(), resource_slice("n1", "a", "b"), EVERY_GPU]

    assert counts(cluster(*[objects[at] for at in order])) == (2, 2)


def test_an_allocated_device_of_any_scheduler_is_not_free() -> None:
    state = cluster(node(), resource_slice("n1", "a", "b"), EVERY_GPU, held("a"))

    assert counts(state) == (2, 1)


def test_a_device_is_free_again_after_its_claim() -> None:
    state = cluster(node(), resource_slice("n1", "a", "b"), EVERY_GPU, held("a"))

    changes = fold(state, ev.DraUpdated(resource_claim(version="2")))

    assert counts(state) == (2, 2)
    freed = [one for one in changes if isinstance(one, ev.ClusterEvent) and GPU in one.what]
    assert [one.node_name for one in freed] == ["n1"]


def test_admin_access_uses_nothing() -> None:
    seen = allocation_json(result_json("a", adminAccess=True))
    state = cluster(node(), resource_slice("n1", "a"), EVERY_GPU, resource_claim(allocation=seen))

    assert counts(state) == (1, 1)


@pytest.mark.parametrize(
    ("effect", "free"), [("NoSchedule", 0), ("NoExecute", 0), ("None", 1)], ids=str
)
def test_a_tainted_device_is_not_free(effect: str, free: int) -> None:
    broken = device_json("a", taints=[{"key": "broken", "effect": effect}])

    assert counts(cluster(node(), resource_slice("n1", broken), EVERY_GPU)) == (1, free)


def test_a_taint_rule_takes_devices_away() -> None:
    state = cluster(node(), resource_slice("n1", "a", "b"), EVERY_GPU)
    fold(state, ev.DraUpdated(taint_rule(device="a")))

    assert counts(state) == (2, 1)


def test_partitions_count_each_by_itself() -> None:
    """An upper bound: both are free while neither is taken."""
    state = cluster(node(), counters(slices=2), halves(), EVERY_GPU)
    assert counts(state) == (3, 3)

    fold(state, ev.DraUpdated(held("half-0")))
    assert counts(state) == (3, 1)


def counters(*, slices: int) -> DraObject:
    """The counter set of one card with two halves."""
    shared = [{"name": "card", "counters": {"half": {"value": "2"}}}]
    return resource_slice("n1", name="counters", slices=slices, sharedCounters=shared)


def halves() -> DraObject:
    """Two halves of a card, and the whole."""
    devices = [
        device_json(name, consumesCounters=[{"counterSet": "card", "counters": _half(amount)}])
        for name, amount in (("half-0", 1), ("half-1", 1), ("whole", 2))
    ]
    return resource_slice("n1", *devices, name="devices", slices=2)


def _half(amount: int) -> dict[str, Any]:
    return {"half": {"value": str(amount)}}


def test_nothing_counts_of_an_incomplete_pool() -> None:
    state = cluster(node(), halves(), EVERY_GPU)

    assert counts(state) == (0, 0)
    fold(state, ev.DraUpdated(counters(slices=2)))
    assert counts(state) == (3, 3)


@pytest.mark.parametrize(
    ("capacity", "free"),
    [
        pytest.param({}, 32, id="any-number-of-shares"),
        pytest.param({"memory": {"value": "40Gi"}}, 1, id="the-whole-capacity"),
        pytest.param(
            {"memory": {"value": "40Gi", "requestPolicy": {"default": "10Gi"}}}, 4, id="by-default"
        ),
    ],
)
def test_shares_of_a_device_count(capacity: Any, free: int) -> None:
    shared = device_json("a", allowMultipleAllocations=True, capacity=capacity)

    assert counts(cluster(node(), resource_slice("n1", shared), EVERY_GPU))[1] == free


def test_a_device_whose_selector_fails_counts() -> None:
    """The allocator then says which selector failed, instead of a number."""
    wrong = device_class(CLASS, "device.attributes['x'].missing == 1", extendedResourceName=GPU)

    assert counts(cluster(node(), resource_slice("n1", "a"), wrong)) == (1, 1)


def test_a_device_plugin_has_precedence() -> None:
    state = cluster(node(gpus=4), resource_slice("n1", "a"), EVERY_GPU, pod("p", gpus=1, node="n1"))

    assert counts(state) == (4, 3)


def test_a_plugin_that_advertises_none_leaves_the_resource_to_dra() -> None:
    assert counts(cluster(node(gpus=0), resource_slice("n1", "a"), EVERY_GPU)) == (1, 1)


def test_requests_of_placed_pods_do_not_count() -> None:
    """Their claims do."""
    state = cluster(node(), resource_slice("n1", "a", "b"), EVERY_GPU, pod("p", gpus=1, node="n1"))

    assert counts(state) == (2, 2)


def test_requests_that_are_tried_out_on_a_copy_count() -> None:
    state = cluster(node(), resource_slice("n1", "a", "b"), EVERY_GPU, pod("p", gpus=1, node="n1"))
    node_info = state.at("n1")
    assert node_info is not None
    copy = node_info.copy()
    newcomer = pod("q", gpus=1)
    copy.add(newcomer, state.nodes.allocation(newcomer, None))

    assert copy.free(GPU) == 1
    assert copy.copy().free(GPU) == 1
    copy.remove(newcomer.uid)
    assert copy.free(GPU) == 2
    assert node_info.free(GPU) == 2


def test_nothing_is_left_of_a_pool_that_is_gone() -> None:
    state = cluster(node(), resource_slice("n1", "a"), EVERY_GPU)
    published = resource_slice("n1", "a")
    fold(state, ev.DraDeleted(type(published), published.key))

    assert counts(state) == (0, 0)


def test_a_slice_for_every_node_counts_on_each() -> None:
    shared = resource_slice("n1", "a", allNodes=True)
    state = cluster(node("n1"), shared, EVERY_GPU, node("n2"))

    assert counts(state, name="n2") == (1, 1)
    fold(state, ev.DraUpdated(held("a")))
    assert (counts(state), counts(state, name="n2")) == ((1, 0), (1, 0))


def test_profiles_of_nvidias_partitions_are_known() -> None:
    profile = {"profile": {"string": "1g.10gb+me"}}
    part = device_json("p", attributes=profile)
    published = resource_slice("n1", part, driver="gpu.nvidia.com")
    node_info = cluster(node(), published).at("n1")

    assert node_info is not None
    assert node_info.dra is not None
    assert node_info.dra.profiles == {f"{MIG_1G}.me"}


NIC = resource_slice("n1", "eth0", driver="net.example.com")
NVIDIA = resource_slice("n1", "gpu-0", driver="gpu.nvidia.com")


@pytest.mark.parametrize(
    ("objects", "devices"),
    [
        pytest.param([node(), NVIDIA], [0], id="devices-of-nvidias-driver"),
        pytest.param([node(gpus=0), NVIDIA], [0], id="a-name-that-the-kubelet-keeps"),
        pytest.param([node(gpus=1), NVIDIA], None, id="a-device-plugin-has-precedence"),
        pytest.param([node(), NIC, EVERY_GPU], None, id="network-cards-only"),
        pytest.param([node()], None, id="nothing"),
        pytest.param(
            [node(), resource_slice("n1", "a"), EVERY_GPU], [], id="gpus-of-another-driver"
        ),
    ],
)
def test_gpus_are_dra_devices_where_only_a_driver_publishes_them(
    objects: list[Any], devices: list[int] | None
) -> None:
    node_info = cluster(*objects).at("n1")
    assert node_info is not None
    gpus = node_info.dra_gpus

    assert (None if gpus is None else list(gpus.devices)) == devices
