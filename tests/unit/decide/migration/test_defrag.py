"""Plans that make room for an instance: certain ones, the fewest pods, the least loss of room."""

from __future__ import annotations

from typing import Any

import pytest

from scheduler.decide.migration.defrag import plan
from scheduler.decide.migration.defrag_plan import Plan
from scheduler.model import well_known
from scheduler.model.gpu.device import MigPlacement, format_devices
from scheduler.model.mig.layout import GPU_MODELS
from scheduler.model.mig.layout_cost import cost
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


def test_fewer_restarts_come_before_less_loss() -> None:
    """The pair on n1 would leave more room than the 1g on n2."""
    there = [
        *(held("a", "n1:1g.10gb@0/0"), held("b", "n1:1g.10gb@0/5")),
        held("c", "n2:1g.20gb@0/6"),
    ]

    one = found(dynamic("n1"), dynamic("n2"), *there, profile="7g.80gb", moves_max=2)

    assert told(one) == ("n2 7g.80gb@0/0", ["c: 1g.20gb@0/6 -> n1 1g.20gb@0/6"])


def test_plan_with_the_least_loss_of_room_is_first() -> None:
    """Without the 3g, the 1g and the 4g have the GPUs whose free slices fit most."""
    nodes = [dynamic("n1"), dynamic("n2"), dynamic("n3")]
    there = [
        *(held("a", "n1:3g.40gb@0/0"), held("b", "n2:1g.10gb@0/0")),
        held("c", "n3:4g.40gb@0/0"),
    ]

    one = found(*nodes, *there, profile="7g.80gb")

    assert told(one) == ("n1 7g.80gb@0/0", ["a: 3g.40gb@0/0 -> n2 3g.40gb@0/4"])


def test_two_pods_of_one_window_move() -> None:
    there = [
        *(held("a", "n1:2g.20gb@0/0"), held("b", "n1:1g.10gb@0/2")),
        *(held("c", "n2:2g.20gb@0/2"), held("d", "n2:1g.10gb@0/4")),
    ]

    two = found(dynamic("n1"), dynamic("n2"), *there, profile="4g.40gb", moves_max=2)

    assert told(two) == (
        "n1 4g.40gb@0/0",
        ["b: 1g.10gb@0/2 -> n2 1g.10gb@0/5", "a: 2g.20gb@0/0 -> n2 2g.20gb@0/0"],
    )
    assert two is not None
    assert two.is_certain


#: A 3g on n1 that fits nowhere else, before the 1g at slice 6 of n2 moves to slice 0.
CHAIN = [
    *(dynamic("n1"), dynamic("n2")),
    *(held("a", "n1:3g.40gb@0/0"), held("b", "n1:1g.20gb@0/6")),
    *(held("c", "n2:1g.10gb@0/1"), held("d", "n2:2g.20gb@0/2"), held("e", "n2:1g.10gb@0/6")),
]


def test_first_move_frees_the_place_of_the_second() -> None:
    assert found(*CHAIN, profile="4g.40gb") is None

    two = found(*CHAIN, profile="4g.40gb", moves_max=2)

    assert told(two) == (
        "n1 4g.40gb@0/0",
        ["e: 1g.10gb@0/6 -> n2 1g.10gb@0/0", "a: 3g.40gb@0/0 -> n2 3g.40gb@0/4"],
    )
    assert two is not None
    assert two.is_certain


@pytest.mark.parametrize("stays", ["a", "e"])
def test_chain_needs_both_pods_to_move(stays: str) -> None:
    """Without one of them another window is freed."""
    other = found(*CHAIN, profile="4g.40gb", moves_max=2, may_move=lambda one: one.name != stays)

    assert other is not None
    assert stays not in {move.pod.name for move in other.moves}


def test_plan_is_uncertain_if_a_replacement_may_take_the_window_again() -> None:
    """Before the 2g has ended its replacement gets slice 0, in the window."""
    one = found(dynamic(), held("a", "2g.20gb@0/2"), profile="4g.40gb")

    assert one is not None
    assert not one.is_certain


def test_certain_plan_of_more_restarts_comes_before_an_uncertain_one() -> None:
    nodes = [dynamic("n1"), dynamic("n2"), dynamic("n3")]
    there = [
        *(held("a", "n1:1g.10gb@0/0"), held("b", "n1:1g.10gb@0/4")),
        *(held("c", "n2:3g.40gb@0/0"), held("d", "n3:4g.40gb@0/0")),
    ]

    one = found(*nodes, *there, profile="7g.80gb")
    two = found(*nodes, *there, profile="7g.80gb", moves_max=2)

    assert one is not None
    assert two is not None
    assert (one.restarts, one.is_certain) == (1, False)
    assert (two.restarts, two.is_certain) == (2, True)


def test_gain_is_the_fall_of_the_layout_cost() -> None:
    """A 3g is moved from an empty GPU into the free half of another, and a 7g takes the GPU."""
    gpu_model = GPU_MODELS["A100-80"]
    there = [held("a", "n1:3g.40gb@0/0"), held("b", "n2:4g.40gb@0/0")]

    one = found(dynamic("n1"), dynamic("n2"), *there, profile="7g.80gb")

    assert one is not None
    before = cost(gpu_model, (("3g.40gb", 0),)) + cost(gpu_model, (("4g.40gb", 0),))
    after = cost(gpu_model, (("7g.80gb", 0),)) + cost(gpu_model, (("4g.40gb", 0), ("3g.40gb", 4)))
    assert one.gain == pytest.approx(before - after, abs=1e-6)


def test_room_held_by_a_nominated_pod_is_not_used() -> None:
    """The only other place of the 1g is nominated to a preemptor of the same priority."""
    there = [held("a", "n1:1g.20gb@0/6"), held("b", "n2:4g.40gb@0/0"), held("c", "n2:2g.20gb@0/4")]
    preemptor = pod("first", mig={"1g.20gb": 1}, nominated="n2")
    nodes = [dynamic("n1"), dynamic("n2")]

    assert found(*nodes, *there, profile="7g.80gb") is not None
    assert found(*nodes, *there, preemptor, profile="7g.80gb") is None


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


def test_a_gang_keeps_its_minimum_in_a_plan() -> None:
    """The member that blocks may move only where enough others run meanwhile."""
    labels, minimum = {well_known.GROUP: "train"}, {well_known.GROUP_MIN: "2"}
    marks: dict[str, Any] = {"labels": labels, "annotations": minimum}
    there = [held("a", "n1:2g.20gb@0/0", **marks), held("b", "n2:1g.20gb@0/6", **marks)]
    nodes = [dynamic("n1"), dynamic("n2"), node("n3", gpus=1)]

    assert found(*nodes, *there, profile="7g.80gb") is None
    third = pod("c", gpus=1, node="n3", **marks)
    assert found(*nodes, *there, third, profile="7g.80gb") is not None
