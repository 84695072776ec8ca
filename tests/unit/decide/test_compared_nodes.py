"""Pods whose feasible nodes are compared with each other by kube-scheduler's scores."""

from __future__ import annotations

from typing import Any

import pytest

from scheduler.framework.settings import Settings
from scheduler.plugins import default_pipeline
from tests.best_node import PACKING
from tests.builders import cluster, node, placed, pod
from tests.dra import device_json, resource_slice

CPU = {"cpu": "1", "memory": "1Gi"}
Json = dict[str, Any]


def term(key: str = "zone", weight: int = 100) -> Json:
    selector = {"matchLabels": {"app": "web"}}
    return {"weight": weight, "podAffinityTerm": {"labelSelector": selector, "topologyKey": key}}


def preferred(kind: str, *terms: Json) -> Json:
    return {"affinity": {kind: {"preferredDuringSchedulingIgnoredDuringExecution": list(terms)}}}


def test_pod_without_gpu_goes_to_the_node_with_most_left() -> None:
    nodes: list[Any] = [
        node("full", cpu="8"),
        node("empty", cpu="8"),
        pod("a", node="full", requests=CPU),
    ]

    assert placed(cluster(*nodes), pod(requests=CPU)).node_name == "empty"
    assert placed(cluster(*nodes), pod(requests=CPU), PACKING).node_name == "full"


def test_pod_without_gpu_keeps_away_from_devices() -> None:
    nodes: list[Any] = [node("gpus", gpus=4, cpu="64"), node("plain", cpu="8")]

    assert placed(cluster(*nodes), pod(requests=CPU)).node_name == "plain"


@pytest.mark.parametrize("pipeline", [None, PACKING], ids=["balanced", "pack"])
def test_pod_without_gpu_keeps_away_from_a_node_with_full_gpus(pipeline: Any) -> None:
    """Its CPU belongs to the pods that hold the GPUs, and to those that get them next."""
    nodes: list[Any] = [
        node("a-gpus", gpus=4, cpu="64"),
        node("plain", cpu="64"),
        pod("holder", node="a-gpus", gpus=4),
        pod("other", node="plain", requests=CPU),
    ]
    given = placed(cluster(*nodes), pod(requests=CPU), *([pipeline] if pipeline else []))

    assert given.node_name == "plain"


#: A pod that makes a node the worse one by cpu and memory.
HEAVY = pod("other", node="plain", requests={"cpu": "32", "memory": "64Gi"})


@pytest.mark.parametrize(
    "device",
    [
        pytest.param(device_json("gpu-0"), id="gpu"),
        pytest.param(
            device_json("gpu-0-mig-0", attributes={"profile": {"string": "1g.10gb"}}), id="mig"
        ),
    ],
)
def test_pod_without_gpu_keeps_away_from_gpus_of_a_dra_driver(device: Any) -> None:
    """No DeviceClass has an extended resource: the node advertises none."""
    nodes: list[Any] = [
        node("a-gpus", cpu="64"),
        node("plain", cpu="64"),
        resource_slice("a-gpus", device, driver="gpu.nvidia.com"),
        HEAVY,
    ]

    assert placed(cluster(*nodes), pod(requests=CPU)).node_name == "plain"


def test_devices_of_another_driver_are_no_gpus() -> None:
    nodes: list[Any] = [
        node("a-nics", cpu="64"),
        node("plain", cpu="64"),
        resource_slice("a-nics", "nic-0", driver="nic.example.com"),
        HEAVY,
    ]

    assert placed(cluster(*nodes), pod(requests=CPU)).node_name == "a-nics"


def test_pod_without_gpu_uses_a_gpu_node_where_no_other_has_room() -> None:
    nodes: list[Any] = [node("gpus", gpus=4, cpu="64"), node("plain", cpu="500m")]

    assert placed(cluster(*nodes), pod(requests=CPU)).node_name == "gpus"


def test_pod_without_gpu_evens_out_cpu_and_memory() -> None:
    busy = {"cpu": "4", "memory": "1Gi"}
    nodes: list[Any] = [
        *(node(name, cpu="8", memory="8Gi") for name in ("a", "b")),
        pod("x", node="a", requests={"cpu": "1", "memory": "4Gi"}),
        pod("y", node="b", requests=busy),
    ]

    assert placed(cluster(*nodes), pod(requests=busy)).node_name == "a"


