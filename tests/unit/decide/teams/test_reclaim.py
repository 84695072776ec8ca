"""Which work ends so that entitled work of a team finds room."""

from __future__ import annotations

from typing import Any

import pytest

from scheduler.decide.teams.reclaim import NoReclaim, Reclaim, plan_reclaim
from scheduler.model.pods.pod import Pod
from scheduler.state.cache.cluster import Cluster
from tests.builders import ALLOW_ALL_MAPS, cluster, node, pod
from tests.gangs import members
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
    """Kueue issue 5243: enough is borrowed, and no node has room for four."""
    borrowed = [running(f"b-{at}", "b", 2, f"n{at}") for at in range(2)]
    held = [running(f"c-{at}", "c", 2, f"n{at}", annotations=INSIDE) for at in range(2)]
    nodes = [node(f"n{at}", gpus=4, labels=A100) for at in range(2)]
    found = ending(
        cluster(table(team("a", 4), team("b"), team("c", 4)), *nodes, *borrowed, *held), asks(4)
    )

    assert found == NoReclaim(is_fragmented=True)


def test_no_more_ends_than_is_asked_for_and_one_group() -> None:
    """KAI pull request 1565: one job of 48 GPUs evicted 376 GPUs of others."""
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


def test_groups_that_ask_are_planned_as_a_whole() -> None:
    state = full(running("o", "other"))
    group = members(2, 2, namespace="a", gpus=1)

    found = ending(state, *group)
    assert isinstance(found, set)
    assert len(found) == 2
