"""A gang preempts as one: all victims that its minimum needs, or none."""

from __future__ import annotations

from typing import Any

import pytest

from scheduler.decide.gang.plan import budget_of, plan_gang
from scheduler.decide.gang.preemption import NOT_HELPFUL, preempt
from scheduler.framework.decision import Preemption, Rejection
from scheduler.framework.pipeline import Pipeline
from scheduler.model.pods.pod import Pod
from scheduler.model.reasons.reason import sentence
from scheduler.plugins.preemption.plugin import NEVER, TERMINATING
from scheduler.state import event as ev
from scheduler.state.cache.cluster import Cluster
from scheduler.state.fold import fold
from tests.builders import cluster, dynamic, node, pod
from tests.gangs import member, members
from tests.unit.plugins.preemption.scene import OFF, OWN, budget, running
from tests.unit.plugins.preemption.test_terms import HOST, away_from


def answers(state: Cluster, pods: list[Pod], pipeline: Pipeline = OWN) -> dict[str, Rejection]:
    """What each member of a gang that does not fit is told."""
    for one in pods:
        fold(state, ev.PodUpdated(one))
    gang = state.gangs.of(pods[0])
    assert gang is not None
    waiting = list(gang.waiting_pods())
    work = budget_of(waiting, pipeline)
    plan = plan_gang(state, gang, waiting, pipeline, work)
    assert isinstance(plan, Rejection), plan
    found = preempt(state, gang, waiting, pipeline, plan, work)
    return {one.pod.name: one for one in found}


def victims(told: dict[str, Rejection]) -> list[str]:
    every = [one.victims for one in told.values() if isinstance(one, Preemption)]
    return sorted(pod.name for there in every for pod in there)


def nominated(told: dict[str, Rejection]) -> list[str]:
    return sorted(one.nominated_node for one in told.values())


def high(count: int, minimum: int, **fields: Any) -> list[Pod]:
    return members(count, minimum, "high", **{"gpus": 1, "priority": 9, **fields})


def test_as_many_pods_go_as_the_minimum_needs() -> None:
    state = cluster(node("n1", gpus=2), node("n2", gpus=2), running("a", gpus=2))
    for at, name in enumerate("bc"):
        state.upsert_pod(running(name, at, on="n2", gpus=1))

    told = answers(state, high(3, 3))

    assert len(victims(told)) == 2
    assert "a" in victims(told)
    assert nominated(told) == ["n1", "n1", "n2"]
    assert "preemption: found a potential placement for 3 pods of group high, preempting 2" in (
        sentence(next(iter(told.values())).diagnosis)
    )


def test_nothing_goes_where_the_minimum_does_not_fit_without_it() -> None:
    state = cluster(node("n1", gpus=2), running("a", gpus=1), running("b", gpus=1))

    told = answers(state, high(3, 3))

    assert (victims(told), nominated(told)) == ([], [""] * 3)
    assert all(sentence(one.diagnosis).endswith(NOT_HELPFUL) for one in told.values())


def test_members_above_the_minimum_take_no_victim() -> None:
    state = cluster(node("n1", gpus=3), *(running(name, gpus=1) for name in "abc"))

    told = answers(state, high(3, 2))

    assert len(victims(told)) == 2
    assert nominated(told) == ["", "n1", "n1"]


def test_the_most_important_victims_are_given_back() -> None:
    lesser = [running(name, at, gpus=1, priority=1) for at, name in enumerate("ab")]
    state = cluster(node("n1", gpus=3), *lesser, running("c", 3, gpus=1, priority=2))

    assert victims(answers(state, high(2, 2))) == ["a", "b"]


def test_a_pod_with_a_disruption_budget_is_given_back_first() -> None:
    state = cluster(
        node("n1", gpus=2),
        running("kept", 9, gpus=1, labels={"app": "kept"}),
        running("goes", 1, gpus=1),
    )
    state.preemptions.upsert_budget(budget("b", {"app": "kept"}, 0))

    told = answers(state, high(1, 1))

    assert victims(told) == ["goes"]
    assert [one.violations for one in told.values() if isinstance(one, Preemption)] == [0]


