"""A changed node wakes the pods that it can take, beside those that are nominated for it."""

from __future__ import annotations

import pytest

from scheduler.decide.requeue_check import condition_at_node
from scheduler.framework.settings import Settings
from scheduler.model.pods.pod import Pod
from scheduler.plugins import default_pipeline
from scheduler.state.cache.cluster import Cluster
from tests.builders import ALLOW_ALL_MAPS, cluster, node, pod

OWN = default_pipeline(Settings(maps_allow="all", preemption="own"))
PREEMPTOR = pod("preemptor", gpus=1, priority=5, nominated="n1")
MARKED = {"type": "DisruptionTarget", "status": "True", "reason": "PreemptionByScheduler"}


def wakes(state: Cluster, one: Pod, node_name: str = "n1") -> bool:
    """Whether a change of the node requeues the pod."""
    return condition_at_node(state, OWN, one, node_name) is None


@pytest.mark.parametrize(
    ("one", "expected"),
    [
        pytest.param(pod("weaker", gpus=1, priority=4), False, id="weaker"),
        pytest.param(pod("equal", gpus=1, priority=5), False, id="equal"),
        pytest.param(pod("stronger", gpus=1, priority=6), True, id="stronger"),
        pytest.param(pod("other", gpus=1, priority=5, nominated="n2"), False, id="waits-for-n2"),
        pytest.param(PREEMPTOR, True, id="the-preemptor"),
        pytest.param(pod("mapped", map="0=n1:0"), False, id="mapped"),
        pytest.param(pod("small", requests={"cpu": "1"}), True, id="needs-no-gpu"),
    ],
)
def test_room_held_for_a_preemptor_wakes_no_weaker_pod(one: Pod, expected: bool) -> None:
    state = cluster(node("n1", gpus=1, with_gpu_indexes=True), node("n2", gpus=0), PREEMPTOR, one)

    assert wakes(state, one) is expected


def test_room_beside_the_preemptor_wakes_the_next_pod() -> None:
    state = cluster(node("n1", gpus=2), PREEMPTOR)

    assert wakes(state, pod("next", gpus=1))


def test_nominated_pods_of_other_nodes_count_in_topology_domains() -> None:
    """Its anti-affinity excludes the preemptor of another node in the zone."""
    term = {"labelSelector": {"matchLabels": {"app": "a"}}, "topologyKey": "zone"}
    anti = {
        "affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    }
    one = pod("one", gpus=1, spec=anti)
    nodes = [node(name, gpus=1, labels={"zone": "z"}) for name in ("n1", "n2")]
    held = pod("held", gpus=1, labels={"app": "a"}, nominated="n2")

    assert wakes(cluster(*nodes, one), one)
    assert not wakes(cluster(*nodes, one, held), one)


@pytest.mark.parametrize(
    ("one", "expected"),
    [
        pytest.param(pod("one", gpus=2, priority=5), True, id="a-weaker-pod-is-there"),
        pytest.param(pod("one", gpus=2), False, id="none-is-weaker"),
        pytest.param(pod("one", gpus=2, priority=5, nominated="n2"), False, id="waits-elsewhere"),
        pytest.param(
            pod("one", gpus=2, priority=5, spec={"preemptionPolicy": "Never"}), False, id="never"
        ),
        pytest.param(
            pod("one", gpus=2, priority=5, selector={"zone": "a"}), False, id="no-victim-helps"
        ),
    ],
)
def test_a_node_with_weaker_pods_wakes_a_pod_that_may_preempt(one: Pod, expected: bool) -> None:
    low = pod("low", gpus=1, node="n1", phase="Running")
    state = cluster(node("n1", gpus=2), node("n2", gpus=0), low, one)

    assert wakes(state, one) is expected
    assert condition_at_node(state, ALLOW_ALL_MAPS, one, "n1") is not None


@pytest.mark.parametrize("is_terminating", [True, False], ids=["victims-end", "no-victim-ends"])
def test_a_preemptor_whose_node_is_full_again_is_decided(is_terminating: bool) -> None:
    victim = pod("low", gpus=1, node="n1", deleting=is_terminating, status={"conditions": [MARKED]})
    taker = pod("taker", gpus=1, node="n1", priority=9)
    one = pod("one", gpus=2, priority=5, nominated="n1")
    state = cluster(node("n1", gpus=2), victim, taker, one)

    assert wakes(state, one) is not is_terminating


def test_a_preemptor_whose_node_is_gone_is_decided() -> None:
    one = pod("one", gpus=1, nominated="n1")

    assert wakes(cluster(one), one)
