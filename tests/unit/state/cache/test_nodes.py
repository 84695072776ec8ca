"""Which changes of a node requeue refused pods, and which do not."""

from __future__ import annotations

import pytest

from scheduler.model.node import Node
from scheduler.model.reasons.reason import RequeueCause
from scheduler.state import event as ev
from scheduler.state.index.label_keys import KEYS_PER_POD_MAX
from tests.best_node import best_node
from tests.builders import cluster, node, pod

BETTER = [
    pytest.param(node(gpus=2, with_gpu_indexes=True), False, id="a-heartbeat"),
    pytest.param(node(gpus=3, with_gpu_indexes=True), True, id="more-of-something"),
    pytest.param(node(gpus=1, with_gpu_indexes=True), False, id="less-of-something"),
    pytest.param(node(with_gpu_indexes=True), True, id="it-says-no-more-how-many-it-has"),
    pytest.param(node(gpus=2), True, id="other-people-number-its-devices"),
    pytest.param(node(gpus=2, with_gpu_indexes=True, cordoned=True), True, id="cordoned"),
    pytest.param(node(gpus=2, with_gpu_indexes=True, taints=["a:NoSchedule"]), True, id="tainted"),
    pytest.param(node(gpus=2, with_gpu_indexes=True, labels={"stamp": "9"}), False, id="a-label"),
    pytest.param(
        node(gpus=2, with_gpu_indexes=True, labels={"zone": "b"}), True, id="a-named-label"
    ),
    pytest.param(
        node(gpus=2, with_gpu_indexes=True, labels={"gpu-node": "n"}), True, id="an-alias"
    ),
    pytest.param(
        node(gpus=2, with_gpu_indexes=True, labels={"nvidia.com/mig.config.state": "success"}),
        True,
        id="its-gpus-are-cut-now",
    ),
    pytest.param(
        node(gpus=2, with_gpu_indexes=True, labels={"nvidia.com/gpu.product": "A30"}),
        True,
        id="its-gpus-are-slices-no-more",
    ),
]


@pytest.mark.parametrize(("after", "helps"), BETTER)
def test_a_node_that_changes_wakes_only_for_what_could_help(after: Node, helps: bool) -> None:
    """Real nodes carry timestamps: a label that no pod selects must not requeue a pod."""
    state = cluster(pod("a", selector={"zone": "b"}), node(gpus=2, with_gpu_indexes=True))

    lifted = [ev.ClusterEvent(RequeueCause.NODE, node_name="n1")]
    assert state.upsert_node(after) == (lifted if helps else [])


def test_a_label_that_the_index_does_not_hold_still_counts() -> None:
    """A pod that names very many adds none to the index, and waits for them all the same."""
    fields = {f"key-{number}": "x" for number in range(KEYS_PER_POD_MAX)} | {"zone": "b"}
    state = cluster(pod("a", selector=fields), node(labels={"zone": "a"}))

    assert "zone" not in state.index.keys
    assert state.upsert_node(node(labels={"zone": "b"})) == [
        ev.ClusterEvent(RequeueCause.NODE, node_name="n1")
    ]


def test_unreferenced_label_no_longer_requeues() -> None:
    waits = pod("a", selector={"zone": "b"})
    state = cluster(waits, node(labels={"zone": "a"}))
    state.delete_pod(waits.uid)

    assert state.upsert_node(node(labels={"zone": "c"})) == []


def test_gated_pod_may_change_its_selector_labels() -> None:
    """Scheduling gates let an author, or a queue, narrow the selector."""
    state = cluster(pod("a", gates=["queue"]), node(labels={"zone": "a"}))
    state.upsert_pod(pod("a", gates=["queue"], selector={"zone": "b"}))

    assert state.upsert_node(node(labels={"zone": "b"})) == [
        ev.ClusterEvent(RequeueCause.NODE, node_name="n1")
    ]


@pytest.mark.parametrize("gone", ["a", "b", "c"])
def test_a_folded_list_of_pods_leaves_the_index_of_every_node_true(gone: str) -> None:
    names = {"a": "n1", "b": "n2", "c": "n3"}
    held = {name: pod(name, gpus=2, node=at) for name, at in names.items()}
    state = cluster(*(node(at, gpus=2) for at in names.values()), *held.values())

    with state.nodes.indexed_once():
        state.delete_pod(held[gone].uid)

    found = best_node(state, pod("d", gpus=1))
    assert found is not None
    assert found.node is not None
    assert found.node.name == names[gone]


def test_a_folded_list_of_pods_may_lose_a_node() -> None:
    state = cluster(node("n1"), pod("a", gpus=1, node="n1"))

    with state.nodes.indexed_once():
        state.delete_pod(pod("a").uid)
        state.delete_node("n1")

    assert best_node(state, pod("d")) is None
