"""Why a pod preempts no other: what bars the pod itself, who would have to go, and who may not."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from scheduler.decide.explain import PreemptionOutcome
from scheduler.framework.pipeline import Pipeline
from scheduler.model.pods.pod import Pod, Unread
from scheduler.plugins.preemption.plugin import EXHAUSTED, NEVER
from scheduler.plugins.preemption.possible_victims import FOREIGN, PRIORITY, UNREAD
from scheduler.state.cache.cluster import Cluster
from tests.builders import cluster, node, pod
from tests.questions import explain_now
from tests.unit.plugins.preemption.scene import ALL, OFF, OWN, running

BOSS = pod("boss", gpus=2, priority=9)
NEVER_BOSS = pod("boss", gpus=2, priority=9, spec={"preemptionPolicy": "Never"})


def told(state: Cluster, waiting: Pod = BOSS, pipeline: Pipeline = OWN) -> PreemptionOutcome:
    found = explain_now(state, waiting, pipeline).preemption
    assert found is not None
    return found


def counts(found: PreemptionOutcome) -> dict[str, int]:
    return {one.cause: one.pods for one in found.spared}


def names(found: PreemptionOutcome) -> list[str]:
    return [one.pod for one in found.victims]


def unread(name: str) -> Pod:
    return msgspec.structs.replace(running(name, gpus=1), unread=Unread(rest="no priority"))


@pytest.mark.parametrize(
    ("pods", "expected"),
    [
        pytest.param([running("a", gpus=2, priority=9)], {PRIORITY: 1}, id="equal-priority"),
        pytest.param(
            [running("a", gpus=1, priority=10), running("b", gpus=1, priority=11)],
            {PRIORITY: 2},
            id="higher-priority",
        ),
        pytest.param([running("a", gpus=2, scheduler="other")], {FOREIGN: 1}, id="foreign"),
        pytest.param(
            [running("a", gpus=2, scheduler="other", priority=9)],
            {PRIORITY: 1},
            id="foreign-with-equal-priority-has-one-cause",
        ),
        pytest.param(
            [unread("a"), running("b", gpus=1, scheduler="other")],
            {UNREAD: 1, FOREIGN: 1},
            id="each-cause-by-itself",
        ),
    ],
)
def test_pods_that_may_not_go_are_counted_by_cause(
    pods: list[Pod], expected: dict[str, int]
) -> None:
    found = told(cluster(node("n1", gpus=2), *pods))

    assert counts(found) == expected
    assert (found.barred, found.node, names(found)) == ("", "", [])


def test_pods_where_their_end_cannot_help_are_not_counted() -> None:
    tainted = node("n2", gpus=2, taints=["a=b:NoSchedule"])
    held = (running("a", gpus=2, priority=9), running("b", on="n2", gpus=2, priority=9))

    assert counts(told(cluster(node("n1", gpus=2), tainted, *held))) == {PRIORITY: 1}


def test_unhelpful_nodes_and_spared_pods_are_both_told() -> None:
    held = (running("a", gpus=1), running("b", gpus=1, priority=9))

    found = told(cluster(node("n1", gpus=2), *held))

    assert [one.node for one in found.refusals] == ["n1"]
    assert counts(found) == {PRIORITY: 1}


def test_victims_of_a_pod_that_never_preempts_are_named() -> None:
    held = (running("a", gpus=2, priority=1), running("b", on="n2", gpus=2, priority=9))

    found = told(cluster(node("n1", gpus=2), node("n2", gpus=2), *held), NEVER_BOSS)

    assert (found.barred, found.node, names(found)) == (NEVER, "n1", ["a"])
    assert counts(found) == {PRIORITY: 1}


def test_after_five_rounds_the_victims_are_still_named() -> None:
    state = cluster(node("n1", gpus=2), running("a", gpus=2))
    for number in range(5):
        state.preemptions.begin(BOSS.uid, frozenset(), float(number))

    found = told(state)

    assert (found.barred, found.node, names(found)) == (EXHAUSTED, "n1", ["a"])


def test_unhelpful_nodes_of_a_pod_that_never_preempts_are_named() -> None:
    held = (running("a", gpus=1), running("b", gpus=1, priority=9))

    found = told(cluster(node("n1", gpus=2), *held), NEVER_BOSS)

    assert (found.barred, names(found)) == (NEVER, [])
    assert [one.node for one in found.refusals] == ["n1"]


@pytest.mark.parametrize(
    ("gpus", "pipeline"),
    [
        pytest.param(2, OFF, id="preemption-is-off"),
        pytest.param(3, OWN, id="no-node-is-large-enough"),
    ],
)
def test_nothing_is_told_where_preemption_cannot_help(gpus: int, pipeline: Any) -> None:
    state = cluster(node("n1", gpus=2), running("a", gpus=2))
    waiting = pod("boss", gpus=gpus, priority=9, spec={"preemptionPolicy": "Never"})

    assert explain_now(state, waiting, pipeline).preemption is None


def test_pods_that_have_to_go_are_told_without_causes() -> None:
    found = told(cluster(node("n1", gpus=2), running("a", gpus=2, scheduler="other")), BOSS, ALL)

    assert (names(found), found.barred, found.spared) == (["a"], "", ())


def test_a_pod_that_fits_gets_its_node() -> None:
    assert explain_now(cluster(node("n1", gpus=2)), NEVER_BOSS, OWN).node == "n1"
