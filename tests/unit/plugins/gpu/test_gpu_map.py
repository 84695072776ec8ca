"""Mapped pods: the map names node and devices, and every filter still applies."""

from __future__ import annotations

from typing import Any

import pytest

from scheduler.framework.pipeline import Pipeline
from scheduler.framework.settings import Settings
from scheduler.model import well_known
from scheduler.model.node import Namespace, Node
from scheduler.model.pods.pod import Pod
from scheduler.model.reasons.reason import ReasonCode, sentence
from scheduler.plugins import REASON_CODES, default_pipeline
from tests.builders import (
    ALLOW_ALL_MAPS,
    as_bound,
    cluster,
    codes,
    container,
    downward,
    literal,
    namespace,
    node,
    placed,
    pod,
    refused,
    settle,
)

LABELLED = default_pipeline()
SET = "StatefulSet/check"


def message(state: Any, newcomer: Pod, pipeline: Pipeline = ALLOW_ALL_MAPS) -> str:
    return sentence(refused(state, newcomer, pipeline).diagnosis)


# --- the seed's example --------------------------------------------------------------

SEED_MAP = "0=node1:0,1\n1=node2:2\n2=node3:0,1,2\n3=node4:3\n4=node4:3\n"


@pytest.mark.contract("S2-1", "S2-4", "S2-6", "S2-19")
@pytest.mark.parametrize("gpus", [None, 4], ids=["advertises-nothing", "numbered"])
def test_the_five_pods_of_the_seed_get_what_their_map_says(gpus: int | None) -> None:
    workers = [
        node(
            f"worker{n}",
            labels={"gpu-node-name": f"node{n}"},
            gpus=gpus,
            with_gpu_indexes=bool(gpus),
        )
        for n in range(1, 5)
    ]
    state = cluster(*workers)
    given = []
    for index in range(5):
        mapped = pod(f"check-{index}", owner=SET, map=SEED_MAP)
        placement = settle(state, mapped)
        state.upsert_pod(as_bound(placement))
        given.append((placement.node_name, placement.cuda_visible_devices, placement.index))

    assert given == [
        ("worker1", "0,1", 0),
        ("worker2", "2", 1),
        ("worker3", "0,1,2", 2),
        ("worker4", "3", 3),
        ("worker4", "3", 4),
    ]


def test_device_with_two_holders_is_free_when_both_are_gone() -> None:
    """Field case C01."""
    state = cluster(node("gpu-b", gpus=4, with_gpu_indexes=True))
    text = "3=gpu-b:3\n4=gpu-b:3"
    holders = [as_bound(settle(state, pod(f"c-{n}", owner=SET, map=text))) for n in (3, 4)]
    node_info = state.nodes.node_info["gpu-b"]

    assert node_info.free("nvidia.com/gpu") == 3
    for one in holders:
        assert node_info.free_indexes() == (0, 1, 2)
        state.upsert_pod(one)
        state.delete_pod(one.uid)
    assert node_info.free_indexes() == (0, 1, 2, 3)


@pytest.mark.contract("S2-3")
def test_the_order_of_the_map_is_the_order_of_the_value() -> None:
    placement = placed(cluster(node(gpus=4, with_gpu_indexes=True)), pod("w-0", map="0=n1:2,0"))

    assert (placement.cuda_visible_devices, placement.devices.numbers) == ("2,0", (2, 0))


# --- every reason, each from a world that shows it -----------------------------------

