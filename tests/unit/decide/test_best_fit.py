"""Packed pods: the node with the fewest leftovers, the lowest free devices, the ordinary rules."""

from __future__ import annotations

from typing import Any

import pytest

from scheduler.decide.schedule_one import place
from scheduler.decide.view import WhatIfView
from scheduler.framework.settings import Settings
from scheduler.model import well_known
from scheduler.model.gpu.device import Devices
from scheduler.model.node import Node
from scheduler.model.pods.pod import Pod
from scheduler.model.reasons.reason import sentence
from scheduler.plugins import REASON_CODES, default_pipeline
from scheduler.plugins.node_resources_fit import leftover
from tests.builders import (
    ALLOW_ALL_MAPS,
    PodFields,
    as_bound,
    cluster,
    codes,
    container,
    downward,
    node,
    placed,
    pod,
    refused,
    settle,
)

SPREAD = default_pipeline(Settings(placement="spread"))
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"


def prefers(weight: int, zone: str) -> dict[str, Any]:
    expressions = [{"key": "zone", "operator": "In", "values": [zone]}]
    wish = {"weight": weight, "preference": {"matchExpressions": expressions}}
    return {"affinity": {"nodeAffinity": {PREFERRED: [wish]}}}


BEST: list[Any] = [
    pytest.param(
        [node("big", gpus=8), node("small", gpus=2), node("mid", gpus=4)],
        {"gpus": 2},
        "small",
        id="exactly-full",
    ),
    pytest.param(
        [node("big", gpus=8), node("small", gpus=2), node("mid", gpus=4)],
        {"gpus": 3},
        "mid",
        id="the-fewest-left-over",
    ),
    pytest.param(
        [node("a", gpus=2, mig={"1g.10gb": 7}), node("b", gpus=2)],
        {"gpus": 1},
        "b",
        id="other-devices-are-left-for-pods-that-need-them",
    ),
    pytest.param(
        [node("mixed", mig={"1g.10gb": 4, "2g.20gb": 12}), node("only", mig={"1g.10gb": 28})],
        {"mig": {"1g.10gb": 1}},
        "mixed",
        id="fewest-of-the-asked-tier-first",
    ),
    pytest.param(
        [node("gpu", gpus=4), node("plain", cpu="64")], {}, "plain", id="no-gpu-goes-where-none-is"
    ),
    pytest.param(
        [node("b", gpus=2, cpu="8"), node("a", gpus=2, cpu="9")], {"gpus": 1}, "b", id="then-cpu"
    ),
    pytest.param([node("b", gpus=2), node("a", gpus=2)], {"gpus": 1}, "a", id="then-the-name"),
    pytest.param(
        [node("a", gpus=1), node("b", gpus=8, labels={"zone": "z"})],
        {"gpus": 1, "spec": prefers(1, "z")},
        "b",
        id="a-preference-comes-before-the-fit",
    ),
    pytest.param(
        [node("a", gpus=1, taints=["x:PreferNoSchedule"]), node("b", gpus=8)],
        {"gpus": 1},
        "b",
        id="an-unwelcome-taint-too",
    ),
]


@pytest.mark.parametrize(("nodes", "fields", "name"), BEST)
def test_best_fit_chooses_the_fullest_node(nodes: list[Node], fields: PodFields, name: str) -> None:
    assert placed(cluster(*nodes), pod(**fields)).node_name == name


@pytest.mark.contract("S4-21")
def test_spreading_takes_the_emptiest_node() -> None:
    state = cluster(node("big", gpus=8), node("small", gpus=2), node("mid", gpus=4))

    assert placed(state, pod(gpus=1), SPREAD).node_name == "big"


@pytest.mark.contract("S4-21")
def test_pods_fill_one_node_before_the_next() -> None:
    state = cluster(node("a", gpus=4), node("b", gpus=4))

    assert [settle(state, pod(f"p{n}", gpus=1)).node_name for n in range(4)] == ["a"] * 4
    assert settle(state, pod("large", gpus=4)).node_name == "b"


