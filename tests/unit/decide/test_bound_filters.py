"""Filters that PreFilter binds: how often they, and the terms of placed pods, are asked."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import CodeType, FrameType
from typing import Any

import msgspec

from scheduler.decide.schedule_one import schedule_one
from scheduler.framework.plugin import BoundFilter, Plugin, Reasons
from scheduler.framework.settings import Settings
from scheduler.framework.view import View
from scheduler.model.node import Namespace
from scheduler.model.pods.pod import Pod
from scheduler.model.reasons.reason import Reason
from scheduler.plugins import inter_pod_affinity
from scheduler.state.cache.cluster import Cluster
from scheduler.state.node_info import NodeInfo
from scheduler.state.topology.live_terms import LiveTerms
from scheduler.state.topology.topology import Topology
from tests.builders import ALLOW_ALL_MAPS, cluster, node, placed, pod

NODES = 5
REJECTED = (Reason(code=inter_pod_affinity.POD_ANTI_AFFINITY, text="node(s) rejected"),)
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"


def apart(app: str) -> dict[str, Any]:
    term = {"labelSelector": {"matchLabels": {"app": app}}, "topologyKey": "zone"}
    return {"affinity": {"podAntiAffinity": {REQUIRED: [term]}}}


class Counting:
    """A plugin whose bound filter rejects every node, and counts its calls."""

    def __init__(self, generation: Callable[[View], int | None]) -> None:
        self.calls = 0
        self._generation = generation

    def pre_filter(self, view: View, _pod: Pod, _settings: Settings) -> BoundFilter:
        return BoundFilter(self._check, generation=self._generation(view))

    def _check(self, _node_info: NodeInfo) -> Reasons:
        self.calls += 1
        return REJECTED

    def decide(self, state: Cluster, *pods: Pod) -> int:
        """The calls for these pods."""
        plugin = Plugin(name="Counting", pre_filter=self.pre_filter)
        plugins = (*ALLOW_ALL_MAPS.plugins, plugin)
        pipeline = msgspec.structs.replace(ALLOW_ALL_MAPS, plugins=plugins)
        before = self.calls
        for one in pods:
            schedule_one(state, one, pipeline)
        return self.calls - before


def of_topology(view: View) -> int | None:
    return view.topology.generation


def waiting(number: int) -> list[Pod]:
    return [pod(f"p-{one}", gpus=1, labels={"app": "x"}) for one in range(number)]


def world() -> Cluster:
    return cluster(*(node(f"n{one}", gpus=1, labels={"zone": "a"}) for one in range(NODES)))


def test_equal_pods_are_filtered_once_on_an_unchanged_state() -> None:
    counting = Counting(of_topology)
    state = world()

    once = counting.decide(state, *waiting(1))

    assert once >= NODES
    assert counting.decide(state, *waiting(20)) == 0


def test_changed_node_is_filtered_again() -> None:
    counting = Counting(of_topology)
    state = world()
    counting.decide(state, *waiting(1))

    state.upsert_node(node("n0", gpus=1, labels={"zone": "b"}))

    assert counting.decide(state, *waiting(1)) >= NODES


def test_changed_domain_is_filtered_again() -> None:
    counting = Counting(of_topology)
    state = world()
    counting.decide(state, *waiting(1))
    state.upsert_pod(pod("guard", node="gone", spec=apart("x")))

    assert counting.decide(state, *waiting(1)) >= NODES


def test_pods_with_other_terms_are_filtered_on_their_own() -> None:
    counting = Counting(of_topology)
    state = world()
    counting.decide(state, *waiting(1))

    assert counting.decide(state, pod("other", gpus=1, spec=apart("y"))) >= NODES


def test_filters_without_a_generation_are_asked_each_time() -> None:
    counting = Counting(lambda _: None)
    state = world()
    counting.decide(state, *waiting(1))

    assert counting.decide(state, *waiting(1)) >= NODES


# --- live terms ----------------------------------------------------------------------


@contextmanager
def calls_of(code: CodeType) -> Iterator[list[int]]:
    """The number of calls of a function, as the only item of the list."""
    counts = [0]

    def note(frame: FrameType, event: str, _argument: object) -> None:
        counts[0] += event == "call" and frame.f_code is code

    before = sys.getprofile()
    sys.setprofile(note)
    try:
        yield counts
    finally:
        sys.setprofile(before)


def test_terms_of_placed_pods_are_compared_once_per_class() -> None:
    """Both kinds of terms, once for all pods that differ only in labels that no term reads."""
    state = world()
    state.upsert_pod(pod("guard", node="n0", spec=apart("guarded")))
    pods = [pod(f"p-{one}", gpus=1, labels={"app": "x", "name": str(one)}) for one in range(50)]

    with calls_of(LiveTerms.matching.__code__) as calls:
        for one in pods:
            placed(state, one)

    assert calls == [2]


def test_pods_cost_nothing_where_no_placed_pod_has_a_term() -> None:
    state = world()

    with calls_of(LiveTerms.matching.__code__) as calls:
        placed(state, pod("p", gpus=1, labels={"app": "x"}))

    assert calls == [0]


def test_namespace_is_read_once_per_class_and_change_of_terms() -> None:
    read: list[str] = []

    def namespace(name: str) -> Namespace:
        read.append(name)
        return Namespace(name=name)

    topology = Topology(namespace)
    topology.add_pod(pod("guard", spec=apart("guarded")), "n0")
    read.clear()
    for number in range(50):
        assert not list(topology.anti_terms(pod(f"p-{number}", labels={"app": "x"})))
    topology.add_pod(pod("again", spec=apart("guarded")), "n0")
    assert not list(topology.anti_terms(pod("p", labels={"app": "x"})))
    assert read == ["team"]

    topology.add_pod(pod("new", spec=apart("x")), "n0")

    assert len(list(topology.anti_terms(pod("p", labels={"app": "x"})))) == 1
    assert read == ["team", "team"]
