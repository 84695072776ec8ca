"""Which work ends so that entitled work of a team finds room."""

from __future__ import annotations

from typing import Any

import pytest

from scheduler.decide.teams.reclaim import NoReclaim, Reclaim, plan_reclaim
from scheduler.model.pods.pod import Pod
from scheduler.state.cache.cluster import Cluster
from tests.builders import ALLOW_ALL_MAPS, cluster, node, pod
from tests.gangs import member, members
from tests.teams import A100, INSIDE, gpus, table, team

TEAMS = table(team("a", 4), team("b", 2), team("c", 2))


def running(name: str, namespace: str, count: int = 1, at: str = "n1", **fields: Any) -> Pod:
    return pod(name, node=at, namespace=namespace, gpus=count, **fields)


def ending(state: Cluster, *asking: Pod, spared: str = "") -> set[str] | NoReclaim:
    """The names of the victims."""
    found = plan_reclaim(state, asking, ALLOW_ALL_MAPS, lambda one: one.name != spared)
    return {one.name for one in found.victims} if isinstance(found, Reclaim) else found


def full(*more: Pod) -> Cluster:
    """Eight GPUs: b has four of them and c three, both above their guarantees of two."""
    borrowed = [running(f"b-{at}", "b", created=at) for at in range(4)]
    others = [running(f"c-{at}", "c", created=10 + at) for at in range(3)]
    return cluster(TEAMS, node("n1", gpus=8, labels=A100), *borrowed, *others, *more)


def asks(count: int, namespace: str = "a", **fields: Any) -> Pod:
    return pod("p", namespace=namespace, gpus=count, **fields)


def test_the_newest_work_of_the_team_furthest_above_ends() -> None:
    assert ending(full(running("o", "other")), asks(1)) == {"b-3"}


def test_each_victim_changes_which_team_is_furthest_above() -> None:
    found = ending(full(running("o", "other")), asks(2))

    assert found == {"b-3", "c-2"} or found == {"b-3", "b-2"}


def test_nothing_ends_for_work_above_the_guarantee() -> None:
    state = full(running("x", "a"))

    assert ending(state, asks(4)) == NoReclaim()


def test_nothing_ends_of_teams_inside_their_guarantee() -> None:
    state = cluster(
        table(team("a", 2), team("b", 2)),
        node("n1", gpus=2, labels=A100),
        node("n2", gpus=2, labels=A100, cordoned=True),
        running("b-0", "b", 2),
    )

    assert ending(state, asks(1)) == NoReclaim()


SPARED: list[Any] = [
    pytest.param({"annotations": INSIDE}, id="runs only inside the guarantee"),
    pytest.param({"labels": {"kueue.x-k8s.io/managed": "true"}}, id="Kueue decides"),
    pytest.param({"deleting": True}, id="ends already"),
]


@pytest.mark.parametrize("fields", SPARED)
def test_some_work_is_never_taken_back(fields: dict[str, Any]) -> None:
    state = cluster(
        table(team("a", 2), team("b")), node("n1", gpus=1, labels=A100), running("b", "b", **fields)
    )

    assert ending(state, asks(1)) == NoReclaim()


def test_work_that_would_not_come_back_is_spared() -> None:
    assert ending(full(running("o", "other")), asks(1), spared="b-3") == {"b-2"}


def test_a_group_ends_as_a_whole() -> None:
    group = members(2, 2, namespace="b", gpus=1, node="n1")
    state = cluster(table(team("a", 2), team("b")), node("n1", gpus=2, labels=A100), *group)

    assert ending(state, asks(1)) == {"train-0", "train-1"}


def test_the_placement_is_planned_before_anything_ends() -> None:
    """KUE#5243: enough is borrowed, and no node has room for four."""
    borrowed = [running(f"b-{at}", "b", 2, f"n{at}") for at in range(2)]
    held = [running(f"c-{at}", "c", 2, f"n{at}", annotations=INSIDE) for at in range(2)]
    nodes = [node(f"n{at}", gpus=4, labels=A100) for at in range(2)]
    found = ending(
        cluster(table(team("a", 4), team("b"), team("c", 4)), *nodes, *borrowed, *held), asks(4)
    )

    assert found == NoReclaim(is_fragmented=True)


def test_no_more_ends_than_is_asked_for_and_one_group() -> None:
    """KAI#1565: one job of 48 GPUs evicted 376 GPUs of others."""
    nodes = [node(f"n{at}", gpus=8, labels=A100) for at in range(4)]
    borrowed = [
        running(f"b-{at}-{gpu}", "b", 1, f"n{at}", created=gpu)
        for at in range(4)
        for gpu in range(8)
    ]
    state = cluster(table(team("a", 16), team("b")), *nodes, *borrowed)
    found = plan_reclaim(state, [asks(8)], ALLOW_ALL_MAPS, lambda one: True)

    assert isinstance(found, Reclaim)
    assert found.released == gpus(8)
    assert len({one.node_name for one in found.victims}) == 1


def test_two_large_groups_do_not_end_for_one_small_pod() -> None:
    """KAI#1565: each of them has one of the two GPUs, and seven elsewhere."""
    nodes = [node("n1", gpus=2, labels={**A100, "at": "n1"}), node("n2", gpus=14, labels=A100)]
    groups = [
        one
        for name in ("g", "h")
        for one in (
            *members(1, 8, name, namespace="b", gpus=1, node="n1"),
            *(member(f"{name}{at}", 8, name, namespace="b", gpus=1, node="n2") for at in range(7)),
        )
    ]
    state = cluster(table(team("a", 16), team("b")), *nodes, *groups)

    assert ending(state, asks(2, selector={"at": "n1"})) == NoReclaim(is_fragmented=True)


def test_groups_that_ask_are_planned_as_a_whole() -> None:
    state = full(running("o", "other"))
    group = members(2, 2, namespace="a", gpus=1)

    found = ending(state, *group)
    assert isinstance(found, set)
    assert len(found) == 2


# --- no loop --------------------------------------------------------------------------------


def test_what_was_taken_back_is_not_taken_back_again() -> None:
    """KUE#14543: the team that lost its work was below its share then, and evicted in turn."""
    state = full(running("o", "other"))
    found = plan_reclaim(state, [asks(1)], ALLOW_ALL_MAPS, lambda _pod: True)
    assert isinstance(found, Reclaim)
    [victim] = found.victims
    state.delete_pod(victim.uid)
    state.upsert_pod(running("a-0", "a"))

    assert ending(state, asks(1, victim.namespace)) == NoReclaim()


@pytest.mark.parametrize(("asking", "other"), [("b", "c"), ("c", "b")])
def test_teams_that_both_borrow_take_nothing_from_each_other(asking: str, other: str) -> None:
    """VOL#3869: two jobs with pods that waited reclaimed each other's room for ever."""
    teams = table(team("a", 4), team("b"), team("c"))
    state = cluster(teams, node("n1", gpus=4, labels=A100))
    for name in (asking, other):
        for at in range(2):
            state.upsert_pod(running(f"{name}-{at}", name))

    assert ending(state, asks(1, asking)) == NoReclaim()
    assert ending(state, asks(1)) in ({"b-0"}, {"b-1"}, {"c-0"}, {"c-1"})