def test_the_lowest_free_indexes_of_a_numbered_node_are_given() -> None:
    state = cluster(
        node(gpus=4, with_gpu_indexes=True), pod("a", gpus=1, node="n1", devices="gpu:1")
    )
    placement = settle(state, pod("b", gpus=2))

    assert placement.devices == Devices(numbers=(0, 2))
    assert placement.cuda_visible_devices == "0,2"
    state.upsert_pod(as_bound(placement))
    assert settle(state, pod("c", gpus=1)).devices.numbers == (3,)


def test_kubelet_assigned_node_gives_a_count_without_indexes() -> None:
    placement = placed(cluster(node(gpus=4, mig={"1g.10gb": 7})), pod(gpus=2, mig={"1g.10gb": 1}))

    assert placement.devices == Devices(counts=(("gpu", 2), ("1g.10gb", 1)))
    assert (placement.cuda_visible_devices, placement.index) == (None, None)


def test_containers_get_their_share_of_the_devices() -> None:
    shared = pod(
        init=[container("prep", gpus=2)],
        containers=[container("a", gpus=1), container("b", gpus=1)],
    )
    placement = placed(cluster(node(gpus=4, with_gpu_indexes=True)), shared)

    assert (placement.cuda_visible_devices, placement.shares) == ("0,1", ("0,1", "0", "1"))


def test_pod_without_devices_must_not_read_the_annotation() -> None:
    state = cluster(node(gpus=4, with_gpu_indexes=True), node("c", gpus=4))

    assert codes(state, pod(containers=[container(env=[downward()])])) == {
        REASON_CODES["NO_DEVICE_FOR_ENV"]
    }
    reader = pod(containers=[container(gpus=1, env=[downward()])])
    assert placed(state, reader).node_name == "n1"


def test_pod_without_cpu_request_fits_an_overcommitted_node() -> None:
    """Allocatable shrank below what runs; a pod without a cpu request is still welcome."""
    full = pod("a", requests={"cpu": "3"}, node="n1")

    assert placed(cluster(node(gpus=1, cpu="2"), full), pod(gpus=1)).node_name == "n1"
    assert placed(cluster(node(cpu="2"), full), pod()).node_name == "n1"


@pytest.mark.contract("S2-B6")
def test_pods_of_other_schedulers_hold_their_devices() -> None:
    """Field case C11."""
    other = pod("other", gpus=1, node="gpu-b", scheduler="default-scheduler")
    state = cluster(node("gpu-b", gpus=1), other)

    assert codes(state, pod(gpus=1)) == {REASON_CODES["INSUFFICIENT"]}


def test_cordoned_deleted_and_recreated_node() -> None:
    """Field case C16, for the packed pod L."""
    held = pod("k", gpus=1, node="gpu-a", devices="gpu:3")
    state = cluster(node("gpu-a", gpus=4, with_gpu_indexes=True), held)
    packed = pod("l", gpus=1)

    state.upsert_node(node("gpu-a", gpus=4, with_gpu_indexes=True, cordoned=True))
    assert codes(state, packed) == {REASON_CODES["NODE_UNSCHEDULABLE"]}
    state.upsert_node(node("gpu-a", gpus=4, with_gpu_indexes=True, taints=["not-ready:NoExecute"]))
    assert codes(state, packed) == {REASON_CODES["TAINT"]}
    state.delete_node("gpu-a")
    assert codes(state, packed) == {REASON_CODES["NO_NODES"]}
    state.upsert_node(node("gpu-a", gpus=2, with_gpu_indexes=True, uid="new"))
    assert settle(state, packed).devices.numbers == (0,)
    assert codes(state, pod("m", gpus=1)) == {REASON_CODES["INSUFFICIENT"]}
    state.delete_pod(held.uid)
    assert settle(state, pod("m", gpus=1)).devices.numbers == (1,)


ZOO = node(
    "zoo",
    gpus=8,
    mig={"1g.10gb": 7, "1g.10gb.me": 1},
    offers={
        "nvidia.com/vgpu": "80",
        "nvidia.com/gpu.shared": "16",
        "amd.com/gpu": "2",
        "gpu.intel.com/i915": "4",
        "example.com/mygpu": "5",
    },
)