FOUR, COUNTED = node(gpus=4, with_gpu_indexes=True), node(gpus=4)
IN_N1: dict[str, Any] = {"map": "0=n1:0", "node": "n1", "devices": "gpu:0"}
REFUSALS: list[Any] = [
    pytest.param(
        [FOUR],
        {"map": "0=n1:0,0"},
        REASON_CODES["MAP_INVALID"],
        "0/1 nodes are available: gpu-scheduling-map line 1: device 0 is named twice: 0=n1:0,0.",
        id="bad-map",
    ),
    pytest.param(
        [FOUR],
        {"map": "1=n1:0"},
        REASON_CODES["INDEX_NOT_IN_MAP"],
        "0/1 nodes are available: gpu-scheduling-map has no line for index 0.",
        id="no-line",
    ),
    pytest.param(
        [FOUR],
        {"map": "0=gpu-z:0"},
        REASON_CODES["MAP_NODE_UNKNOWN"],
        "0/1 nodes are available: no node is named gpu-z or labelled gpu-node-name=gpu-z.",
        id="no-such-node",
    ),
    pytest.param(
        [*(node(name, labels={"gpu-node-name": "gpu-a"}) for name in ("n1", "n2"))],
        {"map": "0=gpu-a:0"},
        REASON_CODES["MAP_NODE_AMBIGUOUS"],
        "0/2 nodes are available: gpu-a of gpu-scheduling-map fits 2 nodes: n1 and n2.",
        id="two-answers",
    ),
    pytest.param(
        [FOUR],
        {"map": "0=n1:4"},
        REASON_CODES["DEVICE_NOT_FOUND"],
        "0/1 nodes are available: 1 node(s) without GPU 4 (the node has 4).",
        id="no-such-device",
    ),
    pytest.param(
        [FOUR, pod("a", gpus=1, node="n1", devices="gpu:0")],
        {"map": "0=n1:0"},
        REASON_CODES["DEVICE_HELD"],
        "0/1 nodes are available: 1 node(s) where GPU 0 is held by a pod that does not share it.",
        id="held-by-a-packed-pod",
    ),
    pytest.param(
        [node(), pod("x-0", **{**IN_N1, "owner": "StatefulSet/x"})],
        {"map": "0=n1:0"},
        REASON_CODES["DEVICE_HELD"],
        "0/1 nodes are available: 1 node(s) where GPU 0 is held by a pod that does not share it.",
        id="held-by-another-workload",
    ),
    pytest.param(
        [node(), pod("w-9", namespace="other", **IN_N1)],
        {"map": "0=n1:0"},
        REASON_CODES["DEVICE_HELD"],
        "0/1 nodes are available: 1 node(s) where GPU 0 is held by a pod that does not share it.",
        id="held-by-another-tenant-with-the-same-text",
    ),
    pytest.param(
        [FOUR, pod("a", gpus=1, node="n1")],
        {"map": "0=n1:3"},
        REASON_CODES["DEVICE_ASSIGNMENT_UNKNOWN"],
        "0/1 nodes are available: 1 node(s) run pods whose GPU indexes are unknown.",
        id="unknown-number",
    ),
    pytest.param(
        [COUNTED, pod("a", gpus=1, node="n1", scheduler="default-scheduler")],
        {"map": "0=n1:3"},
        REASON_CODES["KUBELET_ASSIGNS_DEVICES"],
        "0/1 nodes are available: 1 node(s) with kubelet-assigned GPUs run pods that request"
        " GPUs or MIG instances.",
        id="the-kubelet-picked",
    ),
    pytest.param(
        [node(gpus=4, mig={"1g.10gb": 7}), pod("a", mig={"1g.10gb": 1}, node="n1")],
        {"map": "0=n1:3"},
        REASON_CODES["KUBELET_ASSIGNS_DEVICES"],
        "0/1 nodes are available: 1 node(s) with kubelet-assigned GPUs run pods that request"
        " GPUs or MIG instances.",
        id="a-slice-of-a-card-that-we-cannot-tell",
    ),
    pytest.param(
        [
            node(gpus=4, mig={"1g.10gb": 7}, with_gpu_indexes=True),
            pod("a", mig={"1g.10gb": 1}, node="n1", devices="1g.10gb x 1"),
        ],
        {"map": "0=n1:3"},
        REASON_CODES["KUBELET_ASSIGNS_DEVICES"],
        "0/1 nodes are available: 1 node(s) with kubelet-assigned GPUs run pods that request"
        " GPUs or MIG instances.",
        id="a-slice-of-a-numbered-node-has-no-number-either",
    ),
    pytest.param(
        [FOUR],
        {"map": "0=n1:0,1", "gpus": 1},
        REASON_CODES["MAP_REQUEST_MISMATCH"],
        "0/1 nodes are available: the containers request 1 GPUs and line 0 of gpu-scheduling-map"
        " gives 2.",
        id="requests-and-map-disagree",
    ),
    pytest.param(
        [FOUR],
        {"map": "0=n1:0", "containers": [container("app", env=[literal("1")])]},
        REASON_CODES["MAP_CHANGED"],
        "0/1 nodes are available: MapChanged: container app was created with"
        " CUDA_VISIBLE_DEVICES=1 and gpu-scheduling-map now says 0; recreate the pod.",
        id="map-changed-since-admission",
    ),
    pytest.param(
        [COUNTED],
        {"map": "0=n1:0", "containers": [container(gpus=1, env=[downward()])]},
        REASON_CODES["NO_DEVICE_FOR_ENV"],
        "0/1 nodes are available: 1 node(s) with kubelet-assigned GPUs leave the annotation of"
        " a container's devices empty.",
        id="nothing-to-read-on-a-counted-node",
    ),
    pytest.param(
        [FOUR],
        {
            "map": "0=n1:0",
            "containers": [container(env=[downward(f"{well_known.CUDA_VISIBLE_DEVICES}.1")])],
        },
        REASON_CODES["NO_DEVICE_FOR_ENV"],
        "0/1 nodes are available: a container reads its devices from the annotation"
        " gpu-scheduler.io/cuda-visible-devices.1, which would stay empty.",
        id="a-share-without-a-container",
    ),
    pytest.param(
        [FOUR],
        {
            "map": "0=n1:0",
            "annotations": {well_known.CUDA_MODE: "none"},
            "containers": [container(env=[downward()])],
        },
        REASON_CODES["NO_DEVICE_FOR_ENV"],
        "0/1 nodes are available: a container reads its devices from the annotation"
        " gpu-scheduler.io/cuda-visible-devices, which would stay empty.",
        id="mode-none-gives-nothing-to-read",
    ),
    pytest.param(
        [FOUR],
        {"map": "0=n1:0", "spec": {"workloadRef": {"name": "x"}}},
        REASON_CODES["UNSUPPORTED"],
        "0/1 nodes are available: unsupported: spec.workloadRef"
        " (gpu-scheduler does not implement this yet).",
        id="unsupported-field",
    ),
]


