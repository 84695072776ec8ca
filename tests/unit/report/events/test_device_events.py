"""GPU status of kubelets is reported once: on the pod that holds the GPU, and on the node."""

from __future__ import annotations

from typing import Any

import pytest

from scheduler.model.actions import RecordNodeEvent, RecordPodEvent
from scheduler.model.pods.pod import Pod
from scheduler.report.events.device_events import SETTLE_S, DeviceEvents
from scheduler.state import event as ev
from scheduler.state.cache.cluster import Cluster
from scheduler.state.fold import fold
from tests.builders import node
from tests.unit.state.test_reported_devices import IDS, has

NUMBERED = "gpu-scheduler.io/devices"


class World:
    """A cluster, its device events, and what they reported."""

    def __init__(self, *events: ev.Event) -> None:
        self.cluster = Cluster(maps_allow="all")
        self.notes = DeviceEvents(self.cluster.nodes)
        self.now = 0.0
        self.see(*events)

    def see(self, *events: ev.Event) -> None:
        for event in events:
            assert self.notes.handle(event, self.now) == ()
            fold(self.cluster, event)

    def tells(self, after_s: float = 1.0, *, leads: bool = True) -> list[tuple[str, str, str]]:
        """The events of the next tick."""
        self.now += after_s
        said: list[tuple[str, str, str]] = []
        for effect in self.notes.tick(self.now, leads=leads):
            match effect:
                case RecordPodEvent(pod, reason, text):
                    said.append((pod.name, reason, text))
                case RecordNodeEvent(node, reason, text):
                    said.append((node.name, reason, text))
        return said


def n1(*, with_gpu_indexes: bool = True, **more: Any) -> ev.NodeUpdated:
    return ev.NodeUpdated(node("n1", gpus=4, with_gpu_indexes=with_gpu_indexes, **more))


def ill(*ids: str, **more: Any) -> Pod:
    numbers = ",".join(str(number) for number in range(len(ids)))
    return has("p", numbers, *ids, health="Unhealthy", **more)


TOLD = (
    "GPU GPU-b of node n1 is reported as unhealthy; this pod holds it; give the pod another GPU:"
    " kubectl -n team get pod p -o yaml | kubectl replace --force -f -; the node's kernel log has"
    " the cause"
)


def test_pod_on_a_failed_gpu_gets_one_event() -> None:
    world = World(n1(), ev.PodUpdated(has("p", "0", "GPU-b")))
    assert world.tells() == []

    world.see(ev.PodUpdated(ill("GPU-b")))
    assert world.tells() == [("p", "GpuFailed", TOLD)]
    # The pod changes in other things, and everything is listed again.
    world.see(ev.PodUpdated(ill("GPU-b", labels={"a": "b"})), ev.PodsReplaced((ill("GPU-b"),)))
    assert world.tells(1000) == []


def test_recovered_gpu_that_fails_again_is_reported_again() -> None:
    world = World(n1(), ev.PodUpdated(ill("GPU-b")))
    assert len(world.tells()) == 1
    world.see(ev.PodUpdated(has("p", "0", "GPU-b")))
    assert world.tells() == []
    world.see(ev.PodUpdated(ill("GPU-b")))
    assert len(world.tells()) == 1


def test_index_is_reported_where_published_and_a_command_otherwise() -> None:
    table = n1(with_gpu_indexes=False, annotations={IDS: "GPU-a,GPU-b"})
    sick = ill("GPU-b", owner="Deployment/web@r1")
    [(_, _, text)] = World(table, ev.PodUpdated(sick)).tells()
    assert text.startswith("GPU 1 (GPU-b) of node n1 is reported as unhealthy")
    assert "kubectl -n team delete pod p;" in text


def test_many_failed_gpus_are_one_event_of_a_bounded_length() -> None:
    [(_, _, text)] = World(n1(), ev.PodUpdated(ill(*(f"GPU-{n:036}" for n in range(9))))).tells()
    assert " and 6 more of node n1" in text
    assert len(text) < 512
    [(_, _, text)] = World(n1(), ev.PodUpdated(ill("G" * 512))).tells()
    assert len(text) < 512


def test_ended_pod_gets_no_event() -> None:
    assert World(n1(), ev.PodUpdated(ill("GPU-b", deleting=True))).tells() == []
    gone = ev.PodDeleted(ill("GPU-b").uid)
    assert World(n1(), ev.PodUpdated(ill("GPU-b")), gone).tells() == []
    assert World(n1(), ev.PodUpdated(ill("GPU-b")), ev.PodsReplaced(())).tells() == []


def test_foreign_pods_get_events_and_unknown_health_is_no_failure() -> None:
    assert len(World(n1(), ev.PodUpdated(ill("GPU-b", scheduler="other"))).tells()) == 1
    unknown = has("p", "0", "GPU-b", health="Unknown")
    assert World(n1(), ev.PodUpdated(unknown)).tells() == []