@pytest.mark.parametrize(
    ("requests", "given"),
    [
        pytest.param({"nvidia.com/gpu": 9}, None, id="nine-of-eight"),
        pytest.param({"nvidia.com/mig-1g.10gb": 8}, None, id="the-look-alike-is-another"),
        pytest.param({"amd.com/gpu": 1}, (), id="amd"),
        pytest.param({"amd.com/gpu": 3}, None, id="amd-counted"),
        pytest.param({"gpu.intel.com/i915": 4}, (), id="intel"),
        pytest.param({"example.com/mygpu": 1}, (), id="unknown-vendor"),
        pytest.param({"nvidia.com/vgpu": 80}, (("vgpu", 80),), id="vgpu"),
        pytest.param({"nvidia.com/gpu.shared": 2}, (("gpu.shared", 2),), id="shares"),
        pytest.param({"nvidia.com/gpu.shared": 17}, None, id="shares-counted"),
        pytest.param({"gpu.intel.com/xe": 1}, None, id="not-offered"),
    ],
)
def test_resources_are_counted_by_exact_name_and_written_on_the_pod(
    requests: dict[str, int], given: tuple[tuple[str, int], ...] | None
) -> None:
    """Field case C31."""
    state, asking = cluster(ZOO), pod(requests=requests)

    if given is not None:
        placement = placed(state, asking)
        assert (placement.devices, placement.cuda_visible_devices) == (Devices((), given), None)
    else:
        assert codes(state, asking) == {REASON_CODES["INSUFFICIENT"]}


def ordinary() -> list[Node | Pod]:
    """Field case C35's nodes."""
    busy = [{"containerPort": 1, "hostPort": 8080}]
    return [
        node("gpu-a", gpus=2, taints=["nvidia.com/gpu=x:NoSchedule"], memory="64Gi"),
        pod("busy", node="gpu-a", ports=busy),
        node(
            "gpu-b", gpus=2, memory="1Gi", labels={"kubernetes.io/hostname": "b.internal.example"}
        ),
        node("gpu-c", gpus=2, taints=["maint:NoSchedule"]),
    ]


TOLERATES = [{"key": "nvidia.com/gpu", "operator": "Exists"}]
FIELD: list[Any] = [
    pytest.param(
        {"tolerations": TOLERATES, "requests": {"memory": "32Gi"}}, "gpu-a", id="tolerates"
    ),
    pytest.param({"requests": {"memory": "2Gi"}}, None, id="memory"),
    pytest.param(
        {
            "tolerations": TOLERATES,
            "requests": {"memory": "2Gi"},
            "ports": [{"containerPort": 1, "hostPort": 8080}],
        },
        None,
        id="port-taken",
    ),
    pytest.param(
        {
            "tolerations": TOLERATES,
            "requests": {"memory": "2Gi"},
            "ports": [{"containerPort": 1, "hostPort": 8080, "protocol": "UDP"}],
        },
        "gpu-a",
        id="the-other-protocol",
    ),
    pytest.param(
        {"selector": {"kubernetes.io/hostname": "gpu-b"}}, None, id="host-is-not-node-name"
    ),
    pytest.param(
        {
            "spec": {
                "affinity": {
                    "nodeAffinity": {
                        REQUIRED: {
                            "nodeSelectorTerms": [
                                {
                                    "matchFields": [
                                        {
                                            "key": "metadata.name",
                                            "operator": "In",
                                            "values": ["gpu-b"],
                                        }
                                    ]
                                }
                            ]
                        }
                    }
                }
            }
        },
        "gpu-b",
        id="daemonset",
    ),
]


@pytest.mark.contract("S2-B6")
@pytest.mark.parametrize(("fields", "name"), FIELD)
def test_ordinary_scheduling_rules_hold(fields: Any, name: str | None) -> None:
    """Field case C35."""
    state, asking = cluster(*ordinary()), pod(gpus=1, **fields)

    if name is None:
        refused(state, asking)
    else:
        assert placed(state, asking).node_name == name


