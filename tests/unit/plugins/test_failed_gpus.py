"""An unreadable list of failed GPUs closes its node, in both assignment modes."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from scheduler.model.actions import RecordNodeEvent
from scheduler.model.node import Node
from scheduler.model.pods.pod import Pod
from scheduler.model.reasons.reason import sentence
from scheduler.plugins import REASON_CODES
from scheduler.report.events.unreadable_events import UnreadableEvents
from scheduler.report.metrics import Metrics
from scheduler.state import event as ev
from tests.builders import cluster, codes, dynamic, node, placed, pod, refused

UNUSABLE = "gpu-scheduler.io/unusable-devices"

Make = Callable[[dict[str, str]], Node]


def index_assigned(annotations: dict[str, str]) -> Node:
    return node(gpus=4, with_gpu_indexes=True, annotations=annotations)


def kubelet_assigned(annotations: dict[str, str]) -> Node:
    return node(gpus=4, annotations=annotations)


def without_a_plugin(annotations: dict[str, str]) -> Node:
    return node(annotations=annotations)


def cut_before(annotations: dict[str, str]) -> Node:
    return node(gpus=1, mig={"1g.10gb": 7}, annotations=annotations)


def dynamic_mig(annotations: dict[str, str]) -> Node:
    return dynamic(gpus=2, annotations=annotations)


WHOLE, SLICE, MAPPED = pod(gpus=1), pod(mig={"1g.10gb": 1}), pod("p-0", map="0=n1:3")
NODES = [
    pytest.param(index_assigned, WHOLE, id="index-assigned"),
    pytest.param(index_assigned, MAPPED, id="index-assigned-and-mapped"),
    pytest.param(kubelet_assigned, WHOLE, id="kubelet-assigned"),
    pytest.param(kubelet_assigned, MAPPED, id="kubelet-assigned-and-mapped"),
    pytest.param(without_a_plugin, MAPPED, id="no-plugin-and-mapped"),
    pytest.param(cut_before, WHOLE, id="mig-and-a-whole-gpu"),
    pytest.param(cut_before, SLICE, id="mig"),
    pytest.param(dynamic_mig, SLICE, id="dynamic-mig"),
]
LISTS = [
    pytest.param("1,x", id="a-word"),
    pytest.param("1;2", id="another-separator"),
    pytest.param("1 2", id="blanks-between"),
    pytest.param("1-3", id="a-range"),
    pytest.param("1..3", id="another-range"),
    pytest.param("-1", id="negative"),
    pytest.param("+1", id="a-sign"),
    pytest.param("1.0", id="a-fraction"),
    pytest.param("0x1", id="hexadecimal"),
    pytest.param("256", id="beyond-the-bound"),
    pytest.param("9" * 5000, id="a-huge-number"),
    pytest.param("1 # XID 79", id="text-behind"),
    pytest.param("1,GPU-3f0c", id="an-id"),
    pytest.param("[1]", id="a-list-of-json"),
    pytest.param("\u0661", id="digits-of-another-alphabet"),
    pytest.param(",".join(["1"] * 257), id="too-many"),
    pytest.param("all", id="all"),
]


@pytest.mark.parametrize("text", LISTS)
@pytest.mark.parametrize(("make", "newcomer"), NODES)
def test_unreadable_failed_gpu_list_offers_no_gpu(make: Make, newcomer: Pod, text: str) -> None:
    assert codes(cluster(make({UNUSABLE: text})), newcomer) == {REASON_CODES["NODE_UNREADABLE"]}
    placed(cluster(make({})), newcomer)


@pytest.mark.parametrize("text", LISTS)
@pytest.mark.parametrize("make", sorted({one.values[0] for one in NODES}, key=str))
def test_unreadable_failed_gpu_list_is_reported_on_the_node(make: Make, text: str) -> None:
    notes = UnreadableEvents(Metrics("gpu-scheduler"))
    notes.handle(ev.NodeUpdated(make({UNUSABLE: text})), 0.0)
    [event] = notes.tick(0.0, leads=True)
    assert isinstance(event, RecordNodeEvent)
    assert event.reason == "NodeUnreadable"
    assert event.text.startswith(f"annotation {UNUSABLE}: ")


def test_pod_without_a_gpu_uses_a_node_with_unreadable_failures() -> None:
    placed(cluster(index_assigned({UNUSABLE: "1,x"})), pod(requests={"cpu": "1"}))


def test_failed_gpu_is_not_partitioned() -> None:
    """A dynamic MIG node has room on the other GPUs only."""
    state = cluster(dynamic(gpus=2, annotations={UNUSABLE: "0"}))
    assert {mig_placement.gpu for mig_placement in placed(state, SLICE).devices.mig_placements} == {
        1
    }

    state = cluster(dynamic(gpus=1, annotations={UNUSABLE: "0"}))
    assert "Insufficient nvidia.com/mig-1g.10gb" in sentence(refused(state, SLICE).diagnosis)