def test_only_the_leader_reports_and_loses_nothing() -> None:
    wrong = (
        ev.PodUpdated(has("a", "0", "A")),
        ev.PodDeleted("team-a"),
        ev.PodUpdated(has("b", "0", "B")),
    )
    sick = has("p", "3", "GPU-b", health="Unhealthy")
    world = World(n1(), ev.PodUpdated(sick), wrong[0])
    assert world.tells(leads=False) == []
    world.see(*wrong[1:])
    assert world.tells(leads=False) == []
    assert [(about, reason) for about, reason, _ in world.tells()] == [
        ("p", "GpuFailed"),
        ("n1", "DevicesLabelInvalid"),
    ]


WRONG = (
    "label gpu-scheduler.io/devices=numbered is wrong: the device plugin does not give the GPUs"
    " that gpu-scheduler chooses (pod team/a was assigned gpu:0 and has A; pod team/b was assigned"
    " gpu:1 and has A); remove the label: kubectl label node n1 gpu-scheduler.io/devices- and"
    " recreate the pods that were placed while it was set"
)


def one_after_the_other(world: World) -> list[tuple[str, str, str]]:
    """Pod a has GPU A as number 0, is gone, and pod b has it as number 1."""
    world.see(ev.PodUpdated(has("a", "0", "A")))
    assert world.tells() == []
    world.see(ev.PodDeleted("team-a"), ev.PodUpdated(has("b", "1", "A")))
    return world.tells()


def test_wrong_label_is_reported_once_on_the_node() -> None:
    world = World(n1())
    assert one_after_the_other(world) == [("n1", "DevicesLabelInvalid", WRONG)]
    world.see(ev.PodDeleted("team-b"), ev.PodUpdated(has("c", "2", "A")), n1(labels={"zone": "a"}))
    assert world.tells(1000) == []


def test_restored_label_is_checked_again() -> None:
    world = World(n1())
    assert len(one_after_the_other(world)) == 1
    world.see(ev.PodDeleted("team-b"), n1(with_gpu_indexes=False), n1())
    assert len(one_after_the_other(world)) == 1


@pytest.mark.parametrize(
    "between",
    [
        pytest.param(n1(annotations={IDS: "X"}), id="another-table"),
        pytest.param(n1(uid="another"), id="another-node-of-that-name"),
        pytest.param(n1(with_gpu_indexes=False), id="no-label"),
    ],
)
def test_past_allocations_are_void_when_indexes_change_meaning(
    between: ev.NodeUpdated,
) -> None:
    world = World(n1(), ev.PodUpdated(has("a", "0", "A")))
    assert world.tells() == []
    world.see(ev.PodDeleted("team-a"), between, ev.PodUpdated(has("b", "1", "A")))
    assert world.tells() == []


def test_node_without_the_label_is_not_checked() -> None:
    """There the kubelet picks, and a number on a pod means nothing."""
    assert one_after_the_other(World(n1(with_gpu_indexes=False))) == []


def test_persistent_double_assignment_is_reported() -> None:
    """A pod that ended a moment ago may show it still."""
    both = [ev.PodUpdated(has(name, "0", "A", scheduler="x")) for name in "ab"]
    world = World(n1(with_gpu_indexes=False), *both)
    assert world.tells() == []
    assert world.tells(SETTLE_S - 2) == []
    assert world.tells(2.0) == [
        (
            "n1",
            "GpuAssignedTwice",
            "pods team/a and team/b both have A according to their statuses; delete one of them and"
            " restart the node's device plugin",
        )
    ]
    assert world.tells(1000) == []

    world.see(ev.PodDeleted("team-b"))
    world.see(ev.PodUpdated(has("a", "0", "A", scheduler="x", labels={"a": "b"})))
    assert world.tells() == []


def test_double_assignment_of_other_pods_is_reported_again() -> None:
    both = [ev.PodUpdated(has(name, "0", "A", scheduler="x")) for name in "ab"]
    world = World(n1(with_gpu_indexes=False), *both)
    assert world.tells() == []
    assert len(world.tells(SETTLE_S)) == 1
    world.see(ev.PodDeleted("team-b"))
    assert world.tells() == []
    world.see(ev.PodUpdated(has("c", "0", "A", scheduler="x")))
    assert world.tells() == []
    assert [reason for _, reason, _ in world.tells(SETTLE_S)] == ["GpuAssignedTwice"]


def test_node_missing_from_a_list_starts_fresh_when_it_returns() -> None:
    world = World(n1(), ev.PodUpdated(has("a", "0", "A")))
    assert world.tells() == []
    world.see(
        ev.PodDeleted("team-a"), ev.NodesReplaced(()), n1(), ev.PodUpdated(has("b", "1", "A"))
    )
    assert world.tells() == []


def test_brief_double_assignment_is_not_reported() -> None:
    both = [ev.PodUpdated(has(name, "0", "A", scheduler="x")) for name in "ab"]
    world = World(n1(with_gpu_indexes=False), *both)
    assert world.tells() == []
    world.see(ev.PodDeleted("team-b"))
    assert world.tells(2 * SETTLE_S) == []


def test_deleted_node_gets_no_event() -> None:
    both = [ev.PodUpdated(has(name, "0", "A", scheduler="x")) for name in "ab"]
    world = World(n1(), *both, ev.NodeDeleted("n1"))
    assert world.tells() == []
    assert world.tells(2 * SETTLE_S) == []
