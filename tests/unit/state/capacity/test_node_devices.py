"""The devices of one node: how many are held, free and failed, and who holds them."""

from __future__ import annotations

from typing import Any

import pytest

from scheduler.model.well_known import DRA_DRIVER
from scheduler.state.capacity.node_devices import (
    DeviceAmount,
    Holder,
    NodeDevices,
    devices_of,
    requested_by,
    slice_size,
)
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

MIG_CAPACITY = {"nvidia.com/gpu": "8"}
FAILED = {"gpu-scheduler.io/unusable-devices": "1,3"}
SHARES = {"nvidia.com/gpu.replicas": "4", "nvidia.com/gpu.count": "2"}


def seen(*objects: Any) -> NodeDevices:
    """The devices of node n1 in this cluster."""
    state = cluster(*objects)
    node_info = state.at("n1")
    assert node_info is not None
    return devices_of(node_info, state.dra)


def amounts(*numbers: int) -> DeviceAmount:
    """total, held, free, failed."""
    return DeviceAmount(*numbers)


@pytest.mark.parametrize(
    ("objects", "expected", "drawn"),
    [
        pytest.param(
            (node("n1", gpus=8), pod("a", gpus=3, node="n1")),
            {"gpu": amounts(8, 3, 5)},
            "###.....",
            id="counted-gpus",
        ),
        pytest.param(
            (node("n1", gpus=6, capacity=MIG_CAPACITY), pod("a", gpus=1, node="n1")),
            {"gpu": amounts(8, 1, 5, 2)},
            "#.....FF",
            id="the-plugin-reports-two-unhealthy-gpus",
        ),
        pytest.param(
            (
                node("n1", gpus=2, with_gpu_indexes=True, annotations=FAILED),
                pod("a", gpus=1, node="n1", devices="gpu:2"),
            ),
            {"gpu": amounts(4, 1, 1, 2)},
            ".F#F",
            id="numbered-gpus-by-index",
        ),
        pytest.param(
            (
                node("n1", gpus=1, with_gpu_indexes=True, labels={"nvidia.com/gpu.count": "4"}),
                pod("a", gpus=2, node="n1", devices="gpu:0,1"),
            ),
            {"gpu": amounts(4, 2, 0)},
            "##..",
            id="the-plugin-advertises-fewer-than-pods-have",
        ),
        pytest.param(
            (
                node("n1"),
                pod("a", map="0=n1:0,1", owner="ReplicaSet/r", node="n1", devices="gpu:0,1"),
            ),
            {"gpu": amounts(2, 2, 0)},
            "##",
            id="mapped-without-a-count",
        ),
        pytest.param(
            (
                node("n1", mig={"1g.10gb": 4, "2g.20gb": 1}),
                pod("a", mig={"1g.10gb": 1}, node="n1"),
                pod("b", mig={"2g.20gb": 1}, node="n1"),
            ),
            {"1g.10gb": amounts(4, 1, 3), "2g.20gb": amounts(1, 1, 0)},
            "",
            id="static-mig",
        ),
        pytest.param(
            (node("n1", gpus=8, labels=SHARES), pod("a", gpus=1, node="n1")),
            {"gpu.shared": amounts(8, 1, 7)},
            "",
            id="time-slicing",
        ),
        pytest.param(
            (node("n1", gpus=8, cordoned=True), pod("a", gpus=1, node="n1")),
            {"gpu": amounts(8, 1, 0)},
            "#+++++++",
            id="cordoned",
        ),
        pytest.param(
            (
                node(
                    "n1",
                    gpus=8,
                    taints=["node.kubernetes.io/unreachable:NoExecute"],
                ),
            ),
            {"gpu": amounts(8, 0, 0)},
            "++++++++",
            id="unreachable",
        ),
        pytest.param((node("n1"),), {}, "", id="no-gpus"),
    ],
)
def test_devices_of_a_plugin_or_a_map(
    objects: tuple[Any, ...], expected: dict[str, DeviceAmount], drawn: str
) -> None:
    found = seen(*objects)

    assert (found.devices, found.gpus) == (expected, drawn)


def test_dynamic_mig_counts_how_many_of_each_profile_alone_would_fit() -> None:
    found = seen(
        dynamic("n1", gpus=3),
        pod("a", mig={"3g.40gb": 1}, node="n1", devices="3g.40gb@0/4"),
        GpusInBackoff(node_name="n1", gpus=(2,)),
    )

    assert found.gpus == "+.F"
    assert found.devices["3g.40gb"] == amounts(4, 1, 3)
    assert found.devices["7g.80gb"] == amounts(1, 0, 1)
    assert found.largest_free == ("7g.80gb", 1)