@pytest.mark.parametrize(
    ("kind", "name"), [("podAffinity", "b"), ("podAntiAffinity", "a")], ids=["near", "away"]
)
@pytest.mark.parametrize("asks", [{"requests": CPU}, {"gpus": 1}], ids=["cpu", "gpu"])
def test_preferred_pod_terms_choose_among_feasible_nodes(kind: str, name: str, asks: Json) -> None:
    nodes: list[Any] = [
        node("a", labels={"zone": "a"}, gpus=2),
        node("b", labels={"zone": "b"}, gpus=2),
        pod("web", node="b", labels={"app": "web"}),
    ]

    assert placed(cluster(*nodes), pod(spec=preferred(kind, term()), **asks)).node_name == name


def test_preference_of_a_gpu_pod_comes_before_best_fit() -> None:
    nodes: list[Any] = [
        node("tight", labels={"zone": "a"}, gpus=1),
        node("wide", labels={"zone": "b"}, gpus=8),
        pod("web", node="wide", labels={"app": "web"}),
    ]
    spec = preferred("podAffinity", term())

    assert placed(cluster(*nodes), pod(gpus=1)).node_name == "tight"
    assert placed(cluster(*nodes), pod(gpus=1, spec=spec)).node_name == "wide"


def test_placed_pods_preference_draws_the_pods_that_it_names() -> None:
    nodes: list[Any] = [
        node("a", labels={"zone": "a"}, gpus=1),
        node("b", labels={"zone": "b"}, gpus=8),
        pod("first", node="b", spec=preferred("podAffinity", term())),
    ]

    assert placed(cluster(*nodes), pod(gpus=1, labels={"app": "web"})).node_name == "b"


@pytest.mark.parametrize(
    ("selector", "name"),
    [
        pytest.param({"matchLabels": {"app": "web"}}, "b", id="fewest-pods"),
        pytest.param({}, "a", id="empty-selector-counts-no-pod"),
    ],
)
def test_soft_spread_prefers_the_domain_with_the_fewest_pods(selector: Json, name: str) -> None:
    constraint = {
        "topologyKey": "zone",
        "maxSkew": 1,
        "whenUnsatisfiable": "ScheduleAnyway",
        "labelSelector": selector,
    }
    nodes: list[Any] = [
        node("a", labels={"zone": "a"}, gpus=1),
        node("b", labels={"zone": "b"}, gpus=8),
        *(pod(f"web-{number}", node="a", labels={"app": "web"}) for number in range(2)),
    ]
    spec = {"topologySpreadConstraints": [constraint]}

    assert placed(cluster(*nodes), pod(gpus=1, spec=spec)).node_name == name


def test_soft_spread_counts_pods_on_nodes_whose_taints_compare() -> None:
    pipeline = default_pipeline(Settings(compare_numbers=True))
    constraint = {
        "topologyKey": "zone",
        "maxSkew": 1,
        "whenUnsatisfiable": "ScheduleAnyway",
        "nodeTaintsPolicy": "Honor",
        "labelSelector": {"matchLabels": {"app": "web"}},
    }
    nodes: list[Any] = [
        node("a", labels={"zone": "a"}, gpus=1, taints=["load=5:NoSchedule"]),
        node("b", labels={"zone": "b"}, gpus=1),
        *(pod(f"web-{number}", node="a", labels={"app": "web"}) for number in range(2)),
        pod("web-b", node="b", labels={"app": "web"}),
    ]
    toleration = {"key": "load", "operator": "Gt", "value": "4"}
    spec = {"topologySpreadConstraints": [constraint]}
    newcomer = pod(gpus=1, spec=spec, tolerations=[toleration])

    assert placed(cluster(*nodes), newcomer, pipeline).node_name == "b"


def test_nominated_node_is_taken_before_a_better_one() -> None:
    nodes: list[Any] = [node("tight", gpus=1), node("wide", gpus=8)]

    assert placed(cluster(*nodes), pod(gpus=1, nominated="wide")).node_name == "wide"
    assert placed(cluster(*nodes), pod(gpus=1, nominated="gone")).node_name == "tight"


def test_best_fit_for_every_pod_is_a_setting() -> None:
    pipeline = default_pipeline(Settings(non_gpu="pack"))
    nodes: list[Any] = [node("small", cpu="8"), node("large", cpu="64")]

    assert placed(cluster(*nodes), pod(requests=CPU), pipeline).node_name == "small"
