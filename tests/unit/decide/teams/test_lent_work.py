"""Which work of other teams may end for entitled work, and in which order."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from scheduler.framework.decision import Preemption
from scheduler.model.pods.pod import Pod
from scheduler.state.cache.cluster import Cluster
from tests.builders import as_bound, node, settle
from tests.dra import resource_slice
from tests.gangs import members
from tests.teams import A100, INSIDE, NVIDIA, SERVING, card, table, team
from tests.unit.decide.teams.reclaim_world import (
    NOW,
    asks,
    decided,
    ending,
    full,
    running,
    said,
    world,
)


def test_the_newest_work_of_the_team_furthest_above_ends() -> None:
    assert ending(full(running("o", "other")), asks(1)) == {"b-3"}


def test_each_victim_changes_which_team_is_furthest_above() -> None:
    assert ending(full(running("o", "other")), asks(2)) in ({"b-3", "c-2"}, {"b-3", "b-2"})


def test_of_one_team_work_of_low_priority_ends_first() -> None:
    state = world(
        table(team("a", 2), team("b")),
        node("n1", gpus=2, labels=A100),
        running("new", "b", created=9, priority=1),
        running("old", "b", created=1),
    )

    assert ending(state, asks(1, priority=1)) == {"old"}


def test_nothing_ends_for_work_above_the_guarantee() -> None:
    state = world(
        table(team("a", 1), team("b")),
        node("n1", gpus=2, labels=A100),
        running("x", "a"),
        running("b", "b"),
    )

    assert ending(state, asks(1)) == set()


def test_nothing_ends_of_teams_inside_their_guarantee() -> None:
    state = world(
        table(team("a", 2), team("b", 2)),
        node("n1", gpus=2, labels=A100),
        node("n2", gpus=2, labels=A100, cordoned=True),
        running("b-0", "b", 2),
    )

    assert ending(state, asks(1)) == set()


def test_only_what_is_above_the_guarantee_is_taken_back() -> None:
    """The work of b on n1 is more than what b borrows."""
    borrowed = [running(f"b-{at}", "b") for at in range(3)]
    nodes = [node("n1", gpus=4, labels=A100), node("n2", gpus=1, labels=A100)]
    state = world(table(team("a", 3), team("b", 2)), *nodes, *borrowed)

    assert ending(state, asks(2)) == {"b-2"}
    assert ending(state, asks(3)) == set()
    assert "and not in one place" in said(state, asks(3))


SPARED: list[Any] = [
    pytest.param({"annotations": INSIDE}, "not reclaimable", id="inside the guarantee only"),
    pytest.param({"labels": {"kueue.x-k8s.io/managed": "true"}}, "Kueue", id="Kueue decides"),
    pytest.param({"owner": ""}, "create them again", id="no controller"),
    pytest.param({"owner": "Widget.example.org/w"}, "create them again", id="unknown controller"),
    pytest.param({"priority": 1}, "higher priority", id="higher priority"),
    pytest.param({"scheduler": "other"}, "another scheduler", id="another scheduler's"),
]


@pytest.mark.parametrize(("fields", "why"), SPARED)
def test_some_work_is_never_taken_back(fields: dict[str, Any], why: str) -> None:
    state = world(
        table(team("a", 2), team("b")), node("n1", gpus=1, labels=A100), running("b", "b", **fields)
    )

    assert ending(state, asks(1)) == set()
    assert why in said(state, asks(1))


@pytest.fixture
def served() -> tuple[Cluster, Pod]:
    """A node without a device plugin, and the pod whose claim has its GPU."""
    slices = resource_slice("n1", card("gpu-0"), driver=NVIDIA)
    state = world(table(team("a", 2), team("b")), node("n1"), slices, SERVING)
    state.update_devices()
    bound = as_bound(settle(state, running("b", "b", at="")))
    state.upsert_pod(bound)
    return state, bound


def test_devices_of_claims_are_not_taken_back(served: tuple[Cluster, Pod]) -> None:
    state, _ = served

    assert ending(state, asks(1)) == set()
    assert "1 with devices of ResourceClaims" in said(state, asks(1))


def test_a_pod_that_gets_a_claim_takes_nothing_back(served: tuple[Cluster, Pod]) -> None:
    """Where the pod of the claim ends already, the claim ends after it."""
    state, bound = served
    state.upsert_pod(msgspec.structs.replace(bound, is_deleting=True))

    assert not isinstance(decided(state, asks(1)), Preemption)


def test_work_is_taken_back_after_the_minimum_run_time() -> None:
    state = world(
        table(team("a", 2), team("b")),
        node("n1", gpus=1, labels=A100),
        running("b", "b", for_s=299),
    )
    assert ending(state, asks(1)) == set()
    state.pass_time(NOW + 1)

    assert ending(state, asks(1)) == {"b"}


def test_old_work_ends_rather_than_young_work() -> None:
    state = world(
        table(team("a", 2), team("b")),
        node("n1", gpus=2, labels=A100),
        running("old", "b", created=1),
        running("young", "b", created=2, for_s=10),
    )

    assert ending(state, asks(1)) == {"old"}


def test_work_that_would_not_come_back_is_spared() -> None:
    state = full(running("o", "other"))
    state.upsert_pod(running("b-3", "b", created=3, owner=""))

    assert ending(state, asks(1)) == {"b-2"}


def test_a_group_ends_as_a_whole() -> None:
    group = [
        running(one.name, "b", 1, annotations=one.annotations, labels=one.labels)
        for one in members(2, 2, namespace="b", gpus=1)
    ]
    state = world(table(team("a", 2), team("b")), node("n1", gpus=2, labels=A100), *group)

    assert ending(state, asks(1)) == {"train-0", "train-1"}


def test_the_rest_of_a_group_is_taken_back_once() -> None:
    """The deletion of one member is asked for, and the watch does not show it yet."""
    group = [
        running(one.name, "b", 1, annotations=one.annotations, labels=one.labels)
        for one in members(2, 1, namespace="b", gpus=1)
    ]
    state = world(table(team("a", 2), team("b")), node("n1", gpus=2, labels=A100), *group)
    state.preemptions.begin("another", frozenset((group[0].uid,)), 0.0)

    assert ending(state, asks(2)) == {"train-1"}
