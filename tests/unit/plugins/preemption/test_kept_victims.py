"""The victims on a node are searched for once, until the node or a disruption budget changes."""

from __future__ import annotations

from typing import Any

import pytest

from scheduler.decide.schedule_one import schedule_one
from scheduler.framework.budget import Budget
from scheduler.framework.decision import Preemption, Rejection
from scheduler.plugins.preemption import plugin
from scheduler.state import event as ev
from scheduler.state.cache.cluster import Cluster
from scheduler.state.fold import fold
from tests.builders import cluster, node, pod
from tests.dra import (
    CLASS,
    allocation_json,
    claiming,
    device_class,
    resource_claim,
    resource_slice,
    result_json,
    taint_rule,
)
from tests.unit.plugins.preemption.claim_scene import holding, newcomer, shared
from tests.unit.plugins.preemption.scene import (
    OWN,
    budget,
    preemption,
    rejection,
    running,
    victims,
)

EXTENDED = "example.com/gpu"


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


def held(**of_class: Any) -> Cluster:
    """Two devices of one node, of pods ``a`` and ``b`` (the younger one)."""
    served = device_class(CLASS, **of_class)
    pods = (*holding("a", "gpu-0", at=1), *holding("b", "gpu-1", at=2))
    wanted = (resource_claim("one"), resource_claim("other"))
    return cluster(node("n1"), served, resource_slice("n1", "gpu-0", "gpu-1"), *pods, *wanted)


def test_pods_with_equal_claims_share_a_search_and_not_a_plan(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    state, spent, planned = held(), [], []
    for name in ("one", "other", "one"):
        work = Budget(OWN.decision_steps_max)
        decision = schedule_one(state, newcomer(name, name=name), OWN, work)
        assert decision.claims is not None
        planned += [one.key for one in decision.claims.claims]
        spent.append(work.spent)
        monkeypatch.setattr(plugin, "victims_on", None)  # no other search

    assert planned == ["team/one", "team/other", "team/one"]
    assert spent[1] == spent[2]


def test_preemption_for_a_claim_has_a_plan_with_few_steps() -> None:
    """Without one the devices would not be held for the preemptor."""
    state, plans, told = held(), [], set()
    for limit in range(1, 120):
        decision = schedule_one(state, newcomer("one"), OWN, Budget(limit))
        assert isinstance(decision, Rejection)
        if isinstance(decision, Preemption):
            plans.append(decision.claims)
        else:
            told.add(decision.diagnosis.post_filter)

    assert plans
    assert None not in plans
    assert f"preemption: {plugin.STEPS} after 1 nodes" in told


def test_victims_follow_the_users_of_a_claim() -> None:
    """Neither the node nor its devices change."""
    state = held()
    assert victims(state, newcomer("one")) == ["b"]

    waiting = pod("w", spec=claiming("b"))
    state.upsert_pod(waiting)
    fold(state, ev.DraUpdated(shared("b", ["b", "w"], "gpu-1")))

    assert victims(state, newcomer("one")) == ["a"]


def test_victims_follow_the_taints_of_devices() -> None:
    state = held()
    assert victims(state, newcomer("one")) == ["b"]

    fold(state, ev.DraUpdated(taint_rule(device="gpu-1")))

    assert victims(state, newcomer("one")) == ["a"]


def test_devices_of_its_own_claim_are_free_for_another_pod_only() -> None:
    state = held(extendedResourceName=EXTENDED)
    own = allocation_json(result_json("gpu-1"))
    fold(state, ev.PodDeleted(running("b").uid))
    fold(state, ev.DraUpdated(resource_claim("b")))
    boss, other = (pod(name, requests={EXTENDED: 1}, priority=9) for name in ("boss", "other"))
    created = {"owner": boss.uid, "extended": True, "deleting": True}
    fold(state, ev.DraUpdated(resource_claim("created", allocation=own, **created)))

    assert rejection(state, other).diagnosis.total == 1, "gpu-1 is about to be free"
    assert victims(state, boss) == ["a"]