def test_equal_pods_and_pods_of_others_stay() -> None:
    state = cluster(
        node("n1", gpus=2), running("a", gpus=1, priority=9), running("b", gpus=1, scheduler="x")
    )

    assert victims(answers(state, high(1, 1))) == []


def low_gang(count: int, minimum: int, nodes: list[str]) -> list[Pod]:
    started = {"startTime": "2026-11-27T10:00:00Z"}
    return [
        member(f"low-{at}", minimum, "low", gpus=1, node=name, phase="Running", status=started)
        for at, name in zip(range(count), nodes, strict=True)
    ]


def test_a_gang_among_the_victims_goes_as_a_whole() -> None:
    state = cluster(*(node(name, gpus=2) for name in ("n1", "n2", "n3")))
    for one in low_gang(4, 4, ["n1", "n1", "n2", "n3"]):
        state.upsert_pod(one)
    for name in ("n2", "n3"):
        state.upsert_pod(running(f"kept-{name}", on=name, gpus=1, priority=9))

    assert victims(answers(state, high(2, 2))) == ["low-0", "low-1", "low-2", "low-3"]


def test_a_gang_among_the_victims_keeps_its_minimum() -> None:
    state = cluster(node("n1", gpus=2), node("n2", gpus=2))
    for one in low_gang(4, 2, ["n1", "n1", "n2", "n2"]):
        state.upsert_pod(one)

    assert len(victims(answers(state, high(2, 2)))) == 2


def test_single_pods_go_rather_than_a_whole_gang() -> None:
    state = cluster(node("n1", gpus=4))
    for one in (*low_gang(2, 2, ["n1", "n1"]), running("a", gpus=1), running("b", gpus=1)):
        state.upsert_pod(one)

    assert victims(answers(state, high(2, 2))) == ["a", "b"]


def test_slices_of_dynamic_gpus_are_made_free() -> None:
    state = cluster(dynamic(), pod("a", mig={"7g.80gb": 1}, node="n1", devices="7g.80gb@0/0"))

    told = answers(state, members(3, 3, "high", mig={"2g.20gb": 1}, priority=9))

    assert victims(told) == ["a"]


@pytest.mark.parametrize(
    ("pipeline", "fields", "text"),
    [
        pytest.param(OFF, {}, "", id="preemption-is-off"),
        pytest.param(OWN, {"spec": {"preemptionPolicy": "Never"}}, NEVER, id="never"),
    ],
)
def test_a_gang_that_may_not_preempt_takes_no_victim(
    pipeline: Pipeline, fields: Any, text: str
) -> None:
    state = cluster(node("n1", gpus=1), running("a", gpus=1))

    told = answers(state, high(1, 1, **fields), pipeline)

    assert victims(told) == []
    assert all(sentence(one.diagnosis).endswith(text) for one in told.values())


def test_a_gang_takes_no_more_victims_while_its_own_end() -> None:
    state = cluster(node("n1", gpus=2), *(running(name, gpus=1) for name in "ab"))
    pods = high(2, 2)
    for one in answers(state, pods).values():
        assert isinstance(one, Preemption)
        state.nominate(one.pod, one.nominated_node, one.devices)
        state.preemptions.begin(one.pod.uid, frozenset(pod.uid for pod in one.victims), 0.0)

    told = answers(state, pods)

    assert (victims(told), nominated(told)) == ([], ["n1", "n1"])
    assert {one.diagnosis.post_filter.partition("preemption: ")[2] for one in told.values()} == {
        TERMINATING
    }


def test_members_away_from_each_other_preempt_on_two_nodes() -> None:
    """The members that are placed count while the weaker pods are away."""
    names = ("n1", "n2")
    state = cluster(
        *(node(name, gpus=2, labels={HOST: name}) for name in names),
        *(running(f"r-{name}", on=name, gpus=2) for name in names),
    )
    pods = high(2, 2, labels={"app": "web"}, spec={"affinity": away_from("web")})

    assert nominated(answers(state, pods)) == ["n1", "n2"]
