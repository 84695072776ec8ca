"""The demo's verdict: a cell that differs is named with what was expected and what was seen."""

from __future__ import annotations

import pytest

from gpuctl.simulate.input import simulate
from gpuctl.simulate.manifests import Document, read
from scheduler.config import Config, Maps
from tests.unit.gpuctl.cli import MIG_1G, MIG_2G, Json, node, pod, spec, workload
from tools.demo.expectations import NAMES, Line, Workloads, differences, expected, scenario_file
from tools.demo.observer import look

VISIBLE = "gpu-scheduler.io/cuda-visible-devices"
PLACED = Line(pods="a", node="n1", tier="2g.20gb", devices="2g.20gb x 1", cuda=None)
WAITING = Line(pods="web", count=3, tier="gpu", reason="Insufficient nvidia.com/gpu")


@pytest.mark.parametrize("name", NAMES)
def test_the_simulator_ends_where_the_demo_is_expected_to(name: str) -> None:
    """What is written down by hand, what is simulated and what runs are three things."""
    documents = read([str(scenario_file(name))])

    report = simulate(documents, Config(maps=Maps(allow="all")))

    assert differences(expected(name).lines, Workloads(documents).lines(report.rows)) == []


@pytest.mark.parametrize(
    ("wanted", "seen", "cells"),
    [
        pytest.param([PLACED], [PLACED], [], id="as-expected"),
        pytest.param(
            [PLACED],
            [Line(pods="a", node="n2", tier="2g.20gb", devices="2g.20gb x 1")],
            ["a, NODE: expected n1, seen n2"],
            id="another-node",
        ),
        pytest.param(
            [Line(pods="a-0", node="n1", cuda="0,1")],
            [Line(pods="a-0", node="n1")],
            ["a-0, CUDA_VISIBLE_DEVICES: expected 0,1, seen nothing"],
            id="no-environment",
        ),
        pytest.param([PLACED], [], ["a, PODS: expected 1, seen 0"], id="a-pod-is-missing"),
        pytest.param(
            [],
            [PLACED],
            ["a on n1 (2g.20gb), PODS: expected 0, seen 1"],
            id="a-pod-too-many",
        ),
        pytest.param(
            [Line(pods="web", count=2, node="n1", tier="gpu"), WAITING],
            [Line(pods="web", count=1, node="n1", tier="gpu"), Line(pods="web", node="n2")],
            [
                "web on n1 (gpu), PODS: expected 2, seen 1",
                "web on nothing (gpu), PODS: expected 3, seen 0",
                "web on n2 (), PODS: expected 0, seen 1",
            ],
            id="another-split",
        ),
        pytest.param(
            [WAITING],
            [Line(pods="web", count=3, tier="gpu", reason="0/1 nodes are available: 1 busy.")],
            [
                "web on nothing (gpu), reason: expected Insufficient nvidia.com/gpu, seen"
                " 0/1 nodes are available: 1 busy."
            ],
            id="another-reason",
        ),
    ],
)
def test_a_differing_cell_is_named(wanted: list[Line], seen: list[Line], cells: list[str]) -> None:
    assert differences(wanted, seen) == cells


def test_pods_that_look_alike_are_one_line_in_the_order_of_the_input() -> None:
    raws = [workload("Deployment", "web", spec()), workload("Deployment", "web-2", spec())]
    workloads = Workloads([Document(place="f: document 1", raw=raw) for raw in raws])
    live = [
        live_pod("web-2-abc-x"),
        live_pod("web-abc-z", node_name=""),
        live_pod("web-abc-y"),
        live_pod("web-abc-x"),
    ]

    lines = workloads.lines(look([], live).rows)

    assert [(line.pods, line.count, line.node) for line in lines] == [
        ("web", 2, "n1"),
        ("web", 1, None),
        ("web-2", 1, "n1"),
    ]


def live_pod(name: str, node_name: str = "n1", wanted: Json | None = None, **meta: Json) -> Json:
    raw = pod(name, {**(wanted or spec()), "nodeName": node_name}, namespace="default", **meta)
    return {**raw, "metadata": {**raw["metadata"], "uid": name}}


def test_a_degraded_pod_is_seen_with_what_it_asked_for() -> None:
    fallen = live_pod(
        "a",
        wanted=spec(MIG_1G, 1),
        annotations={
            "gpu-webhook.k8s.io/fallback": "2g.20gb->1g.10gb",
            "gpu-scheduler.io/devices": "1g.10gb x 1",
        },
    )

    (row,) = look([node("n1", mig_1g=1)], [fallen]).rows

    assert (row.requested, row.granted, row.devices) == ({MIG_2G: 1}, {MIG_1G: 1}, "1g.10gb x 1")


@pytest.mark.parametrize(
    ("env", "seen"),
    [
        pytest.param([], None, id="a-value-that-no-container-gets"),
        pytest.param([{"name": "CUDA_VISIBLE_DEVICES", "value": "2"}], "2", id="a-literal"),
        pytest.param(
            [
                {
                    "name": "CUDA_VISIBLE_DEVICES",
                    "valueFrom": {
                        "fieldRef": {"fieldPath": f"metadata.annotations['{VISIBLE}']"},
                    },
                }
            ],
            "2",
            id="read-from-the-annotation",
        ),
    ],
)
def test_the_environment_is_what_the_containers_get(env: list[Json], seen: str | None) -> None:
    wanted = spec()
    wanted["containers"][0]["env"] = env
    annotated = {VISIBLE: "2"}

    (row,) = look([node("n1")], [live_pod("a-0", wanted=wanted, annotations=annotated)]).rows

    assert row.cuda_visible_devices == seen


def test_a_waiting_pod_is_seen_with_the_sentence_of_its_condition() -> None:
    waiting = live_pod("a", node_name="")
    waiting["status"] = {
        "conditions": [
            {"type": "PodScheduled", "status": "False", "message": "0/1 nodes are available."}
        ]
    }

    (row,) = look([node("n1")], [waiting]).rows

    assert (row.node, row.reason) == (None, "0/1 nodes are available.")
