"""What a snapshot holds beyond what the property of replay shows."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from scheduler.model.reasons.reason import RequeueCause
from scheduler.state.cache.cluster import Assumption
from scheduler.state.event import ClusterEvent
from scheduler.state.queue.requeue_conditions import RequeueCondition
from scheduler.state.queue.scheduling_queue import SchedulingQueue
from scheduler.state.reservations import Reservations
from scheduler.state.snapshot import ClusterSnapshot, restore, take
from tests.builders import cluster, container, namespace, node, placed, pod, refused, settle
from tests.storage import (
    HOSTNAME,
    attachment,
    capacity,
    claim,
    csi_driver,
    csi_node,
    storage_class,
    uses,
    volume,
)


def snapshot(
    state: Any, queue: SchedulingQueue | None = None, reservations: Reservations | None = None
) -> ClusterSnapshot:
    return take(state, queue or SchedulingQueue(), reservations or Reservations(), 3, 100.0)


def test_assumed_pod_keeps_its_assignment_in_the_snapshot() -> None:
    """Its author took the GPUs off its request after it was placed; they are still held."""
    state = cluster(node(gpus=2))
    settle(state, pod("a", gpus=2))
    state.upsert_pod(pod("a", gpus=0))

    again = restore(snapshot(state))

    assert again.nodes.node_info["n1"].free("nvidia.com/gpu") == 0
    assert refused(again, pod("b", gpus=1)) == refused(state, pod("b", gpus=1))


@pytest.mark.parametrize(
    ("step", "place"),
    [
        pytest.param("offered", "active", id="not-decided-yet"),
        pytest.param("parked", "unschedulable", id="refused"),
        pytest.param("woken", "backoff", id="woken-and-pausing"),
    ],
)
def test_waiting_pod_has_queue_position_and_causes(step: str, place: str) -> None:
    queue = SchedulingQueue()
    queue.add(pod("a", gpus=1), 90.0)
    entry = queue.pop(90.0)
    assert entry is not None
    if step == "offered":
        queue.activate(pod("a", gpus=1), 90.0)
    else:
        causes = frozenset((RequeueCause.NODE, RequeueCause.FREED))
        queue.add_unschedulable(entry, RequeueCondition(causes, frozenset(("gpu",))), 95.0)
    if step == "woken":
        queue.requeue_on(ClusterEvent(RequeueCause.NODE), 95.0)

    [waiting] = snapshot(cluster(), queue).queue

    assert (waiting.place, waiting.since) == (place, 90.0)
    expected = ((), ()) if step == "offered" else (("FREED", "NODE"), ("gpu",))
    assert (waiting.causes, waiting.lacking) == expected


def test_every_reservation_is_in_the_snapshot() -> None:
    reservations = Reservations()
    reservations.create(
        "r-1", pod("a", mig={"2g.20gb": 1}, priority=-5), "n1", 99.0, is_annotated=True
    )

    [promised] = snapshot(cluster(), reservations=reservations).reservations

    assert (promised.id, promised.node_name, promised.made_at) == ("r-1", "n1", 99.0)
    assert not promised.is_matched


def test_snapshot_has_no_env_and_only_our_annotations() -> None:
    """Secrets stand in both: as values, and in what kubectl apply wrote down."""
    secret = {"name": "TOKEN", "value": "hunter2"}
    told = {"kubectl.kubernetes.io/last-applied-configuration": "hunter2"}
    one = pod("a", containers=[container(env=[secret])], annotations=told)
    space = msgspec.structs.replace(namespace(), annotations={})
    queue = SchedulingQueue()
    queue.add(one, 1.0)

    written = msgspec.json.encode(snapshot(cluster(space, node(), one), queue))

    assert b"hunter2" not in written
    assert b'"name":"a"' in written


def test_storage_and_assumed_volumes_survive_the_snapshot() -> None:
    """Written down as JSON: the next pod gets the same answer, with its claim in the reason."""
    state = cluster(
        *(node(labels={HOSTNAME: "n1"}), storage_class(), storage_class("fast", provisioner="x")),
        *(claim(), claim("more"), volume(host="n1"), csi_node("n1", {"d": 3}), csi_driver("d")),
        *(capacity(free="1Gi"), attachment(driver="d", volume="pv")),
    )
    user = pod("a", spec=uses("data"))
    decision = placed(state, user)
    state.upsert_pod(user)
    state.assume(user, Assumption("n1", decision.devices, volumes=decision.volumes))

    written = msgspec.json.encode(snapshot(state))
    again = restore(msgspec.json.decode(written, type=ClusterSnapshot))

    assert list(again.volumes.every()) == list(state.volumes.every())
    assert again.volumes.volume("pv") == state.volumes.volume("pv")
    other = pod("b", spec=uses("more"))
    assert refused(again, other) == refused(state, other)
