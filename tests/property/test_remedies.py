"""A remedy that ``gpuctl why`` shows works: with its edits the simulator starts the pod there."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpuctl.simulate.input import Report, simulate
from gpuctl.simulate.manifests import Document
from scheduler.config import Config, Maps
from scheduler.decide.remedy.edit import EditKind
from scheduler.decide.remedy.outlook import CanStart, Outlook
from scheduler.model.pods.pod import Pod
from tests.builders import pod_json
from tests.questions import explain_now, outlook
from tests.remedies import applied

Json = dict[str, Any]
GPU, MEMORY = "nvidia.com/gpu", "nvidia.com/gpu.memory"
CONFIG = msgspec.structs.replace(Config(), maps=Maps(allow="all"))
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
NEAR_X = [{"labelSelector": {"matchLabels": {"app": "x"}}, "topologyKey": "zone"}]
EVENLY = {**NEAR_X[0], "maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule"}
IN_ZONE_C = {"matchExpressions": [{"key": "zone", "operator": "In", "values": ["c"]}]}
AFFINITIES: tuple[Json, ...] = (
    {"affinity": {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": [IN_ZONE_C]}}}},
    {"affinity": {"podAffinity": {REQUIRED: NEAR_X}}},
    {"affinity": {"podAntiAffinity": {REQUIRED: NEAR_X}}},
    {"topologySpreadConstraints": [EVENLY]},
    {"workloadRef": {"name": "x"}},
)
PORT = [{"containerPort": 1, "hostPort": 80}]


def node(name: str, amounts: Mapping[str, int], **fields: Any) -> Json:
    offered = {"cpu": fields.get("cpu", "16"), "memory": "64Gi", "pods": fields.get("pods", "110")}
    offered |= {resource: str(count) for resource, count in amounts.items()}
    taints = [
        {"key": key, "value": "x", "effect": "NoSchedule"} for key in fields.get("taints", ())
    ]
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": fields.get("labels", {})},
        "spec": {"unschedulable": fields.get("cordoned", False), "taints": taints},
        "status": {"allocatable": offered, "capacity": offered},
    }


def created(name: str = "p", **fields: Any) -> Json:
    """A pod as its author writes it."""
    made = pod_json(name, **fields)
    del made["metadata"]["uid"], made["metadata"]["creationTimestamp"], made["status"]
    del made["spec"]["nodeName"], made["spec"]["priority"]
    return made


def mostly(usual: Any, *others: Any) -> st.SearchStrategy[Any]:
    """The usual value in about four of five cases."""
    return st.sampled_from([usual] * (4 * len(others)) + list(others))


@st.composite
def nodes(draw: st.DrawFn, name: str) -> Json:
    amounts = draw(
        st.sampled_from(
            [{GPU: 4}, {GPU: 2}, {}, {"nvidia.com/mig-1g.10gb": 2, "nvidia.com/mig-3g.40gb": 1}]
        )
    )
    labels = {"zone": draw(st.sampled_from("ab")), "disk": draw(st.sampled_from(["ssd", "hdd"]))}
    labels |= draw(st.sampled_from([{}, {MEMORY: "24564"}, {MEMORY: "81559"}]))
    return node(
        name,
        amounts,
        labels=labels,
        taints=draw(mostly((), ("gpu",), ("gpu", "team"))),
        cordoned=draw(mostly(False, True)),
        cpu=draw(mostly("16", "2")),
        pods=draw(mostly("110", "1")),
    )


@st.composite
def running(draw: st.DrawFn, name: str, on: str) -> Json:
    return pod_json(
        name,
        namespace=draw(st.sampled_from(["team", "other"])),
        node=on,
        phase="Running",
        labels=draw(mostly({}, {"app": "x"})),
        gpus=draw(st.sampled_from([0, 1, 2])),
        requests={"cpu": draw(st.sampled_from(["1", "2"]))},
        spec=draw(mostly({}, AFFINITIES[2])),
        ports=draw(mostly([], PORT)),
    )


@st.composite
def pending(draw: st.DrawFn) -> Json:
    asks: Json = draw(
        st.sampled_from(
            [
                *({"gpus": count} for count in (1, 2, 3, 4, 8)),
                {"mig": {"3g.40gb": 2}},
                {"mig": {"1g.10gb": 3}},
                {"requests": {"cpu": "4", GPU: 1}},
                {"requests": {"cpu": "20"}},
                {"annotations": {"gpu-scheduler.io/gpu-memory": "40Gi"}},
                {"annotations": {"gpu-scheduler.io/gpu-memory": "200Gi"}},
                {"map": "0=n0:0,1"},
                {"map": "0=n9:0", "gpus": 1},
            ]
        )
    )
    return created(
        "p-0",
        labels=draw(mostly({}, {"app": "x"}, {"app": "x", "tier": "y"})),
        selector=draw(mostly({}, {"disk": "ssd"}, {"disk": "nvme", "zone": "c"})),
        spec=draw(mostly({}, *AFFINITIES)),
        **asks,
        ports=draw(mostly([], PORT)),
    )


@st.composite
def worlds(draw: st.DrawFn) -> tuple[list[Json], Json]:
    names = [f"n{at}" for at in range(draw(st.integers(1, 3)))]
    documents = [draw(nodes(name)) for name in names]
    count = draw(st.integers(0, 3))
    pods = [draw(running(f"r{at}", draw(st.sampled_from(names)))) for at in range(count)]
    return [*documents, *pods], draw(pending())


def simulated(documents: list[Json]) -> Report:
    read = [Document(place=f"world:{at}", raw=one) for at, one in enumerate(documents)]
    return simulate(read, CONFIG, "team")


def expected_of(report: Report) -> tuple[Pod, Outlook]:
    [waiting] = [one for one in report.cluster.pods.values() if one.name == "p-0"]
    pipeline = CONFIG.pipeline()
    outcome = explain_now(report.cluster, waiting, pipeline)
    return waiting, outlook(report.cluster, waiting, pipeline, outcome)


def check(documents: list[Json], pod: Json) -> Outlook | None:
    """Apply each remedy; None for a pod that starts, or is refused at admission."""
    report = simulated([*documents, pod])
    [row] = [one for one in report.rows if one.pod == "p-0"]
    if row.node is not None or (row.reason or "").startswith("refused at admission"):
        return None
    _, expected = expected_of(report)
    for remedy in expected.remedies:
        others, changed = applied(documents, pod, remedy.edits)
        rows = simulated([*others, changed]).rows
        [after] = [one for one in rows if one.pod == "p-0"]
        assert after.node == remedy.node, (remedy, after.reason)
    return expected


@settings(max_examples=300)
@given(worlds())
def test_every_remedy_starts_the_pod_on_the_node_it_names(world: tuple[list[Json], Json]) -> None:
    check(*world)


@settings(max_examples=300)
@given(worlds())
def test_pod_that_can_never_start_does_not_start_on_empty_nodes(
    world: tuple[list[Json], Json],
) -> None:
    documents, pod = world
    report = simulated([*documents, pod])
    [row] = [one for one in report.rows if one.pod == "p-0"]
    if row.node is None and not (row.reason or "").startswith("refused at admission"):
        _, expected = expected_of(report)
        if expected.can_start is CanStart.NEVER:
            empty = [one for one in documents if one["kind"] == "Node"]
            assert simulated([*empty, pod]).rows[0].node is None


FULL = [node("n1", {GPU: 4}), pod_json("r", node="n1", gpus=3, phase="Running")]
TWO_ZONES = [node("n1", {}, labels={"zone": "a"}), pod_json("x", node="n1", labels={"app": "x"})]


@pytest.mark.parametrize(
    ("documents", "pod", "kinds"),
    [
        pytest.param(
            FULL, {"gpus": 2}, {EditKind.REQUEST, EditKind.DELETE_POD}, id="fewer-or-own-pod"
        ),
        pytest.param(
            [node("n1", {}), node("n2", {}, cpu="40")],
            {"requests": {"cpu": "50"}},
            {EditKind.REQUEST},
            id="less-cpu",
        ),
        pytest.param(
            [node("n1", {"nvidia.com/mig-1g.10gb": 2})],
            {"mig": {"3g.40gb": 1}},
            {EditKind.REPLACE},
            id="another-profile",
        ),
        pytest.param(
            [node("n1", {GPU: 2}, taints=["gpu", "team"])],
            {"gpus": 1},
            {EditKind.TOLERATE},
            id="tolerate",
        ),
        pytest.param(
            [node("n1", {GPU: 2}, cordoned=True)], {"gpus": 1}, {EditKind.UNCORDON}, id="uncordon"
        ),
        pytest.param(
            [node("n1", {GPU: 2})],
            {"gpus": 1, "selector": {"disk": "ssd"}},
            {EditKind.SELECTOR},
            id="drop-a-selector",
        ),
        pytest.param(
            [node("n1", {GPU: 2})], {"spec": AFFINITIES[0]}, {EditKind.REMOVE}, id="node-affinity"
        ),
        pytest.param(
            [node("n1", {}, labels={"zone": "a"})],
            {"spec": AFFINITIES[1]},
            {EditKind.REMOVE},
            id="pod-affinity",
        ),
        pytest.param(TWO_ZONES, {"spec": AFFINITIES[2]}, {EditKind.REMOVE}, id="anti-affinity"),
        pytest.param(
            [TWO_ZONES[0], pod_json("y", node="n1", spec=AFFINITIES[2])],
            {"labels": {"app": "x"}},
            {EditKind.LABEL},
            id="anti-affinity-of-another-pod",
        ),
        pytest.param(
            [*TWO_ZONES, node("n2", {}, labels={"zone": "b"}, cordoned=True)],
            {"labels": {"app": "x"}, "spec": AFFINITIES[3]},
            {EditKind.SPREAD, EditKind.UNCORDON},
            id="spread",
        ),
        pytest.param(
            [node("n1", {}), pod_json("y", node="n1", ports=PORT)],
            {"ports": PORT},
            {EditKind.REMOVE},
            id="host-port",
        ),
        pytest.param(
            [node("n1", {GPU: 1}, labels={MEMORY: "81559"})],
            {"annotations": {"gpu-scheduler.io/gpu-memory": "200Gi"}},
            {EditKind.ANNOTATE},
            id="smaller-gpu-memory",
        ),
        pytest.param(
            [node("n1", {GPU: 1})],
            {"map": "0=n9:0", "gpus": 1},
            {EditKind.ANNOTATE},
            id="request-instead-of-a-map",
        ),
        pytest.param(
            [node("n1", {GPU: 2})],
            {"map": "0=n9:0,1"},
            {EditKind.ANNOTATE, EditKind.REQUEST},
            id="request-added-for-a-map",
        ),
        pytest.param(
            [node("n1", {GPU: 2})],
            {"spec": {"workloadRef": {"name": "x"}}},
            {EditKind.REMOVE},
            id="unsupported-field",
        ),
        pytest.param(
            [node("n1", {}, pods="1"), pod_json("y", node="n1")],
            {},
            {EditKind.DELETE_POD},
            id="too-many-pods",
        ),
    ],
)
def test_remedies_of_each_kind_are_found(
    documents: list[Json], pod: Json, kinds: set[EditKind]
) -> None:
    expected = check(documents, created("p-0", **pod))

    assert expected is not None
    assert {edit.kind for remedy in expected.remedies for edit in remedy.edits} == kinds