@pytest.mark.parametrize(
    ("made", "largest"),
    [
        pytest.param(node("n1", gpus=4, mig={"3g.40gb": 2}), ("gpu", 4), id="whole-gpus-first"),
        pytest.param(
            node("n1", mig={"1g.10gb": 9, "3g.40gb": 1}), ("3g.40gb", 1), id="largest-slice"
        ),
        pytest.param(node("n1", gpus=0), ("", 0), id="nothing"),
        pytest.param(node("n1", gpus=4, cordoned=True), ("", 0), id="cordoned"),
    ],
)
def test_largest_free_block(made: Any, largest: tuple[str, int]) -> None:
    assert seen(made).largest_free == largest


def test_holders_have_their_devices_and_namespaces_the_sums() -> None:
    found = seen(
        node("n1", gpus=8, with_gpu_indexes=True),
        pod("a", gpus=2, node="n1", devices="gpu:0,5"),
        pod("b", gpus=1, node="n1", namespace="research"),
        pod("c", node="n1"),
    )

    assert found.holders == (
        Holder(namespace="team", pod="a", devices={"gpu": 2}, indexes=(0, 5)),
        Holder(namespace="research", pod="b", devices={"gpu": 1}),
    )
    assert found.by_namespace == {"team": {"gpu": 2}, "research": {"gpu": 1}}


# --- DRA ---------------------------------------------------------------------------------------


def partitions() -> Any:
    """One GPU of NVIDIA's driver with two halves, which share its two slices."""
    counters = {f"slice-{at}": {"value": "1"} for at in range(2)}

    def part(name: str, profile: str, *slices: int) -> Any:
        used = {f"slice-{at}": {"value": "1"} for at in slices}
        attributes = {"profile": {"string": profile}} if profile else {}
        return device_json(
            name,
            attributes=attributes,
            consumesCounters=[{"counterSet": "card", "counters": used}],
        )

    devices = [
        part("gpu-0", "", 0, 1),
        part("gpu-0-mig-0", "3g.40gb", 0),
        part("gpu-0-mig-1", "3g.40gb", 1),
    ]
    card = [{"name": "card", "counters": counters}]
    return [
        resource_slice(
            "n1", driver=DRA_DRIVER, name="a", slices=2, nodeName="n1", sharedCounters=card
        ),
        resource_slice("n1", *devices, driver=DRA_DRIVER, name="b", slices=2),
    ]


def held(device: str, *users: str, name: str = "mine") -> Any:
    """A claim that has a device of NVIDIA's driver on n1."""
    given = allocation_json(result_json(device, driver=DRA_DRIVER))
    return resource_claim(name, allocation=given, users=users)


def test_held_partition_takes_its_card_and_leaves_the_other_half() -> None:
    found = seen(
        node("n1"),
        *partitions(),
        held("gpu-0-mig-0", "a"),
        pod("a", node="n1", spec=claiming("mine")),
    )

    assert found.devices == {"gpu": amounts(1, 0, 0), "3g.40gb": amounts(2, 1, 1)}
    assert found.holders == (Holder(namespace="team", pod="a", devices={"3g.40gb": 1}),)
    assert found.largest_free == ("3g.40gb", 1)


def test_claim_of_two_pods_counts_once_for_their_namespace() -> None:
    found = seen(
        node("n1"),
        resource_slice("n1", "gpu-0", "gpu-1", driver=DRA_DRIVER),
        held("gpu-1", "a", "b"),
        pod("a", node="n1", spec=claiming("mine")),
        pod("b", node="n1", spec=claiming("mine")),
    )

    assert found.devices == {"gpu": amounts(2, 1, 1)}
    assert [holder.pod for holder in found.holders] == ["a", "b"]
    assert found.by_namespace == {"team": {"gpu": 1}}


def test_tainted_device_has_failed() -> None:
    found = seen(
        node("n1"),
        resource_slice("n1", "gpu-0", "gpu-1", driver=DRA_DRIVER),
        taint_rule(device="gpu-0"),
    )

    assert found.devices == {"gpu": amounts(2, 0, 1, 1)}


@pytest.mark.parametrize(
    ("made", "expected"),
    [
        pytest.param(pod("a", gpus=2), {"gpu": 2}, id="gpus"),
        pytest.param(pod("a", mig={"1g.10gb": 1}), {"1g.10gb": 1}, id="slice"),
        pytest.param(pod("a", spec=claiming("mine")), {"claim": 1}, id="claim"),
        pytest.param(pod("a"), {}, id="nothing"),
    ],
)
def test_what_a_pod_requests(made: Any, expected: dict[str, int]) -> None:
    assert requested_by(made) == expected


def test_profile_with_digits_of_another_alphabet_has_no_size() -> None:
    assert slice_size("²g.5gb") == (0, 5)
