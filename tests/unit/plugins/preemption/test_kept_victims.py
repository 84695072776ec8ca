"""The victims on a node are searched for once, until the node or a disruption budget changes."""

from __future__ import annotations

import pytest

from scheduler.decide.schedule_one import schedule_one
from scheduler.framework.budget import Budget
from scheduler.plugins.preemption import plugin
from tests.builders import cluster, node, pod
from tests.unit.plugins.preemption.scene import OWN, budget, preemption, running, victims


def test_equal_pods_take_the_same_steps_with_and_without_a_search(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    state = cluster(node("n1", cpu="2"), running("a", requests={"cpu": "2"}))
    spent = []
    for name in ("p", "q", "r"):
        work = Budget(OWN.decision_steps_max)
        schedule_one(state, pod(name, requests={"cpu": "2"}, priority=9), OWN, work)
        spent.append(work.spent)
        monkeypatch.setattr(plugin, "victims_on", None)  # no other search

    assert spent[1] == spent[2]


def test_victims_follow_the_pods_of_the_node() -> None:
    state = cluster(node("n1", cpu="2"), running("a", requests={"cpu": "2"}))
    newcomer = pod("p", requests={"cpu": "2"}, priority=9)
    assert victims(state, newcomer) == ["a"]

    state.delete_pod(running("a").uid)
    for name in ("b", "c"):
        state.upsert_pod(running(name, requests={"cpu": "1"}))

    assert victims(state, newcomer) == ["b", "c"]


def test_violations_follow_the_disruption_budgets() -> None:
    state = cluster(node("n1", cpu="2"), running("a", requests={"cpu": "2"}, labels={"app": "x"}))
    newcomer = pod("p", requests={"cpu": "2"}, priority=9)
    state.preemptions.upsert_budget(budget("x", {"app": "x"}, 1))
    assert preemption(state, newcomer).violations == 0

    state.preemptions.upsert_budget(budget("x", {"app": "x"}, 0))

    assert preemption(state, newcomer).violations == 1
