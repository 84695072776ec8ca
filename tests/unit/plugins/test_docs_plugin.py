"""The plugin of docs/plugins.md, built from the page, behaves as described."""

from __future__ import annotations

import re
from functools import partial
from pathlib import Path
from types import ModuleType

import pytest

from scheduler.decide.requeue_check import condition_at_node
from scheduler.decide.schedule_one import schedule_one
from scheduler.framework.decision import Placement, Rejection
from scheduler.framework.pipeline import Pipeline
from scheduler.framework.settings import Settings
from scheduler.model.pods.pod import Pod
from scheduler.model.reasons.reason import RequeueCause, sentence
from scheduler.plugins import PLUGINS, reason_codes_of
from scheduler.state.cache.cluster import Cluster
from scheduler.state.event import Change, ClusterEvent
from scheduler.state.queue.requeue_conditions import requeue_condition
from scheduler.state.queue.scheduling_queue import SchedulingQueue
from tests.builders import node, pod

PAGE = (Path(__file__).parents[3] / "docs" / "plugins.md").read_text(encoding="utf-8")
LINES_MAX = 36


@pytest.fixture(scope="module")
def plugin() -> ModuleType:
    """The module that the page shows."""
    [source] = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    assert len(source.splitlines()) <= LINES_MAX
    module = ModuleType("team_nodes")
    exec(compile(source, "docs/plugins.md", "exec"), vars(module))  # noqa: S102 - the page's own code
    return module


@pytest.fixture
def pipeline(plugin: ModuleType) -> Pipeline:
    return Pipeline(plugins=(*PLUGINS, plugin.PLUGIN), scheduler_name=Settings().scheduler_name)


def team(name: str) -> dict[str, str]:
    return {"example.com/team": name} if name else {}


def cluster_of(pipeline: Pipeline, **teams: str) -> Cluster:
    """One node per keyword, with the team's label."""
    state = Cluster(node_labels=pipeline.node_labels)
    for name, owner in teams.items():
        state.upsert_node(node(name, gpus=4, labels=team(owner)))
    return state


def of_team(name: str) -> Pod:
    return pod("p", gpus=1, labels=team(name))


@pytest.mark.parametrize(
    ("asking", "placed_on"),
    [("red", "n2"), ("blue", "n1"), ("", "n3")],
    ids=["own-node", "the-other-team", "no-team"],
)
def test_a_pod_prefers_its_teams_node(pipeline: Pipeline, asking: str, placed_on: str) -> None:
    state = cluster_of(pipeline, n1="blue", n2="red", n3="")

    decision = schedule_one(state, of_team(asking), pipeline)

    assert isinstance(decision, Placement)
    assert decision.node_name == placed_on


def test_the_index_tells_nodes_apart_by_the_plugins_label(pipeline: Pipeline) -> None:
    state = cluster_of(pipeline, n1="blue", n2="red", n3="red")

    assert state.index.covers(pipeline.node_labels)
    assert len(state.index.classes) == 2


def test_a_rejected_pod_names_the_other_teams(pipeline: Pipeline, plugin: ModuleType) -> None:
    state = cluster_of(pipeline, n1="blue", n2="red", n3="red")

    decision = schedule_one(state, of_team("green"), pipeline)

    assert isinstance(decision, Rejection)
    assert sentence(decision.diagnosis) == (
        "0/3 nodes are available: 1 node(s) reserved for team blue,"
        " 2 node(s) reserved for team red."
    )
    assert decision.diagnosis.codes() == {plugin.OTHER_TEAM}
    assert reason_codes_of(pipeline.plugins)["OTHER_TEAM"].next_step


def test_pods_of_two_teams_are_two_equivalence_classes(pipeline: Pipeline) -> None:
    red, blue = of_team("red"), of_team("blue")

    assert red.equivalence_class == blue.equivalence_class
    assert pipeline.equivalence_class(red) != pipeline.equivalence_class(blue)


def test_a_rejected_pod_wakes_when_the_nodes_label_changes(pipeline: Pipeline) -> None:
    state, waiting = cluster_of(pipeline, n1="blue"), SchedulingQueue(pipeline.equivalence_class)
    rejected = of_team("red")
    waiting.add(rejected, 0.0)
    entry = waiting.pop(0.0)
    assert entry is not None
    decision = schedule_one(state, rejected, pipeline)
    assert isinstance(decision, Rejection)
    waiting.add_unschedulable(entry, requeue_condition(decision.diagnosis), 0.0)

    def woken_by(change: Change) -> int:
        assert isinstance(change, ClusterEvent)
        assert change.cause is RequeueCause.NODE
        return waiting.requeue_on(change, 10.0, partial(condition_at_node, state, pipeline))

    [more_gpus] = state.upsert_node(node("n1", gpus=5, labels=team("blue")))
    assert woken_by(more_gpus) == 0
    [label_removed] = state.upsert_node(node("n1", gpus=5))
    assert woken_by(label_removed) == 1
