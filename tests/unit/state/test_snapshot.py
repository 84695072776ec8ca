"""What a snapshot holds beyond what the property of replay shows."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from scheduler.decide.schedule_one import schedule_one
from scheduler.framework.decision import Preemption
from scheduler.framework.settings import Settings
from scheduler.model import well_known
from scheduler.model.crd.migration import held_devices, holder
from scheduler.model.dra.claim_plan import ClaimPlan, PlannedClaim
from scheduler.model.dra.device import DeviceId
from scheduler.model.gpu.device import Devices
from scheduler.model.reasons.reason import RequeueCause
from scheduler.plugins import default_pipeline
from scheduler.state import event as ev
from scheduler.state.cache.cluster import Assumption, Cluster
from scheduler.state.event import ClusterEvent
from scheduler.state.fold import fold
from scheduler.state.queue.requeue_conditions import RequeueCondition
from scheduler.state.queue.scheduling_queue import SchedulingQueue
from scheduler.state.reservations import Reservations
from scheduler.state.snapshot import ClusterSnapshot, restore, take
from tests.builders import (
    cluster,
    container,
    namespace,
    node,
    placed,
    pod,
    refused,
    restoring,
    settle,
)
from tests.dra import (
    DRIVER,
    allocation_json,
    claiming,
    device_class,
    device_json,
    resource_claim,
    resource_slice,
    result_json,
    taint_rule,
)
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

PREEMPTING = default_pipeline(Settings(preemption="own"))


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


def test_devices_that_a_preemptor_waits_for_are_in_the_snapshot() -> None:
    given = allocation_json(result_json())
    state = cluster(
        *(node("n1"), resource_slice("n1", "gpu-0"), device_class(), resource_claim("mine")),
        *(resource_claim("low", allocation=given, users=["low"]), resource_claim("other")),
        pod("low", node="n1", phase="Running", spec=claiming("low")),
    )
    found = schedule_one(state, pod("boss", priority=9, spec=claiming("mine")), PREEMPTING)
    assert isinstance(found, Preemption)
    state.nominate(found.pod, found.nominated_node, found.devices, found.claims)
    state.delete_pod("team-low")
    state.dra.upsert(resource_claim("low", version="2"))
    rival = pod("rival", spec=claiming("other"))

    written = msgspec.json.encode(snapshot(state))
    again = restore(msgspec.json.decode(written, type=ClusterSnapshot))

    assert refused(again, rival) == refused(state, rival)


def test_the_order_of_nominations_is_in_the_snapshot() -> None:
    """The first one on a node gets the room that is there."""
    pods = pod("a", gpus=1, nominated="n1"), pod("b", gpus=1, nominated="n1")
    state = cluster(node("n1", gpus=1), *pods)
    state.nominate(pods[0], "n2", Devices())
    state.nominate(pods[0], "n1", Devices())

    again = restore(snapshot(state))

    assert list(again.nominated) == list(state.nominated) == ["team-b", "team-a"]
    assert list(again.nominations.at("n1")) == list(state.nominations.at("n1"))


def test_claims_that_a_preempted_pod_gives_back_are_in_the_snapshot() -> None:
    state = cluster()
    state.dra.releases.begin("uid", ("team/gpu",))

    assert restore(snapshot(state)).dra.releases.has("team/gpu", "uid")


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


def test_devices_and_assumed_allocations_survive_the_snapshot() -> None:
    """Attributes of every type, and amounts of more than 64 bits."""
    attributes = {"a": {"version": "1.0.0"}, "b": {"ints": [1]}, "c": {"bool": True}}
    capacity = {"memory": {"value": "80Gi"}}
    device = device_json("gpu-0", attributes=attributes, capacity=capacity)
    state = cluster(node(), resource_slice("n1", device, "gpu-1"), device_class(), taint_rule())
    state.dra.upsert(resource_claim("mine"))
    state.dra.upsert(resource_claim("held", allocation=allocation_json(result_json("gpu-1"))))
    given = resource_claim("mine", allocation=allocation_json(result_json("gpu-0"))).allocation
    plan = ClaimPlan("n1", (PlannedClaim("team/mine", "uid-mine", given),))
    user = pod("a", spec=claiming("mine"))
    state.upsert_pod(user)
    state.assume(user, Assumption("n1", Devices(), claims=plan))

    written = msgspec.json.encode(snapshot(state))
    again = restore(msgspec.json.decode(written, type=ClusterSnapshot))

    assert list(again.dra.every()) == list(state.dra.every())
    assert again.dra.in_use.dedicated == state.dra.in_use.dedicated
    assert len(again.dra.in_use.dedicated) == 2
    assert again.dra.is_being_allocated("team/mine")


def test_devices_held_by_a_migration_are_in_the_snapshot() -> None:
    """A pod of the same priority does not get them, that of the migration does."""
    state = cluster(node(), resource_slice("n1", "gpu-0"), device_class(), resource_claim("mine"))
    held = DeviceId(DRIVER, "n1", "gpu-0")
    migration = restoring("restore-1-aa", node_name="n1", devices=(held,))
    state.nominations.hold(holder(migration), held_devices(migration))
    newcomer = pod("a", spec=claiming("mine"))
    named = {well_known.MIGRATION: migration.id}
    replacement = pod("web-1", owner="Deployment/web@r1", annotations=named, spec=claiming("mine"))

    text = msgspec.json.encode(snapshot(state))
    again = restore(msgspec.json.decode(text, type=ClusterSnapshot))

    assert again.nominations.plans == state.nominations.plans
    assert refused(again, newcomer) == refused(state, newcomer)
    assert placed(again, replacement) == placed(state, replacement)


def test_claim_that_is_to_be_created_is_in_the_snapshot() -> None:
    """Written down as JSON: the next pod gets the other device."""
    every = device_class(extendedResourceName="nvidia.com/gpu")
    state = cluster(node(), resource_slice("n1", "gpu-0", "gpu-1"), every)
    settle(state, pod("a", gpus=1))

    text = msgspec.json.encode(snapshot(state))
    again = restore(msgspec.json.decode(text, type=ClusterSnapshot))

    assert again.nodes.node_info["n1"].free("nvidia.com/gpu") == 1
    assert placed(again, pod("b", gpus=1)) == placed(state, pod("b", gpus=1))
    assert refused(again, pod("c", gpus=2)) == refused(state, pod("c", gpus=2))


def test_created_claim_of_an_assumed_pod_counts_once_in_a_snapshot() -> None:
    """The API server shows the claim, and the Binding is not sent yet."""
    shared = device_json("a", allowMultipleAllocations=True, capacity={"memory": {"value": "8Gi"}})
    every = device_class(extendedResourceName="nvidia.com/gpu")
    state = cluster(node(), resource_slice("n1", shared), every)
    settle(state, pod("a", gpus=1))
    part = result_json("a", shareID="1", consumedCapacity={"memory": "3Gi"})
    shown = resource_claim("new", owner="team-a", extended=True, allocation=allocation_json(part))
    state.dra.upsert(shown)

    text = msgspec.json.encode(snapshot(state))
    again = restore(msgspec.json.decode(text, type=ClusterSnapshot))

    assert list(state.dra.in_use.shared.values()) == [1]
    assert again.dra.in_use.shared == state.dra.in_use.shared


def test_indexes_of_dra_devices_survive_the_snapshot() -> None:
    state = Cluster(maps_allow="all", index_attributes={"gpu.example.com": "slot"})
    state.upsert_node(node())
    numbered = device_json("a", attributes={"slot": {"int": 3}})
    fold(state, ev.DraUpdated(resource_slice("n1", numbered)))

    for one in (state, restore(snapshot(state))):
        node_info = one.at("n1")
        assert node_info is not None
        assert node_info.dra_gpus is not None
        assert list(node_info.dra_gpus.devices) == [3]
