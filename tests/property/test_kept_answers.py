"""A cluster that has decided before gives the same decisions as one that has not."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from scheduler.decide.schedule_one import schedule_one
from scheduler.framework.decision import Decision
from scheduler.framework.settings import Settings
from scheduler.model.disruption_budget import DisruptionBudget
from scheduler.model.node import Node
from scheduler.model.pods.pod import Pod
from scheduler.model.pods.pod_affinity import pod_selector
from scheduler.model.selector import LabelSelector
from scheduler.plugins import default_pipeline
from scheduler.state.cache.cluster import Cluster
from tests.builders import PodFields, node, pod

PIPELINE = default_pipeline(Settings(preemption="own"))
NODES = ["n1", "n2", "n3"]
NEWCOMERS = [
    pod("small", requests={"cpu": "1"}),
    pod("twin", requests={"cpu": "1"}),
    pod("strong", requests={"cpu": "3", "memory": "2Gi"}, priority=9),
    pod("middle", requests={"cpu": "2"}, priority=5),
    pod("gpu", gpus=1, requests={"cpu": "1"}, priority=5),
]
TAKES: list[PodFields] = [{"requests": {"cpu": "1"}}, {"requests": {"cpu": "2"}}, {"gpus": 1}]


@st.composite
def pods(draw: st.DrawFn) -> Pod:
    """A placed pod, or one that is nominated for a node."""
    name, where = draw(st.sampled_from("abcdef")), draw(st.sampled_from(NODES))
    is_placed = draw(st.booleans())
    return pod(
        name,
        node=where if is_placed else "",
        nominated="" if is_placed else where,
        phase="Running" if is_placed else "Pending",
        priority=draw(st.sampled_from([0, 5, 9])),
        labels={"app": draw(st.sampled_from("xy"))},
        deleting=draw(st.sampled_from([False, False, True])),
        **draw(st.sampled_from(TAKES)),
    )


@st.composite
def nodes(draw: st.DrawFn) -> Node:
    cpu, gpus = draw(st.sampled_from(["2", "4", "8"])), draw(st.sampled_from([None, 1, 2]))
    taints = draw(st.sampled_from([(), (), ("a=b:NoSchedule",), ("a=b:PreferNoSchedule",)]))
    return node(draw(st.sampled_from(NODES)), cpu=cpu, gpus=gpus, taints=taints)


def budgets() -> st.SearchStrategy[DisruptionBudget]:
    return st.builds(
        lambda app, allowed: DisruptionBudget(
            namespace="team",
            name=app,
            selector=pod_selector(LabelSelector(match_labels={"app": app})),
            allowed=allowed,
        ),
        st.sampled_from("xy"),
        st.integers(0, 2),
    )


Change = Pod | Node | DisruptionBudget | str
CHANGES = st.one_of(pods(), pods(), nodes(), budgets(), st.sampled_from(["-a", "-b", "-n1", "!n2"]))


def apply(cluster: Cluster, change: Change) -> None:
    match change:
        case Pod():
            cluster.upsert_pod(change)
        case Node():
            cluster.upsert_node(change)
        case DisruptionBudget():
            cluster.preemptions.upsert_budget(change)
        case "!n2":
            found = cluster.at("n2")
            is_avoided = found is not None and bool(found.avoided)
            cluster.avoid("n2", frozenset(() if is_avoided else ("team/",)))
        case str() if change[1:] in NODES:
            cluster.delete_node(change[1:])
        case _:
            cluster.delete_pod(pod(change[1:]).uid)


def decisions(cluster: Cluster) -> list[Decision]:
    """What becomes of the newcomers."""
    return [schedule_one(cluster, newcomer, PIPELINE) for newcomer in NEWCOMERS]


@settings(max_examples=40, deadline=None)
@given(st.lists(CHANGES, min_size=4, max_size=10))
def test_a_decision_does_not_depend_on_the_decisions_before_it(changes: list[Change]) -> None:
    warm = Cluster()
    every: list[Change] = [node(name, cpu="4", gpus=1) for name in NODES]
    for change in every:
        apply(warm, change)
    for change in changes:
        apply(warm, change)
        every.append(change)
        cold = Cluster()
        for one in every:
            apply(cold, one)

        assert decisions(warm) == decisions(cold)
