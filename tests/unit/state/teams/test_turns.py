"""The order of the teams inside a priority, as the queue asks for it."""

from __future__ import annotations

from scheduler.model.pods.pod import Pod
from scheduler.state import event as ev
from scheduler.state.cache.cluster import Cluster
from scheduler.state.fold import fold
from scheduler.state.queue.gang_queue import GangQueue
from scheduler.state.teams.turns import TeamTurns
from tests.builders import cluster, node, pod, settle
from tests.gangs import members
from tests.teams import A100, table, team

FOUR = table(team("a", 2), team("b", 2), team("c"), team("d", weight=2))


def order(state: Cluster, pods: list[Pod]) -> list[str]:
    """The pods in the order of the queue; each is placed before the next one is taken."""
    queue = GangQueue(state.gangs, teams=TeamTurns(state.teams, state.gangs))
    for one in pods:
        fold(state, ev.PodUpdated(one))
        queue.add(one, 0.0)
    found = []
    while (entry := queue.pop(0.0)) is not None:
        queue.delete(entry.pod.uid, 0.0)
        found.append(entry.pod.key)
        settle(state, entry.pod)
    return found


def waiting(namespace: str, count: int, priority: int = 0) -> list[Pod]:
    return [
        pod(f"p{at}", namespace=namespace, gpus=1, created=at, priority=priority)
        for at in range(count)
    ]


def test_entitled_work_comes_before_borrowing() -> None:
    state = cluster(FOUR, node("n1", gpus=8, labels=A100))

    assert order(state, [*waiting("c", 2), *waiting("a", 1)]) == ["a/p0", "c/p0", "c/p1"]


def test_the_team_that_uses_least_of_its_guarantee_is_next() -> None:
    state = cluster(
        FOUR, node("n1", gpus=8, labels=A100), pod("x", node="n1", namespace="a", gpus=1)
    )

    assert order(state, [*waiting("a", 1), *waiting("b", 2)]) == ["b/p0", "a/p0", "b/p1"]


def test_the_order_is_computed_again_after_each_placement() -> None:
    """Team d has twice the weight: it gets two above its guarantee for each one of c."""
    state = cluster(FOUR, node("n1", gpus=8, labels=A100))
    found = order(state, [*waiting("c", 3), *waiting("d", 4)])

    assert found[:6].count("d/p0") == 1
    assert [one[0] for one in found] == ["d", "c", "d", "d", "c", "d", "c"]


def test_priority_comes_before_the_teams() -> None:
    state = cluster(FOUR, node("n1", gpus=8, labels=A100))

    assert order(state, [*waiting("a", 1), *waiting("c", 1, priority=1)]) == ["c/p0", "a/p0"]


def test_a_group_counts_with_all_members_that_it_needs() -> None:
    """Three GPUs are more than the guarantee of two, one is not."""
    state = cluster(FOUR, node("n1", gpus=8, labels=A100))
    group = members(3, 3, namespace="a", gpus=1)
    turns = TeamTurns(state.teams, state.gangs)
    for one in group:
        fold(state, ev.PodUpdated(one))

    assert turns.of(group[0])[0] == 1
    assert turns.of(pod("p", namespace="a", gpus=1))[0] == 0


def test_pods_without_gpus_wait_for_no_team() -> None:
    state = cluster(FOUR, node("n1", gpus=8, labels=A100))
    plain = pod("plain", namespace="kube-system", requests={"cpu": 1})

    assert order(state, [*waiting("a", 1), plain])[0] == "kube-system/plain"


def test_without_teams_namespaces_take_turns() -> None:
    state = cluster(node("n1", gpus=8, labels=A100))

    assert order(state, [*waiting("c", 2), *waiting("a", 1)]) == ["c/p0", "a/p0", "c/p1"]
