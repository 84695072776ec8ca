"""Disruption budgets, and the node that is chosen for its victims."""

from __future__ import annotations

import pytest

from scheduler.decide.schedule_one import schedule_one
from scheduler.framework.budget import Budget
from scheduler.framework.decision import Preemption
from scheduler.model.disruption_budget import DisruptionBudget
from scheduler.model.pods.pod import Pod
from scheduler.model.pods.pod_affinity import pod_selector
from scheduler.model.selector import LabelSelector, Requirement
from scheduler.plugins.preemption.importance import Candidate, best
from scheduler.plugins.preemption.victims import split
from tests.builders import GPU, cluster, node, pod
from tests.unit.plugins.preemption.scene import (
    OWN,
    budget,
    preemption,
    running,
)

WEB, DB = {"app": "web"}, {"app": "db"}
# --- disruption budgets ----------------------------------------------------------------------

BUDGETS = [
    pytest.param([budget("web", WEB, 0)], "ab", "", id="none-allowed"),
    pytest.param([budget("web", WEB, 1)], "b", "a", id="one-allowed"),
    pytest.param([budget("web", WEB, 2)], "", "ab", id="both-allowed"),
    pytest.param([budget("web", {}, 0)], "", "ab", id="empty-selector-covers-nothing"),
    pytest.param([budget("web", None, 0)], "", "ab", id="no-selector-covers-nothing"),
    pytest.param([budget("db", DB, 0)], "", "ab", id="other-labels"),
    pytest.param([budget("web", WEB, 0, frozenset("a"))], "b", "a", id="counted-before"),
    pytest.param([budget("web", WEB, 2), budget("all", WEB, 1)], "b", "a", id="two-budgets"),
]


@pytest.mark.parametrize(("budgets", "violating", "others"), BUDGETS)
def test_budgets_are_used_up_in_the_order_of_importance(
    budgets: list[DisruptionBudget], violating: str, others: str
) -> None:
    pods = [pod("a", labels=WEB), pod("b", labels=WEB)]

    found = split(pods, budgets)

    assert ["".join(one.name for one in each) for each in found] == [violating, others]


def test_budget_of_another_namespace_or_no_labels_covers_nothing() -> None:
    elsewhere = pod("a", labels=WEB, namespace="other")
    bare = pod("b")
    anybody = DisruptionBudget(
        namespace="team",
        name="x",
        selector=pod_selector(
            LabelSelector(match_expressions=(Requirement("app", "DoesNotExist"),))
        ),
    )

    assert split([elsewhere], [budget("web", WEB, 0)]) == ([], [elsewhere])
    assert split([bare], [anybody]) == ([], [bare])


def test_a_pod_that_no_budget_covers_goes_first() -> None:
    state = cluster(
        node("n1", gpus=2),
        running("guarded", 2, gpus=1, labels=WEB),
        running("free", 1, gpus=1),
    )
    state.preemptions.upsert_budget(budget("web", WEB, 0))

    found = preemption(state, pod("p", gpus=1, priority=9))

    assert [one.name for one in found.victims] == ["free"], "although it started earlier"
    assert found.violations == 0


def test_a_budget_is_violated_where_nothing_else_helps() -> None:
    state = cluster(node("n1", gpus=1), running("guarded", gpus=1, labels=WEB))
    state.preemptions.upsert_budget(budget("web", WEB, 0))

    found = preemption(state, pod("p", gpus=1, priority=9))

    assert ([one.name for one in found.victims], found.violations) == (["guarded"], 1)


# --- the node --------------------------------------------------------------------------------

CHOICE = [
    pytest.param(
        {"n1": [running("a", on="n1", gpus=1, labels=WEB)], "n2": [running("b", on="n2", gpus=1)]},
        "n2",
        id="fewest-violations",
    ),
    pytest.param(
        {
            "n1": [running("a", on="n1", gpus=1, priority=2)],
            "n2": [running("b", on="n2", gpus=1, priority=1)],
        },
        "n2",
        id="lowest-highest-priority",
    ),
    pytest.param(
        {
            "n1": [running(f"a{n}", on="n1", gpus=1, priority=1) for n in range(2)],
            "n2": [
                running("b0", on="n2", gpus=1, priority=1),
                running("b1", on="n2", gpus=1, priority=0),
            ],
        },
        "n2",
        id="smallest-sum-of-priorities",
    ),
    pytest.param(
        {
            "n1": [running("a0", on="n1", gpus=1), running("a1", on="n1", gpus=2)],
            "n2": [
                running("b0", on="n2", gpus=1),
                *(running(f"b{n}", on="n2", gpus=1, priority=-2_000_000_000) for n in (1, 2)),
            ],
        },
        "n2",
        id="smaller-sum-before-fewer-victims",
    ),
    pytest.param(
        {
            "n1": [running(f"a{n}", on="n1", gpus=1, priority=-5) for n in range(2)],
            "n2": [running("b", on="n2", gpus=2, priority=-5)],
        },
        "n2",
        id="fewest-victims",
    ),
    pytest.param(
        {"n1": [running("a", 1, on="n1", gpus=1)], "n2": [running("b", 5, on="n2", gpus=1)]},
        "n2",
        id="latest-start",
    ),
    pytest.param(
        {"n2": [running("b", 1, on="n2", gpus=1)], "n1": [running("a", 1, on="n1", gpus=1)]},
        "n1",
        id="first-by-name",
    ),
]


@pytest.mark.parametrize(("nodes", "chosen"), CHOICE)
def test_the_node_follows_kube_schedulers_criteria(
    nodes: dict[str, list[Pod]], chosen: str
) -> None:
    held = max(sum(one.requests[GPU] for one in pods) for pods in nodes.values())
    state = cluster(
        *(node(name, gpus=held) for name in nodes),
        *(one for each in nodes.values() for one in each),
    )
    state.preemptions.upsert_budget(budget("web", WEB, 0))

    assert preemption(state, pod("p", gpus=held, priority=9)).nominated_node == chosen


def test_no_more_nodes_are_tried_than_kube_scheduler_would() -> None:
    nodes = [node(f"n{number:04}", gpus=1) for number in range(1200)]
    pods = [running(f"v{number}", on=one.name, gpus=1) for number, one in enumerate(nodes)]
    state = cluster(*nodes, *pods)
    work = Budget(OWN.decision_steps_max)
    decision = schedule_one(state, pod("p", gpus=1, priority=9), OWN, work)

    assert isinstance(decision, Preemption)
    # 120 copies of a node, and three questions to each; not 1,200.
    assert work.spent < 2 * len(nodes) + 120 * 20


def test_nodes_that_no_criterion_tells_apart_are_ordered_by_name() -> None:
    one, two = pod("a", priority=1), pod("b", priority=1)
    found = [
        Candidate("n2", (two,), 0),
        Candidate("n1", (one,), 0),
        Candidate("n0", (pod("c", priority=5),), 0),
    ]

    assert [candidate.node_name for candidate in best(found)] == ["n1", "n2"]
