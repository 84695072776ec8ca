"""Allocated and free capacity of dynamic MIG GPUs."""

from __future__ import annotations

from typing import Any

import pytest

from scheduler.model.crd.mig_partition import MigInstance, NodePartitions, PartitionState
from scheduler.model.gpu.device import MigPlacement
from scheduler.model.pods.pod import Pod
from scheduler.model.reasons.reason import RequeueCause
from scheduler.state import event as ev
from scheduler.state.mig.dynamic_gpus import BLOCKED, DynamicGpus
from scheduler.state.node_info import NodeInfo
from tests.builders import cluster, cut, dynamic, node, pod


def gpus_of(*objects: Any) -> DynamicGpus:
    node_info = cluster(*objects).at("n1")
    assert isinstance(node_info, NodeInfo)
    assert node_info.gpus is not None
    return node_info.gpus


def held(name: str, devices: str | None, **fields: Any) -> Any:
    annotation = {} if devices is None else {"devices": devices}
    return pod(name, **{"mig": {"2g.20gb": 1}, "node": "n1", **annotation, **fields})


def test_annotation_gives_held_instances_with_placements() -> None:
    found = gpus_of(
        dynamic(gpus=2),
        held("a", "2g.20gb@0/4"),
        held("b", "2g.20gb@1/0; 1g.10gb@1/6", mig={"2g.20gb": 1, "1g.10gb": 1}),
    )

    assert found.held == ((("2g.20gb", 4),), (("2g.20gb", 0), ("1g.10gb", 6)))
    assert found.free_slices == 11


def test_unheld_instance_is_idle_and_blocks_no_pod() -> None:
    found = gpus_of(dynamic(), held("a", "2g.20gb@0/4"), cut("n1", "2g.20gb@0/4", "1g.10gb@0/0"))

    assert found.idle == (frozenset({("1g.10gb", 0)}),)
    assert found.left["nvidia.com/mig-4g.40gb"] == 1


UNREADABLE = [
    pytest.param([held("a", None)], id="nothing-is-written"),
    pytest.param([held("a", "2g.20gb x 1")], id="a-count"),
    pytest.param([held("a", "somewhere")], id="not-a-form"),
    pytest.param([held("a", "2g.20gb@0/4", scheduler="other")], id="a-pod-of-another-scheduler"),
    pytest.param([held("a", "2g.20gb@9/4")], id="a-gpu-that-is-not-there"),
    pytest.param([held("a", "2g.20gb@0/4", mig={"2g.20gb": 2})], id="fewer-than-requested"),
    pytest.param([held("a", "1g.10gb@0/4")], id="another-profile-than-requested"),
]


@pytest.mark.parametrize("pods", UNREADABLE)
def test_an_instance_of_unknown_place_holds_the_node(pods: list[Any]) -> None:
    """Without a word of the operator it may be anywhere."""
    assert gpus_of(dynamic(gpus=2), *pods).held == (BLOCKED, BLOCKED)


def test_instance_without_placement_may_be_any_idle_one() -> None:
    found = gpus_of(
        dynamic(gpus=3), held("a", None), cut("n1", "2g.20gb@0/4", "2g.20gb@1/0", "1g.10gb@2/0")
    )

    assert found.held == ((("2g.20gb", 4),), (("2g.20gb", 0),), ())
    assert found.idle == (frozenset(), frozenset(), frozenset({("1g.10gb", 0)}))


def test_two_of_unknown_place_and_one_instance_known_hold_the_node() -> None:
    found = gpus_of(dynamic(), held("a", None), held("b", None), cut("n1", "2g.20gb@0/4"))

    assert found.held == (BLOCKED,)


CONTRADICTIONS = [
    pytest.param(["2g.20gb@0/4", "2g.20gb@0/4"], id="one-instance-twice"),
    pytest.param(["2g.20gb@0/1"], id="no-legal-start"),
    pytest.param(["9g.90gb@0/0"], id="no-profile-of-the-board"),
    pytest.param(["3g.40gb@0/0", "2g.20gb@0/2"], id="overlapping"),
]


