"""Which changes of a node wake who was refused, and which are no news."""

from __future__ import annotations

import pytest

from scheduler.model.node import Node
from scheduler.model.reason import Cause
from scheduler.state import event as ev
from scheduler.state.index import KEYS_MAX
from tests.builders import cluster, node, pod

BETTER = [
    pytest.param(node(gpus=2, numbered=True), False, id="a-heartbeat"),
    pytest.param(node(gpus=3, numbered=True), True, id="more-of-something"),
    pytest.param(node(gpus=1, numbered=True), False, id="less-of-something"),
    pytest.param(node(numbered=True), True, id="it-says-no-more-how-many-it-has"),
    pytest.param(node(gpus=2), True, id="other-people-number-its-devices"),
    pytest.param(node(gpus=2, numbered=True, cordoned=True), True, id="cordoned"),
    pytest.param(node(gpus=2, numbered=True, taints=["a:NoSchedule"]), True, id="tainted"),
    pytest.param(node(gpus=2, numbered=True, labels={"stamp": "9"}), False, id="a-label"),
    pytest.param(node(gpus=2, numbered=True, labels={"zone": "b"}), True, id="a-named-label"),
    pytest.param(node(gpus=2, numbered=True, labels={"gpu-node": "n"}), True, id="an-alias"),
    pytest.param(
        node(gpus=2, numbered=True, labels={"nvidia.com/mig.config.state": "success"}),
        True,
        id="its-gpus-are-cut-now",
    ),
    pytest.param(
        node(gpus=2, numbered=True, labels={"nvidia.com/gpu.product": "A30"}),
        True,
        id="its-gpus-are-slices-no-more",
    ),
]


@pytest.mark.parametrize(("after", "helps"), BETTER)
def test_a_node_that_changes_wakes_only_for_what_could_help(after: Node, helps: bool) -> None:
    """Real nodes carry timestamps: a label that no pod ever named must not wake anybody."""
    state = cluster(pod("a", selector={"zone": "b"}), node(gpus=2, numbered=True))

    lifted = [ev.Lifted(Cause.NODE, node_name="n1")]
    assert state.see_node(after) == (lifted if helps else [])


def test_a_label_that_was_named_long_ago_still_counts() -> None:
    """The index may forget keys when there are too many; the pod that named one still waits."""
    state = cluster(pod("a", selector={"zone": "b"}), node())
    for number in range(KEYS_MAX):
        state.refer(pod(f"p{number}", selector={f"key-{number}": "x"}))

    assert "zone" not in state.index.keys
    assert state.see_node(node(labels={"zone": "b"})) == [ev.Lifted(Cause.NODE, node_name="n1")]
