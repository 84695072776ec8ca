"""Preemption takes only pods that it may take, and none that it need not take."""

from __future__ import annotations

from typing import Any

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from scheduler.decide.post_filter import NodeTrial
from scheduler.decide.schedule_one import schedule_one
from scheduler.framework.budget import Budget
from scheduler.framework.decision import Placement, Preemption
from scheduler.framework.settings import Settings
from scheduler.model.disruption_budget import DisruptionBudget
from scheduler.model.node import Node
from scheduler.model.pods.pod import Pod
from scheduler.model.pods.pod_affinity import pod_selector
from scheduler.model.selector import LabelSelector
from scheduler.plugins import default_pipeline
from scheduler.state.cache.cluster import Cluster
from tests.builders import ALLOW_ALL_MAPS, as_bound, cluster, dynamic, node, pod

OWN = default_pipeline(Settings(maps_allow="all", preemption="own"))
ALL = default_pipeline(Settings(maps_allow="all", preemption="all"))

NODES: list[list[Node]] = [
    [node("n0", gpus=3, with_gpu_indexes=True), node("n1", gpus=2)],
    [node("n0", gpus=2, mig={"2g.20gb": 2, "1g.10gb": 2}), node("n1", gpus=1, cpu="4")],
    [dynamic("n0", gpus=2), node("n1", mig={"1g.10gb": 2, "3g.40gb": 1})],
]
asks = st.sampled_from(
    [
        {"gpus": 1},
        {"gpus": 2},
        {"mig": {"1g.10gb": 1}},
        {"mig": {"2g.20gb": 1}},
        {"mig": {"3g.40gb": 1}},
        {"mig": {"4g.40gb": 1}},
        {"requests": {"cpu": "3"}},
        {"gpus": 1, "ports": [{"hostPort": 80}]},
        {"gpus": 1, "map": "0=n0:0\n1=n0:1"},
    ]
)
priorities = st.integers(0, 3)
schedulers = st.sampled_from(["gpu-scheduler"] * 3 + ["other"])
labels = st.sampled_from([{}, {"app": "a"}, {"app": "b"}])
starts = st.integers(0, 9)
placed = st.lists(st.tuples(asks, priorities, schedulers, labels, starts), max_size=9)
budgets = st.lists(st.tuples(st.sampled_from("ab"), st.integers(0, 2)), max_size=2)


def world(nodes: list[Node], pods: list[Any], limits: list[tuple[str, int]]) -> Cluster:
    """As many of these pods as find room, each bound where the scheduler would put it."""
    state = cluster(*nodes)
    for number, (ask, priority, scheduler, marks, start) in enumerate(pods):
        one = pod(f"v-{number % 2}", uid=f"v{number}", priority=priority, labels=marks, **ask)
        decision = schedule_one(state, one, ALLOW_ALL_MAPS)
        if isinstance(decision, Placement):
            bound = as_bound(decision)
            fields = {"scheduler_name": scheduler, "started": f"2026-11-27T10:00:0{start}Z"}
            state.upsert_pod(msgspec.structs.replace(bound, **fields))
    for number, (value, allowed) in enumerate(limits):
        selector = pod_selector(LabelSelector(match_labels={"app": value}))
        state.preemptions.upsert_budget(
            DisruptionBudget(
                namespace="team", name=f"b{number}", selector=selector, allowed=allowed
            )
        )
    return state


def fits_without(state: Cluster, newcomer: Pod, found: Preemption, gone: list[Pod]) -> bool:
    """Whether the preemptor's node takes it without these pods."""
    node_name = found.nominated_node
    trial = NodeTrial(state, newcomer, OWN, node_name, (), Budget(10**9))
    for one in gone:
        trial.remove(one.uid)
    return trial.reasons() == ()


@given(
    st.sampled_from(NODES), placed, budgets, asks, st.integers(1, 4), st.sampled_from([OWN, ALL])
)
def test_victims_are_weaker_permitted_and_all_needed(
    nodes: list[Node],
    pods: list[Any],
    limits: list[tuple[str, int]],
    ask: dict[str, Any],
    priority: int,
    pipeline: Any,
) -> None:
    state = world(nodes, pods, limits)
    newcomer = pod("p-0", priority=priority, **ask)

    found = schedule_one(state, newcomer, pipeline)

    if not isinstance(found, Preemption):
        return
    victims = list(found.victims)
    assert victims
    assert all(victim.priority < newcomer.priority for victim in victims)
    assert all(victim.node_name == found.nominated_node for victim in victims)
    if pipeline is OWN:
        assert {victim.scheduler_name for victim in victims} == {"gpu-scheduler"}
    assert fits_without(state, newcomer, found, victims)
    for victim in victims:
        others = [one for one in victims if one is not victim]
        assert not fits_without(state, newcomer, found, others), f"{victim.name} need not go"


@given(st.sampled_from(NODES), placed, asks, st.integers(1, 4))
def test_the_preemptor_finds_its_node_once_the_victims_are_gone(
    nodes: list[Node], pods: list[Any], ask: dict[str, Any], priority: int
) -> None:
    state = world(nodes, pods, [])
    newcomer = pod("p-0", priority=priority, **ask)
    found = schedule_one(state, newcomer, ALL)
    if not isinstance(found, Preemption):
        return
    state.nominations.nominate(newcomer, found.nominated_node)

    for victim in found.victims:
        state.delete_pod(victim.uid)

    decision = schedule_one(state, newcomer, ALL)
    assert isinstance(decision, Placement)
    assert decision.node_name == found.nominated_node
    assert decision.devices.numbers == found.devices.numbers


@given(st.sampled_from(NODES), placed, asks, st.integers(1, 4))
def test_a_decision_to_preempt_changes_no_state(
    nodes: list[Node], pods: list[Any], ask: dict[str, Any], priority: int
) -> None:
    state = world(nodes, pods, [])
    newcomer = pod("p-0", priority=priority, **ask)
    before = {name: dict(one.pods) for name, one in state.nodes.node_info.items()}

    first = schedule_one(state, newcomer, ALL)

    assert {name: dict(one.pods) for name, one in state.nodes.node_info.items()} == before
    assert schedule_one(state, newcomer, ALL) == first
