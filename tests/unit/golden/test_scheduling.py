"""Filters, scores and preemption as the plugins of the real kube-scheduler answer.

``tools/golden/scheduling`` runs kube-scheduler's plugins on small random clusters and writes their
answers.
"""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from scheduler.decide.post_filter import context_of
from scheduler.decide.schedule_one import schedule_one
from scheduler.framework.decision import Preemption
from scheduler.framework.settings import Settings
from scheduler.model.disruption_budget import DisruptionBudget
from scheduler.plugins import (
    default_pipeline,
    image_locality,
    inter_pod_affinity,
    node_affinity,
    node_resources_fit,
    pod_topology_spread,
    taint_toleration,
)
from scheduler.plugins.preemption.importance import best
from scheduler.plugins.preemption.plugin import find_candidates
from scheduler.watch.decode.budgets import BUDGET, to_budget
from tests.builders import pod
from tests.unit.conformance.feasible import rejections
from tests.unit.golden.worlds import Json, rows, world

SCORES: dict[str, Any] = {
    "taints": taint_toleration.score,
    "nodeAffinity": node_affinity.score,
    "spread": pod_topology_spread.score,
    "podAffinity": inter_pod_affinity.score,
    "leastAllocated": node_resources_fit.least_allocated,
    "balanced": node_resources_fit.balanced_allocation,
}
FILTER_ROWS, PREEMPTION_ROWS = rows("filterscores.json"), rows("preemption.json")
FEATURE_ROWS, IMAGE_ROWS = rows("nodefeatures.json"), rows("imagelocality.json")
ALL = default_pipeline(Settings(preemption="all"))


def upstream(text: str) -> str:
    """Our text as kube-scheduler 1.35 and later write it."""
    if text.startswith("node(s) had untolerated taint {"):
        return "node(s) had untolerated taint(s)"
    return text


def test_golden_files_have_enough_cases() -> None:
    scores = [one for row in FILTER_ROWS for one in row["scores"].values()]
    for name in SCORES:
        assert len({one[name] for one in scores if name in one}) > 1, name
    reasons = {text for row in FILTER_ROWS for texts in row["rejected"].values() for text in texts}
    assert len(reasons) > 7
    assert {len(row["best"]) for row in PREEMPTION_ROWS} >= {0, 1, 2, 3}
    assert sum(one["violations"] for row in PREEMPTION_ROWS for one in row["candidates"].values())
    assert len({tuple(row["features"]) for row in FEATURE_ROWS}) > 5
    assert len({score for row in IMAGE_ROWS for score in row["scores"].values()}) > 20


@pytest.mark.parametrize("row", FILTER_ROWS)
def test_nodes_are_rejected_for_the_same_reasons(row: Json) -> None:
    state, newcomer = world(row)

    found = {name: upstream(text) for name, text in rejections(state, newcomer).items()}

    assert found == {name: texts[0] for name, texts in row["rejected"].items()}


@pytest.mark.parametrize("name", SCORES)
@pytest.mark.parametrize("row", FILTER_ROWS)
def test_feasible_nodes_get_the_same_scores(row: Json, name: str) -> None:
    state, newcomer = world(row)
    names = sorted(row["scores"])
    nodes = [info for one in names if (info := state.at(one)) is not None]

    found = SCORES[name](state, newcomer, nodes, Settings())

    assert dict(zip(names, found, strict=True)) == {
        one: row["scores"][one].get(name, 0) for one in names
    }


@pytest.mark.parametrize("row", IMAGE_ROWS)
def test_images_on_the_nodes_give_the_same_scores(row: Json) -> None:
    state, newcomer = world(row)
    names = sorted(row["scores"])
    nodes = [info for one in names if (info := state.at(one)) is not None]

    found = image_locality.score(state, newcomer, nodes, Settings())

    assert dict(zip(names, found, strict=True)) == row["scores"]


def _budget(one: Json) -> DisruptionBudget:
    status = {
        "disruptionsAllowed": one["allowed"],
        "disruptedPods": dict.fromkeys(one.get("disrupted", ()), "2026-01-01T00:00:00Z"),
    }
    content = {
        "metadata": {"namespace": one["namespace"], "name": one["name"]},
        "spec": {"selector": one["selector"]},
        "status": status,
    }
    return to_budget(BUDGET.decode(msgspec.json.encode(content)))


@pytest.mark.parametrize("row", PREEMPTION_ROWS)
def test_the_same_victims_go_on_the_same_nodes(row: Json) -> None:
    state, newcomer = world(row)
    for one in row.get("budgets", ()):
        state.preemptions.upsert_budget(_budget(one))
    decision = schedule_one(state, newcomer, ALL)
    if not isinstance(decision, Preemption):
        assert row["candidates"] == {}
        return

    found, _ = find_candidates(context_of(state, ALL, decision, ALL.decision_steps_max))

    assert {
        one.node_name: {
            "pods": [victim.name for victim in one.victims],
            "violations": one.violations,
        }
        for one in found
    } == row["candidates"]
    assert [one.node_name for one in best(found)] == row["best"]


@pytest.mark.parametrize("row", FEATURE_ROWS)
def test_the_same_node_features_are_required(row: Json) -> None:
    assert sorted(pod(spec=row["spec"]).required_features) == sorted(row["features"])
