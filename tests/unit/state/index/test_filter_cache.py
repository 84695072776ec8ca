"""Cached refusals: which nodes are filtered again, and how much is kept."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from scheduler.decide.schedule_one import schedule_one
from scheduler.framework.decision import Rejection
from scheduler.model.pods.pod import Pod
from scheduler.model.reasons.reason import Diagnosis, Reason
from scheduler.plugins import REASON_CODES
from scheduler.state.cache.cluster import Cluster
from scheduler.state.index.filter_cache import (
    CHANGES_MAX,
    CLASSES_MIN,
    RESULTS_MAX,
    Answers,
    FilterResultCache,
)
from scheduler.state.node_info import NodeInfo
from tests.builders import ALLOW_ALL_MAPS, cluster, node, pod

NO = (Reason(code=REASON_CODES["TAINT"], text="no"),)


def diagnosis(state: Cluster, newcomer: Pod) -> Diagnosis:
    decision = schedule_one(state, newcomer, ALLOW_ALL_MAPS)
    assert isinstance(decision, Rejection)
    return decision.diagnosis


class Asked:
    """Rejects, and records the checked nodes."""

    def __init__(self) -> None:
        self.names: list[str] = []

    def at(self, node_info: NodeInfo) -> tuple[Reason, ...]:
        assert node_info.node is not None
        self.names.append(node_info.node.name)
        return NO

    def everywhere(self, node_infos: Mapping[str, NodeInfo]) -> Answers:
        return Answers.of_each(self, node_infos)


def some_books(count: int) -> dict[str, NodeInfo]:
    return {f"n{at}": NodeInfo(node(f"n{at}")) for at in range(count)}


def test_equal_pods_share_one_diagnosis_while_nothing_changes() -> None:
    state = cluster(node("n1", gpus=1), node("n2", gpus=1))
    first = diagnosis(state, pod("a", gpus=2))

    assert diagnosis(state, pod("b", gpus=2, namespace="other", priority=7)) is first
    assert diagnosis(state, pod("c", gpus=3)) is not first


def test_only_changed_nodes_are_filtered_again() -> None:
    node_info, asked = some_books(5), Asked()
    known = FilterResultCache(node_info)
    known.of("kind", asked)
    known.touch("n3")
    known.touch("n1")
    known.touch("n3")
    known.of("kind", asked)

    assert asked.names == ["n0", "n1", "n2", "n3", "n4", "n3", "n1"]


def test_returned_diagnosis_is_immutable() -> None:
    state = cluster(node("n1", gpus=1), node("n2", gpus=1))
    before = diagnosis(state, pod("a", gpus=2))
    state.upsert_node(node("n2", gpus=0))
    after = diagnosis(state, pod("a", gpus=2))

    assert "(need 2; best node has 1 free)." in before.summary.message
    assert set(before.nodes) == set(after.nodes) == {"n1", "n2"}
    assert before.nodes["n2"] != after.nodes["n2"]


def test_feasible_node_ends_the_cached_refusal() -> None:
    state = cluster(node("n1", gpus=1))
    diagnosis(state, pod("a", gpus=2))
    state.upsert_node(node("n1", gpus=2))

    assert not isinstance(schedule_one(state, pod("a", gpus=2), ALLOW_ALL_MAPS), Rejection)


def test_nodes_are_reported_in_arrival_order() -> None:
    """Also one that went and came again while its pods were still known."""
    state = cluster(node("n1"), node("n2"), pod("resident", node="n1"))
    diagnosis(state, pod("a", gpus=2))
    state.delete_node("n1")
    state.upsert_node(node("n3"))
    state.upsert_node(node("n1"))

    assert list(diagnosis(state, pod("a", gpus=2)).nodes) == ["n2", "n3", "n1"]
    assert list(diagnosis(state, pod("a", gpus=3)).nodes) == ["n2", "n3", "n1"]


def test_changes_without_waiting_classes_are_not_kept() -> None:
    known = FilterResultCache(some_books(2))
    for _ in range(10):
        known.touch("n1")

    assert known.generation == 10
    assert known._changes == []


@pytest.mark.parametrize("touches", [CHANGES_MAX, CHANGES_MAX + 1, 3 * CHANGES_MAX])
def test_evicted_class_is_filtered_completely(touches: int) -> None:
    node_info, asked = some_books(3), Asked()
    known = FilterResultCache(node_info)
    known.of("kind", asked)
    for _ in range(touches):
        known.touch("n1")
    asked.names.clear()
    known.of("kind", asked)

    assert len(known._changes) <= CHANGES_MAX
    assert asked.names == (["n1"] if touches <= CHANGES_MAX else ["n0", "n1", "n2"])


def test_recently_used_classes_are_kept() -> None:
    """What is remembered does not grow with the number of kinds, nor with the cluster."""
    node_info, asked = some_books(2), Asked()
    node_info |= {f"gone{at}": NodeInfo(None) for at in range(RESULTS_MAX // 10)}
    known = FilterResultCache(node_info)
    known.of("first", asked)
    for number in range(3 * CLASSES_MIN):
        known.of(number, asked)
        known.of("first", asked)

    assert len(known) <= max(CLASSES_MIN, 10)
    asked.names.clear()
    known.of("first", asked)
    assert asked.names == []
