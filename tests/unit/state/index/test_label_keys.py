"""Label keys that pods select cost the index a bounded number of rebuilds."""

from __future__ import annotations

from typing import Any

from scheduler.model.pods.pod import Pod
from scheduler.state.cache.cluster import Cluster
from scheduler.state.index.label_keys import KEYS_MAX, KEYS_PER_POD_MAX, PATIENCE
from tests.builders import node, pod


def names(name: str, *keys: str) -> Pod:
    """A pod whose selector names these label keys."""
    return pod(name, selector=dict.fromkeys(keys, "x"))


def labelled(*keys: str, count: int = 3) -> Cluster:
    """Nodes that have these labels."""
    state = Cluster()
    for number in range(count):
        state.upsert_node(node(f"n{number}", labels=dict.fromkeys(keys, "x")))
    return state


def see(state: Cluster, *pods: Pod) -> int:
    """How often the index was rebuilt for these pods."""
    before = state.index.rebuilt
    for one in pods:
        state.upsert_pod(one)
    return state.index.rebuilt - before


def test_selected_labels_absent_from_all_nodes_cost_nothing() -> None:
    state = labelled("zone")
    pods = [names(f"p{n}", f"key-{n}") for n in range(1000)]

    assert see(state, *pods) == 0
    assert all(state.index.covers(one.label_keys) for one in pods)


def test_a_label_is_taken_once_enough_pods_have_named_it() -> None:
    state = labelled("zone")

    assert see(state, *(names(f"p{n}", "zone") for n in range(PATIENCE - 1))) == 0
    assert not state.index.covers(["zone"])
    assert see(state, names("last", "zone")) == 1
    assert state.index.covers(["zone"])
    assert see(state, *(names(f"q{n}", "zone") for n in range(100))) == 0


def test_pods_that_name_a_new_label_each_pay_for_it_together() -> None:
    keys = [f"key-{n}" for n in range(64)]
    state = labelled(*keys)

    assert see(state, *(names(f"p{n}", key) for n, key in enumerate(keys))) == 64 // PATIENCE
    assert set(state.index.keys) == set(keys)


def test_a_pod_that_names_very_many_labels_adds_none() -> None:
    keys = [f"key-{n}" for n in range(KEYS_PER_POD_MAX + 1)]
    state = labelled(*keys)
    before = state.index.keys

    assert see(state, *(names(f"p{n}", *keys) for n in range(10 * PATIENCE))) == 0
    assert state.index.keys == before


def test_index_limits_label_keys_and_drops_only_unreferenced_ones() -> None:
    keys = [f"key-{n}" for n in range(2 * KEYS_MAX)]
    state = labelled(*keys)
    pods = [names(f"p{n}", key) for n, key in enumerate(keys)]
    see(state, *pods)
    assert set(state.index.keys) == set(keys[:KEYS_MAX])

    for one in pods[: 2 * PATIENCE]:
        state.delete_pod(one.uid)
    see(state, *(names(f"late{n}", keys[-1 - n]) for n in range(PATIENCE)))

    held = set(state.index.keys)
    assert len(held) <= KEYS_MAX
    assert set(keys[2 * PATIENCE : KEYS_MAX]) <= held
    assert set(keys[-PATIENCE:]) <= held


def test_label_churn_rebuilds_the_index_at_most_once_per_eight_pods() -> None:
    keys = [f"key-{n}" for n in range(3 * KEYS_MAX)]
    state = labelled(*keys)
    before, count = state.index.rebuilt, 4 * len(keys)
    for number in range(count):
        one = names(f"p{number}", keys[number % len(keys)])
        state.upsert_pod(one)
        state.delete_pod(one.uid)

    assert state.index.rebuilt - before <= count // PATIENCE


def test_a_label_that_waits_for_its_first_node_is_taken_with_it() -> None:
    state = Cluster()
    see(state, names("a", "zone"))
    state.upsert_node(node("n1", labels={"zone": "x"}))

    assert state.index.covers(["zone"])
    assert state.index.keys == ("zone",)


def test_classes_stay_few_whatever_labels_are_taken_at_once() -> None:
    """Nodes that differ in many labels of few values each."""
    state = Cluster()
    for number in range(1200):
        bits: dict[str, Any] = {f"bit-{at}": str(number >> at & 1) for at in range(11)}
        state.upsert_node(node(f"n{number}", labels=bits))

    assert see(state, *(names(f"p{n}", *bits) for n in range(PATIENCE))) == 2
    assert len(state.index.classes) <= 512
    assert {*state.index.keys, *state.index.high_cardinality} == set(bits)
