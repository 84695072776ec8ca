"""The shapes of scheduler_perf: numbers, objects and the measured quantity."""

from __future__ import annotations

from collections import Counter

import msgspec
import pytest

from bench import shapes
from bench.shapes import INIT, MEASURED, OTHERS, SHAPES, Shape, Sizes
from bench.workloads import check_nodes, parse, report
from scheduler.watch.decode.objects import read_node, read_pod

SIZES = Sizes(nodes=10, pods=20)
EVERY = [pytest.param(shape, id=name) for name, shape in SHAPES.items()]


def test_shapes_are_those_that_the_documentation_names() -> None:
    assert list(SHAPES) == [
        *("basic", "node_affinity", "pod_affinity", "pod_anti_affinity", "spread"),
        *("csi_volumes", "mixed_churn", "unschedulable", "gated", "preemption"),
    ]
    assert {name for name, shape in SHAPES.items() if shape.goal != 2} == {"preemption"}


@pytest.mark.parametrize("shape", EVERY)
def test_every_object_of_a_shape_has_a_path_and_a_name_of_its_own(shape: Shape) -> None:
    sent = [
        *shapes.nodes(shape, SIZES),
        *shapes.claims(shape, SIZES),
        *shapes.init_pods(shape, SIZES, "s"),
        *shapes.waiting_pods(shape, SIZES, "s"),
        *shapes.measured_pods(shape, SIZES, "s"),
    ]

    names = Counter((one.path, one.body["metadata"]["name"]) for one in sent)

    assert names.most_common(1)[0][1] == 1
    assert {one.method for one in sent} == {"POST"}


@pytest.mark.parametrize("shape", EVERY)
def test_measured_pods_have_no_node_and_init_pods_have_one(shape: Shape) -> None:
    nodes = {one.body["metadata"]["name"] for one in shapes.nodes(shape, SIZES)}
    init = list(shapes.init_pods(shape, SIZES, "s"))
    measured = list(shapes.measured_pods(shape, SIZES, "s"))

    assert len(init) == shape.init(SIZES)
    assert 0 < len(measured) == shape.measured(SIZES)
    assert all(one.body["spec"]["nodeName"] in nodes for one in init)
    assert not any("nodeName" in one.body["spec"] for one in measured)
    assert {one.body["spec"]["schedulerName"] for one in measured} == {"s"}


@pytest.mark.parametrize("shape", EVERY)
def test_objects_of_a_shape_are_readable_by_the_scheduler(shape: Shape) -> None:
    for one in shapes.nodes(shape, SIZES):
        if one.path == "/api/v1/nodes":
            assert not read_node(msgspec.json.encode(one.body)).unread
    for one in shapes.measured_pods(shape, SIZES, "s"):
        body = {**one.body, "metadata": one.body["metadata"] | {"uid": "u", "namespace": "n"}}
        assert not read_pod(msgspec.json.encode(body)).unread


def test_measured_pods_fit_beside_the_init_pods() -> None:
    sizes = Sizes(nodes=1000, pods=2000)

    anti, preemption = SHAPES["pod_anti_affinity"], SHAPES["preemption"]

    assert anti.measured(sizes) + anti.init(sizes) == sizes.nodes
    assert (preemption.init(sizes), preemption.measured(sizes)) == (4000, 1000)


def test_claims_name_their_volume_and_the_volume_its_claim() -> None:
    volume, claim, *rest = shapes.claims(SHAPES["csi_volumes"], Sizes(nodes=1, pods=2))

    reference = volume.body["spec"]["claimRef"]
    assert claim.body["spec"]["volumeName"] == volume.body["metadata"]["name"]
    assert reference == {"namespace": INIT, "name": claim.body["metadata"]["name"]}
    assert len(rest) == 2 * (1 + 2) - 2


def test_churn_deletes_each_object_that_it_creates() -> None:
    during = SHAPES["mixed_churn"].during
    assert during is not None
    requests = [request for request, _ in zip(during(SIZES, "s", 7), range(12), strict=False)]

    created = [
        f"{one.path}/{one.body['metadata']['name']}" for one in requests if one.method == "POST"
    ]
    deleted = [one.path.partition("?")[0] for one in requests if one.method == "DELETE"]

    assert created == deleted
    assert len(set(created)) == 6


def test_gated_shape_deletes_its_init_pods() -> None:
    gated = SHAPES["gated"]
    assert gated.during is not None
    paths = [one.path.partition("?")[0] for one in gated.during(SIZES, "s", 1)]

    init = shapes.init_pods(gated, SIZES, "s")
    assert paths == [f"{one.path}/{one.body['metadata']['name']}" for one in init]
    assert f"/namespaces/{OTHERS}/" in next(shapes.waiting_pods(gated, SIZES, "s")).path


@pytest.mark.parametrize(
    ("begun", "bound", "rate"),
    [
        pytest.param(0.0, [0.0, 1.0, 2.0], 1.0, id="first-write-is-a-binding"),
        pytest.param(0.0, [4.0, 5.0], 0.4, id="first-write-is-a-deletion"),
        pytest.param(1.0, [1.0, 1.0, 3.0, 2.0], 1.0, id="any-order"),
    ],
)
def test_throughput_is_bindings_after_the_first_write_per_second(
    begun: float, bound: list[float], rate: float
) -> None:
    assert shapes.throughput(begun, bound) == rate


@pytest.mark.parametrize("bound", [pytest.param([], id="none"), pytest.param([1.0], id="one")])
def test_throughput_of_too_few_bindings_is_an_error(bound: list[float]) -> None:
    with pytest.raises(ValueError, match="too few"):
        shapes.throughput(0.0, bound)


def test_node_with_too_many_measured_pods_fails_the_round() -> None:
    anti = SHAPES["pod_anti_affinity"]
    check_nodes(anti, {"a": "n1", "b": "n2"})

    with pytest.raises(RuntimeError, match="2 measured pods on n1; 1 fit"):
        check_nodes(anti, {"a": "n1", "b": "n1"})


def test_report_has_the_smallest_ratio_and_the_missed_goals() -> None:
    figures = {"basic": {"ratio": 3.1, "goal": 2.0}, "preemption": {"ratio": 1.2, "goal": 1.0}}

    good = report(figures, {})
    bad = report(figures | {"spread": {"ratio": 1.9, "goal": 2.0}}, {"gated": "no Binding"})

    assert (good["min_ratio"], good["not_reached"]) == (1.2, [])
    assert good["ratios"] == {"basic": 3.1, "preemption": 1.2}
    assert (bad["min_ratio"], bad["not_reached"]) == (0.0, ["spread", "gated"])
    assert bad["failed"] == {"gated": "no Binding"}


def test_command_line_chooses_shapes_and_names_an_unknown_one(
    capsys: pytest.CaptureFixture[str],
) -> None:
    options = parse(["--shapes", "spread, basic"])

    assert [shape.name for shape in options.shapes] == ["spread", "basic"]
    assert len(parse([]).shapes) == len(SHAPES)
    with pytest.raises(SystemExit):
        parse(["--shapes", "round"])
    assert "no shape round; there are basic, node_affinity" in capsys.readouterr().err
    assert MEASURED in next(shapes.measured_pods(options.shapes[0], SIZES, "s")).path
