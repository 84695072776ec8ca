"""Plans that make room for an instance: the fewest pods, the fewest slices, the first GPU."""

from __future__ import annotations

from typing import Any

import pytest

from scheduler.decide.migration.defrag import Plan, plan
from scheduler.model.gpu.device import MigPlacement, format_devices
from scheduler.model.pods.pod import Pod
from tests.builders import ALLOW_ALL_MAPS, cluster, dynamic, node, pod

#: Ten minutes after pods of these tests were created.
NOW = 1_795_774_200.0


def held(name: str, where: str, **fields: Any) -> Pod:
    node_name, _, text = where.rpartition(":")
    mig = {text.partition("@")[0]: 1}
    return pod(name, **{"mig": mig, "node": node_name or "n1", "devices": text, **fields})


def found(*objects: Any, profile: str, moves_max: int = 1, **options: Any) -> Plan | None:
    newcomer = pod("new", mig={profile: 1})
    state = cluster(*objects)
    return plan(state, newcomer, ALLOW_ALL_MAPS, moves_max=moves_max, now=NOW, **options)


def told(one: Plan | None) -> tuple[str, list[str]] | None:
    if one is None:
        return None
    moves = [
        f"{move.pod.name}: {move.source} -> {move.node_name} {format_devices(move.devices)}"
        for move in one.moves
    ]
    return f"{one.node_name} {one.mig_placement}", moves


def test_blocking_pod_relocates_to_another_gpu() -> None:
    nodes = [dynamic("n1"), dynamic("n2")]
    there = [held("a", "n1:2g.20gb@0/0"), held("b", "n2:3g.40gb@0/0"), held("c", "n2:2g.20gb@0/4")]

    assert told(found(*nodes, *there, profile="7g.80gb")) is None
    assert told(found(*nodes, *there[:2], held("c", "n2:1g.20gb@0/6"), profile="7g.80gb")) == (
        "n1 7g.80gb@0/0",
        ["a: 2g.20gb@0/0 -> n2 2g.20gb@0/4"],
    )


def test_the_pod_may_also_move_on_its_own_gpu() -> None:
    assert told(found(dynamic(), held("a", "2g.20gb@0/2"), profile="4g.40gb")) == (
        "n1 4g.40gb@0/0",
        ["a: 2g.20gb@0/2 -> n1 2g.20gb@0/4"],
    )


def test_fewer_pods_come_before_fewer_slices() -> None:
    """Two 1g on the one, a 3g on the other: the 3g is one restart."""
    nodes = [dynamic("n1"), dynamic("n2"), dynamic("n3")]
    there = [
        *(held("a", "n1:1g.10gb@0/0"), held("b", "n1:1g.10gb@0/4")),
        *(held("c", "n2:3g.40gb@0/0"), held("d", "n3:4g.40gb@0/0")),
    ]

    one = found(*nodes, *there, profile="7g.80gb", moves_max=2)

    assert told(one) == ("n2 7g.80gb@0/0", ["c: 3g.40gb@0/0 -> n3 3g.40gb@0/4"])


def test_smaller_of_equally_many_pods_relocate() -> None:
    nodes = [dynamic("n1"), dynamic("n2"), dynamic("n3")]
    there = [
        *(held("a", "n1:3g.40gb@0/0"), held("b", "n2:1g.10gb@0/0")),
        held("c", "n3:4g.40gb@0/0"),
    ]

    one = found(*nodes, *there, profile="7g.80gb")

    assert one is not None
    assert [move.pod.name for move in one.moves] == ["b"]


def test_more_than_one_restart_only_where_that_is_allowed() -> None:
    there = [held("a", "n1:1g.10gb@0/0"), held("b", "n1:1g.10gb@0/4")]
    objects = [dynamic("n1"), dynamic("n2"), *there, held("c", "n2:4g.40gb@0/0")]

    assert found(*objects, profile="7g.80gb") is None
    two = found(*objects, profile="7g.80gb", moves_max=2)
    assert two is not None
    assert two.restarts == 2


def test_the_cost_is_the_work_since_the_pod_began_at_its_share() -> None:
    """Ten minutes on two of seven compute slices."""
    one = found(dynamic(), held("a", "2g.20gb@0/2"), profile="4g.40gb")

    assert one is not None
    assert one.restarts == 1
    assert one.gpu_minutes == pytest.approx(10 * 2 / 7)


def test_fitting_request_needs_no_relocation() -> None:
    assert told(found(dynamic(), profile="4g.40gb")) == ("n1 4g.40gb@0/0", [])


NONE = [
    pytest.param([dynamic(), held("a", "4g.40gb@0/0")], id="too-few-slices-in-all"),
    pytest.param([node("n1", mig={"1g.10gb": 7})], id="no-node-that-cuts-to-order"),
    pytest.param(
        [dynamic(), pod("a", mig={"1g.10gb": 2}, node="n1", devices="1g.10gb@0/0; 1g.10gb@0/4")],
        id="a-pod-with-several-instances-stays",
    ),
    pytest.param([dynamic(), held("a", "1g.10gb@0/0", devices="x")], id="unknown-holder"),
]


@pytest.mark.parametrize("objects", NONE)
def test_impossible_request_has_no_plan(objects: list[Any]) -> None:
    assert found(*objects, profile="7g.80gb") is None


def test_a_pod_that_may_not_move_stays() -> None:
    objects = [dynamic(), held("a", "2g.20gb@0/2")]

    assert found(*objects, profile="4g.40gb", may_move=lambda one: one.name != "a") is None


def test_shortage_of_another_resource_has_no_plan() -> None:
    """The slices could be had, the processors not."""
    state = cluster(dynamic(cpu="4"), held("a", "2g.20gb@0/2", requests={"cpu": "2"}))
    newcomer = pod("new", mig={"4g.40gb": 1}, requests={"cpu": "3"})

    assert plan(state, newcomer, ALLOW_ALL_MAPS) is None


def test_planning_changes_nothing() -> None:
    state = cluster(dynamic(), held("a", "2g.20gb@0/2"))
    node_info = state.at("n1")
    assert node_info is not None
    before = node_info.gpus

    assert plan(state, pod("new", mig={"4g.40gb": 1}), ALLOW_ALL_MAPS) is not None

    assert node_info.gpus == before
    assert before is not None
    assert MigPlacement(0, 2, "2g.20gb") in node_info.pods["team-a"][1].mig_placements