@pytest.mark.contract("S2-9", "S2-B6")
@pytest.mark.parametrize(("objects", "fields", "code", "text"), REFUSALS)
def test_reasons_of_waiting_mapped_pods(
    objects: list[Pod | Node], fields: Any, code: ReasonCode, text: str
) -> None:
    state = cluster(*objects)
    newcomer = pod("w-0", **fields)

    assert codes(state, newcomer) == {code}
    assert message(state, newcomer) == text


def test_unmapped_nodes_are_reported_as_not_in_the_map() -> None:
    state = cluster(node("n1", gpus=1, with_gpu_indexes=True), node("n2"), node("n3"))

    assert message(state, pod("w-0", map="0=n1:7")) == (
        "0/3 nodes are available: 1 node(s) without GPU 7 (the node has 1),"
        " 2 node(s) not named by gpu-scheduling-map."
    )
    assert codes(state, pod("w-0", map="0=n1:7")) == {
        REASON_CODES["DEVICE_NOT_FOUND"],
        REASON_CODES["NOT_IN_MAP"],
    }


# --- a map narrows, it never overrides ------------------------------------------------

FILTERED: list[Any] = [
    pytest.param(
        node(taints=["nvidia.com/gpu=x:NoSchedule"]), {}, REASON_CODES["TAINT"], id="taint"
    ),
    pytest.param(node(cordoned=True), {}, REASON_CODES["NODE_UNSCHEDULABLE"], id="c16-cordon"),
    pytest.param(node(), {"selector": {"zone": "b"}}, REASON_CODES["AFFINITY"], id="selector"),
    pytest.param(
        node(memory="1Gi"), {"requests": {"memory": "2Gi"}}, REASON_CODES["INSUFFICIENT"], id="fit"
    ),
    pytest.param(node(pods=0), {}, REASON_CODES["TOO_MANY_PODS"], id="pods"),
    pytest.param(
        node(gpus=0, with_gpu_indexes=True),
        {"gpus": 1},
        REASON_CODES["INSUFFICIENT"],
        id="requested-and-not-there",
    ),
]


@pytest.mark.contract("S2-B6", "S2-B17")
@pytest.mark.parametrize(("at", "fields", "code"), FILTERED)
def test_a_mapped_pod_passes_every_filter_of_its_node(
    at: Node, fields: Any, code: ReasonCode
) -> None:
    """Field case C35."""
    assert codes(cluster(at), pod("w-0", map="0=n1:0", **fields)) == {code}


