"""A gang as a victim is one: it keeps its minimum, or all of it ends."""

from __future__ import annotations

from typing import Any

from scheduler.model.pods.pod import Pod
from scheduler.state.cache.cluster import Cluster
from tests.builders import cluster, node, pod
from tests.gangs import member
from tests.unit.plugins.preemption.scene import ALL, OWN, preemption, rejection, running, victims

STARTED = {"startTime": "2026-11-27T10:00:00Z"}
HIGH = pod("high", gpus=1, priority=9)


def runs(name: str, minimum: int, on: str = "n1", **fields: Any) -> Pod:
    """A running member of the gang "train"."""
    fields = {"gpus": 1, **fields}
    return member(name, minimum, node=on, phase="Running", status=STARTED, **fields)


def two_nodes(*pods: Pod) -> Cluster:
    return cluster(node("n1", gpus=2), node("n2", gpus=2), *pods)


def test_a_gang_below_its_minimum_ends_as_a_whole() -> None:
    state = two_nodes(runs("a", 3), runs("b", 3), runs("c", 3, on="n2"), running("x", on="n2"))
    fill = running("y", on="n2", gpus=1, priority=9)
    state.upsert_pod(fill)

    assert victims(state, HIGH) == ["a", "b", "c"]


def test_members_above_the_minimum_end_alone() -> None:
    state = cluster(node("n1", gpus=3), *(runs(name, 2) for name in "abc"))

    assert len(victims(state, HIGH)) == 1


def test_a_gang_is_no_victim_where_a_member_may_not_go() -> None:
    """For itself the member on n1 would go, and not the more important pod beside it."""
    state = two_nodes(
        runs("a", 2), runs("b", 2, on="n2", priority=9), running("x", gpus=1, priority=1)
    )
    state.upsert_pod(running("y", on="n2", gpus=1, priority=9))

    assert victims(state, HIGH) == ["x"]


def test_a_gang_of_another_scheduler_takes_its_pods_along() -> None:
    state = two_nodes(runs("a", 3), runs("b", 3, scheduler="other"), runs("c", 3, on="n2", gpus=2))

    assert "No preemption victims" in rejection(state, HIGH, OWN).diagnosis.post_filter
    assert victims(state, HIGH, ALL) == ["a", "b", "c"]


def test_a_single_pod_goes_rather_than_a_gang() -> None:
    """The member started later, and would go first for itself."""
    state = cluster(
        node("n1", gpus=2), node("n2", gpus=2), running("x", gpus=1), runs("b", 2, on="n2", gpus=2)
    )
    state.upsert_pod(member("a", 2, gpus=1, node="n1", phase="Running"))

    assert victims(state, HIGH) == ["x"]


def test_all_members_count_in_the_choice_of_the_node() -> None:
    """On n1 one pod would go, but it takes two more along."""
    state = cluster(
        node("n1", gpus=1),
        node("n2", gpus=2),
        node("n3", gpus=2),
        runs("a", 3),
        runs("b", 3, on="n3"),
        runs("c", 3, on="n3"),
        running("x", on="n2", gpus=1),
        running("y", on="n2", gpus=1),
    )
    found = preemption(state, pod("high", gpus=2, priority=9))

    assert [one.name for one in found.victims] == ["x", "y"]


def test_a_member_preempts_no_pod_of_its_own_gang() -> None:
    state = cluster(node("n1", gpus=1), runs("a", 1))
    newcomer = member("b", 1, gpus=1, priority=9)
    state.upsert_pod(newcomer)

    assert "No preemption victims" in rejection(state, newcomer).diagnosis.post_filter
