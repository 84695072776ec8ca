"""The objects of the benchmark of groups, its count of racks, and the last line."""

from __future__ import annotations

import msgspec
import pytest

from bench.gang import objects
from bench.gang.__main__ import QUICK, parse, report
from bench.gang.domains import Domains
from bench.gang.plan import KINDS, empty_cluster, members, planned
from bench.load import Request
from scheduler.watch.decode.objects import read_pod

SIZE = 3
OURS = list(objects.our_group("bench", "s", SIZE))
KUBERNETES = list(objects.kubernetes_group("bench", "s", SIZE))


def pods(sent: list[Request]) -> list[Request]:
    return [one for one in sent if one.path.endswith("/pods")]


@pytest.mark.parametrize("sent", [OURS, KUBERNETES], ids=["ours", "kubernetes"])
def test_group_has_members_with_one_gpu_and_names_of_their_own(sent: list[Request]) -> None:
    bodies = [one.body for one in pods(sent)]

    limits = [body["spec"]["containers"][0]["resources"]["limits"] for body in bodies]
    assert len({body["metadata"]["name"] for body in bodies}) == SIZE
    assert limits == [{"nvidia.com/gpu": "1"}] * SIZE
    assert {body["spec"]["schedulerName"] for body in bodies} == {"s"}


def test_members_of_our_group_start_together() -> None:
    for one in OURS:
        body = {**one.body, "metadata": one.body["metadata"] | {"uid": "u", "namespace": "bench"}}
        read = read_pod(msgspec.json.encode(body))

        assert read.gang is not None
        assert (read.gang.key.name, read.gang.minimum) == (objects.NAME, SIZE)
        assert objects.PREFERRED not in read.annotations


def test_preferred_level_is_an_annotation_of_the_members() -> None:
    sent = objects.our_group("bench", "s", SIZE, objects.RACK)

    marks = [one.body["metadata"]["annotations"][objects.PREFERRED] for one in sent]

    assert marks == [objects.RACK] * SIZE


def test_group_of_kubernetes_exists_before_its_members() -> None:
    [group, *rest] = KUBERNETES

    assert group.path == objects.groups_path("bench")
    assert group.body["spec"] == {"schedulingPolicy": {"gang": {"minCount": SIZE}}}
    named = {one.body["spec"]["schedulingGroup"]["podGroupName"] for one in pods(rest)}
    assert named == {group.body["metadata"]["name"]}


def test_racks_are_of_nearly_one_size() -> None:
    racks = [one.labels[objects.RACK] for one in objects.nodes(2 * objects.RACKS + 1)]

    assert sorted(map(racks.count, set(racks))) == [2] * (objects.RACKS - 1) + [3]


def test_domains_of_a_group_are_compared_with_the_fewest_possible() -> None:
    domains = Domains({"a": "r1", "b": "r1", "c": "r2", "d": "r3"}, 2)

    assert domains.least(4) == 1
    assert domains.take(["a", "c", "d"]) == 3
    assert domains.least(3) == 1
    assert domains.least(4) == 2
    assert domains.take(["a", "b", "b"]) == 1
    with pytest.raises(RuntimeError, match="lacks 1 devices"):
        domains.least(3)


def test_last_line_has_the_ratio_of_the_medians() -> None:
    def rounds(*seconds: float) -> list[dict[str, float]]:
        return [{"seconds": one, "domains_to_least": one} for one in seconds]

    both = {"ours": rounds(1, 9, 2), "kube_scheduler": rounds(5, 3, 1)}
    plain = report(both)
    with_level = report({**both, "topology": rounds(3, 2, 1)})

    assert (plain["ours_s"], plain["kube_scheduler_s"], plain["ratio"]) == (2, 3, 1.5)
    assert "domains_to_least" not in plain
    assert (with_level["topology_to_ours"], with_level["domains_to_least"]) == (1, 2)


def test_last_line_has_no_ratio_without_the_other_scheduler() -> None:
    alone = report({"ours": [{"seconds": 2.0}]})

    assert (alone["ours_s"], "ratio" in alone) == (2, False)


def test_quick_form_has_smaller_numbers() -> None:
    usual, quick = parse([]), parse(["--quick"])

    assert (usual.nodes, usual.members, usual.rounds) == (500, 512, 5)
    assert {name: getattr(quick, name) for name in QUICK} == QUICK


def test_level_without_a_label_on_the_nodes_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        parse(["--topology", "zone"])

    assert "the nodes have the labels example.com/rack" in capsys.readouterr().err


def test_plan_of_the_micro_benchmark_leaves_the_cluster_as_it_was() -> None:
    cluster = empty_cluster(2)

    nodes = [
        {one.node_name for one in planned(cluster, members(KINDS["one_gpu"], 8))[1].placements}
        for _ in range(2)
    ]

    assert nodes == [{"node-00000"}] * 2 or len(nodes[0] | nodes[1]) == 1
    assert not cluster.pods