@pytest.mark.contract("S2-B17")
@pytest.mark.parametrize(
    ("pipeline", "space", "allowed"),
    [
        pytest.param(LABELLED, namespace(), False, id="not-labelled"),
        pytest.param(LABELLED, namespace(maps=True), True, id="labelled"),
        pytest.param(default_pipeline(Settings(maps_allow="all")), namespace(), True, id="all"),
        pytest.param(
            default_pipeline(Settings(maps_allow="none")), namespace(maps=True), False, id="none"
        ),
    ],
)
def test_map_permission(pipeline: Pipeline, space: Namespace, allowed: bool) -> None:
    state, mapped = cluster(node(), space), pod("w-0", map="0=n1:0")

    if allowed:
        assert placed(state, mapped, pipeline).node_name == "n1"
    else:
        assert codes(state, mapped, pipeline) == {REASON_CODES["MAP_NOT_ALLOWED"]}
        assert "(label it gpu-scheduler.io/maps=allowed)" in message(state, mapped, pipeline)


# --- sharing -------------------------------------------------------------------------


def test_siblings_share_devices_where_their_lines_do() -> None:
    holder = pod("w-0", owner=SET, map="0=n1:1\n1=n1:1", node="n1", devices="gpu:1", index=0)

    newcomer = pod("w-1", owner=SET, map="0=n1:1\n1=n1:1")
    assert placed(cluster(node(), holder), newcomer).devices.numbers == (1,)


def test_packed_sibling_shares_no_device() -> None:
    """Its template got a map only later; it holds its device for itself."""
    packed = pod("w-0", owner=SET, gpus=1, node="n1", devices="gpu:1")

    assert codes(cluster(FOUR, packed), pod("w-1", owner=SET, map="1=n1:1")) == {
        REASON_CODES["DEVICE_HELD"]
    }


def test_a_map_edited_in_a_running_set_does_not_stop_its_rollout() -> None:
    """A line added, two swapped: siblings have different texts for a while."""
    old = "0=n1:0\n1=n1:1"
    new = "0=n1:1\n1=n1:0\n2=n1:2"
    state = cluster(
        node(),
        pod("w-0", owner=SET, map=old, node="n1", devices="gpu:0", index=0),
        pod("w-1", owner=SET, map=old, node="n1", devices="gpu:1", index=1),
    )
    assert settle(state, pod("w-2", owner=SET, map=new)).devices.numbers == (2,)
    state.delete_pod("team-w-1")
    assert settle(state, pod("w-1", uid="new-1", owner=SET, map=new)).devices.numbers == (0,)
    state.delete_pod("team-w-0")
    assert settle(state, pod("w-0", uid="new-0", owner=SET, map=new)).devices.numbers == (1,)


def test_bare_pods_share_only_under_the_same_map_text() -> None:
    text = "0=n1:3\n1=n1:3"
    state = cluster(node(), pod("w-0", map=text, node="n1", devices="gpu:3", index=0))

    assert placed(state, pod("w-1", map=text)).devices.numbers == (3,)
    assert codes(state, pod("w-1", map=text + "\n2=n1:2")) == {REASON_CODES["DEVICE_HELD"]}


# --- things that change later ---------------------------------------------------------


@pytest.mark.contract("S2-B7")
@pytest.mark.parametrize(
    "later",
    [
        pytest.param(node("late"), id="the-node-appears"),
        pytest.param(node("n1", labels={"gpu-node": "late"}), id="the-label-appears"),
    ],
)
def test_mapped_node_may_appear_later(later: Node) -> None:
    state, mapped = cluster(node("n1")), pod("w-0", map="0=late:0")

    assert codes(state, mapped) == {REASON_CODES["MAP_NODE_UNKNOWN"]}
    state.upsert_node(later)
    assert placed(state, mapped).node_name == later.name


def test_cordoned_deleted_and_recreated_node() -> None:
    """Field case C16, for the mapped pod J."""
    held = pod("k", gpus=1, node="gpu-a", devices="gpu:3")
    state = cluster(node("gpu-a", gpus=4, with_gpu_indexes=True), held)
    mapped = pod("j-0", map="0=gpu-a:3")

    assert codes(state, mapped) == {REASON_CODES["DEVICE_HELD"]}
    state.upsert_node(node("gpu-a", gpus=4, with_gpu_indexes=True, cordoned=True))
    assert codes(state, mapped) == {REASON_CODES["NODE_UNSCHEDULABLE"]}
    state.delete_node("gpu-a")
    assert codes(state, mapped) == {REASON_CODES["MAP_NODE_UNKNOWN"]}
    state.upsert_node(node("gpu-a", gpus=2, with_gpu_indexes=True, uid="new"))
    assert codes(state, mapped) == {REASON_CODES["DEVICE_NOT_FOUND"]}