@pytest.mark.parametrize("texts", CONTRADICTIONS)
def test_impossible_layout_blocks_its_gpu_only(texts: list[str]) -> None:
    pods = [
        held(f"p-{number}", text, mig={text.partition("@")[0]: 1})
        for number, text in enumerate(texts)
    ]

    assert gpus_of(dynamic(gpus=2), *pods).held == (BLOCKED, ())


def test_pod_bypassing_the_plugin_holds_its_gpus() -> None:
    mapped = pod("a-0", map="0=n1:1", node="n1", devices="gpu:1", index=0)

    assert gpus_of(dynamic(gpus=2), mapped).held == ((), BLOCKED)


def test_gpu_in_backoff_is_not_used() -> None:
    state = cluster(dynamic(gpus=2))
    state.nodes.set_gpu_backoff("n1", frozenset({0}))
    node_info = state.at("n1")

    assert node_info is not None
    assert node_info.gpus is not None
    assert node_info.gpus.held == (BLOCKED, ())


def test_only_ready_instances_exist() -> None:
    cuts = NodePartitions(
        "n1",
        instances=(
            MigInstance(MigPlacement(0, 4, "2g.20gb"), PartitionState.PENDING),
            MigInstance(MigPlacement(0, 0, "2g.20gb"), PartitionState.FAILED),
            MigInstance(MigPlacement(7, 0, "2g.20gb")),
        ),
    )

    assert gpus_of(dynamic(), cuts).idle == (frozenset(),)


def test_free_capacity_is_counted_per_profile() -> None:
    left = gpus_of(dynamic(gpus=2), held("a", "2g.20gb@0/4")).left

    assert {name.removeprefix("nvidia.com/mig-"): n for name, n in left.items() if n} == {
        **{"1g.10gb": 12, "1g.10gb.me": 2, "1g.20gb": 7, "2g.20gb": 5},
        **{"3g.40gb": 3, "4g.40gb": 2, "7g.80gb": 1},
    }


def test_profile_names_of_other_drivers_are_equal() -> None:
    left = gpus_of(dynamic(product="NVIDIA-GB200")).left

    assert left["nvidia.com/mig-1g.24gb"] == left["nvidia.com/mig-1g.23gb"] == 7


NOT_DYNAMIC = [
    pytest.param(node("n1", mig={"1g.10gb": 7}), id="no-label"),
    pytest.param(dynamic(product="Tesla-T4"), id="a-board-without-mig"),
    pytest.param(dynamic(gpus=0), id="no-gpus"),
    pytest.param(dynamic(labels={"nvidia.com/gpu.count": "many"}), id="no-number"),
    pytest.param(dynamic(offers={"nvidia.com/gpu": "1"}), id="a-gpu-is-offered-whole"),
]


@pytest.mark.parametrize("one", NOT_DYNAMIC)
def test_other_nodes_are_not_dynamic(one: Any) -> None:
    node_info = cluster(one).at("n1")

    assert node_info is not None
    assert node_info.gpus is None


def test_partition_status_is_kept_for_a_later_node() -> None:
    assert gpus_of(cut("n1", "1g.10gb@0/0"), dynamic()).idle == (frozenset({("1g.10gb", 0)}),)


@pytest.mark.parametrize(
    "holder",
    [
        pytest.param(pod("a", node="n1", gpus=1), id="a-gpu"),
        pytest.param(pod("a", node="n1", mig={"2g.20gb": 1}), id="a-slice"),
        pytest.param(pod("a", node="n1", map="0=n1:0"), id="by-a-map-without-a-request"),
    ],
)
def test_ended_pod_on_dynamic_gpus_may_help_every_waiting_pod(holder: Pod) -> None:
    """Whatever its allocation was before the node became a dynamic MIG node."""
    state = cluster(dynamic("n1"), holder)

    changes = state.delete_pod(holder.uid)

    assert ev.ClusterEvent(RequeueCause.FREED, node_name="n1", what=frozenset()) in changes
