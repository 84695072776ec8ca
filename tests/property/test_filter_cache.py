"""A cached rejection equals, byte for byte, a check of every node."""

from __future__ import annotations

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st

from scheduler.decide import best_fit
from scheduler.decide.schedule_one import schedule_one
from scheduler.decide.view import WhatIfView
from scheduler.framework.budget import Budget
from scheduler.framework.decision import Rejection
from scheduler.framework.pod_reads import IN_EQUIVALENCE_CLASS
from scheduler.framework.view import View
from scheduler.model.gpu.device import Devices
from scheduler.model.node import Node
from scheduler.model.pods.pod import Pod
from scheduler.model.reasons.reason import Diagnosis
from scheduler.state.cache.cluster import Assumption, Cluster
from scheduler.state.index import filter_cache as verdicts_module
from tests.builders import ALLOW_ALL_MAPS
from tests.property.strategies import NODE_NAMES, nodes, strangers, wanted

STEPS = st.lists(
    st.one_of(
        nodes(),
        st.sampled_from(NODE_NAMES),
        st.integers(0, 5).flatmap(strangers),
        st.integers(10, 15),
        st.integers(0, 9).flatmap(wanted),
        st.integers(0, 9).flatmap(wanted),
    ),
    min_size=4,
    max_size=25,
)
FEWER = settings(max_examples=settings().max_examples // 2)


def ask_twice(view: View, pod: Pod) -> None:
    """The first answer may be looked up afresh, the second is remembered; both are the truth.

    What is remembered does not count: with any number of steps they are the same as well.
    """
    for most in (2, 5, 10, 20):
        few = msgspec.structs.replace(ALLOW_ALL_MAPS, decision_steps_max=most)
        assert schedule_one(view, pod, few) == schedule_one(view, pod, few)
    first, second = schedule_one(view, pod, ALLOW_ALL_MAPS), schedule_one(view, pod, ALLOW_ALL_MAPS)
    assert first == second
    if not isinstance(first, Rejection) or not isinstance(second, Rejection):
        return
    for diagnosis in (first.diagnosis, second.diagnosis):
        again = Diagnosis(
            total=diagnosis.total,
            nodes=dict(diagnosis.nodes),
            general=diagnosis.general,
            impossible=diagnosis.impossible,
            behind=diagnosis.behind,
        )
        assert diagnosis.summary == again.summary
    if pod.map_text is None and first.diagnosis.general is None:
        found, rejected = best_fit.scan(view.candidates(), pod, Budget(10**9), ALLOW_ALL_MAPS)
        assert found is None
        assert list(first.diagnosis.nodes.items()) == list(rejected.items())
        assert first.diagnosis.total == len(rejected)


def twin(pod: Pod, uid: str) -> Pod:
    """Another pod with the same requests."""
    return msgspec.structs.replace(pod, uid=uid, name=uid, namespace="elsewhere", labels={"a": uid})


def play(steps: list[Node | Pod | str | int]) -> None:
    cluster = Cluster()
    for step in steps:
        if isinstance(step, Node):
            cluster.upsert_node(step)
        elif isinstance(step, str):
            cluster.delete_node(step)
        elif isinstance(step, int):
            cluster.delete_pod(f"s{step - 10}")
        elif step.node_name:
            cluster.upsert_pod(step)
        elif step.uid not in cluster.pods:
            newcomer(cluster, step)


def newcomer(cluster: Cluster, pod: Pod) -> None:
    cluster.upsert_pod(pod)
    ask_twice(cluster, pod)
    if pod.map_text is None:
        ask_twice(cluster, twin(pod, "twin"))
    overlay = WhatIfView(cluster)
    overlay.place(twin(pod, "tried"), "n1", Devices())
    ask_twice(overlay, pod)
    decision = schedule_one(cluster, pod, ALLOW_ALL_MAPS)
    if not isinstance(decision, Rejection):
        cluster.assume(pod, Assumption(decision.node_name, decision.devices, decision.index))


@FEWER
@given(STEPS)
def test_cached_refusal_equals_a_full_scan(
    steps: list[Node | Pod | str | int],
) -> None:
    play(steps)


@FEWER
@given(STEPS)
def test_tiny_cache_gives_the_same_refusals(
    steps: list[Node | Pod | str | int],
) -> None:
    before = (
        verdicts_module.CHANGES_MAX,
        verdicts_module.RESULTS_MAX,
        verdicts_module.CLASSES_MIN,
    )
    verdicts_module.CHANGES_MAX, verdicts_module.RESULTS_MAX, verdicts_module.CLASSES_MIN = 3, 1, 2
    try:
        play(steps)
    finally:
        (
            verdicts_module.CHANGES_MAX,
            verdicts_module.RESULTS_MAX,
            verdicts_module.CLASSES_MIN,
        ) = before


@FEWER
@given(st.integers(0, 9).flatmap(wanted), st.integers(0, 9).flatmap(wanted), st.lists(nodes()))
def test_pods_of_one_class_get_one_answer(one: Pod, other: Pod, offered: list[Node]) -> None:
    """Whatever else they are: the queue tries one of them for all."""
    if one.map_text is not None or other.map_text is not None:
        return
    cluster = Cluster()
    for node in offered:
        cluster.upsert_node(node)
    answers = [
        best_fit.scan(cluster.candidates(), pod, Budget(10**9), ALLOW_ALL_MAPS)[1]
        for pod in (one, other)
    ]

    assert one.equivalence_class != other.equivalence_class or answers[0] == answers[1]


@FEWER
@given(st.integers(0, 9).flatmap(wanted), st.integers(0, 9).flatmap(wanted))
def test_pods_of_one_class_are_equal_in_all_that_plugins_read(one: Pod, other: Pod) -> None:
    if one.map_text is not None or other.map_text is not None:
        return
    differing = {read.name for read in IN_EQUIVALENCE_CLASS if read.of(one) != read.of(other)}

    assert one.equivalence_class != other.equivalence_class or differing == set()