def test_unsupported_fields_are_refused() -> None:
    hard = pod(spec={"workloadRef": {"name": "w", "podGroup": "g"}})

    assert sentence(refused(cluster(node()), hard).diagnosis) == (
        "0/1 nodes are available: unsupported: spec.workloadRef"
        " (gpu-scheduler does not implement this yet)."
    )


def test_every_node_is_explained() -> None:
    state = cluster(
        node("a", gpus=1), pod("x", gpus=1, node="a"), node("b", cordoned=True), node("c", gpus=0)
    )
    rejection = refused(state, pod(gpus=1))

    assert set(rejection.diagnosis.nodes) == {"a", "b", "c"}
    assert sentence(rejection.diagnosis) == (
        "0/3 nodes are available: 1 node(s) were unschedulable,"
        " 2 Insufficient nvidia.com/gpu (need 1; best node has 0 free)."
    )


@pytest.mark.parametrize(
    ("asking", "left"),
    [
        pytest.param(pod(gpus=1, requests={"cpu": "2"}), (3, 7, 30_000), id="asked-others-cpu"),
        pytest.param(pod(mig={"1g.10gb": 7}), (0, 4, 32_000), id="slices"),
        pytest.param(pod(), (0, 11, 32_000), id="nothing-asked"),
    ],
)
def test_score_by_leftover_gpus(asking: Pod, left: tuple[int, ...]) -> None:
    node_info = cluster(node(gpus=4, mig={"1g.10gb": 7})).nodes.node_info["n1"]

    assert leftover(asking, node_info) == left


@pytest.mark.contract("S4-9")
@pytest.mark.parametrize(
    ("at", "fields", "dislike"),
    [
        pytest.param(node(), {}, 0, id="indifferent"),
        pytest.param(node(labels={"zone": "z"}), {"spec": prefers(30, "z")}, -30, id="liked"),
        pytest.param(node(labels={"zone": "y"}), {"spec": prefers(30, "z")}, 0, id="not-this-one"),
        pytest.param(node(taints=["a:PreferNoSchedule"]), {}, 100, id="unwelcome"),
        pytest.param(
            node(taints=["a:PreferNoSchedule"]),
            {"tolerations": [{"operator": "Exists"}]},
            0,
            id="tolerated",
        ),
        pytest.param(node(taints=["a:NoSchedule"]), {}, 0, id="hard-taints-are-a-filters-affair"),
    ],
)
def test_soft_preferences(at: Node, fields: PodFields, dislike: int) -> None:
    assert ALLOW_ALL_MAPS.soft_penalty(pod(**fields), at) == dislike


def test_what_if_view_leaves_the_cluster_unchanged() -> None:
    state = cluster(
        node("a", gpus=2, with_gpu_indexes=True), node("b", gpus=4, with_gpu_indexes=True)
    )
    tried = WhatIfView(state)
    for number in range(2):
        one = pod(f"p{number}", gpus=1)
        placement = placed(tried, one)
        assert placement.devices.numbers == (number,)
        tried.place(one, placement.node_name, placement.devices)
    tried.place(pod("lost"), "no-such-node", None)

    assert placed(tried, pod("q", gpus=1)).node_name == "b"
    assert placed(state, pod("q", gpus=1)).node_name == "a"
    assert state.nodes.node_info["a"].free(well_known.GPU) == 2
    assert tried.at("no-such-node") is None


def test_pod_that_every_node_rejected_takes_the_room_of_a_removed_one() -> None:
    """``place`` gives no diagnosis, and trusts the last one of the pod's class."""
    holder = pod("holder", gpus=2, node="a", devices="0,1")
    state = cluster(node("a", gpus=2, with_gpu_indexes=True), holder)
    newcomer = pod("q", gpus=1)
    assert place(state, newcomer, ALLOW_ALL_MAPS) is None
    assert codes(state, newcomer)
    tried = WhatIfView(state)

    tried.remove(holder.uid, "a")

    found = place(tried, newcomer, ALLOW_ALL_MAPS)
    assert found is not None
    assert found.node_name == "a"
    assert place(state, newcomer, ALLOW_ALL_MAPS) is None
