"""A placement that waits for claims, for MIG instances, or for both."""

from __future__ import annotations

from typing import Any

from scheduler.model.crd.mig_partition import MigInstance, NodePartitions, PartitionState
from scheduler.model.gpu.device import MigPlacement
from scheduler.state import event as ev
from tests.builders import dynamic, node, pod
from tests.storage import HOSTNAME, claim, storage_class, uses, volume
from tests.unit.loop.loop_world import Stage, playing

TWO = MigPlacement(0, 4, "2g.20gb")
FAST = storage_class("fast", provisioner="x.example/y")
LABELS = {HOSTNAME: "n1"}


def storage(*items: Any) -> list[ev.Event]:
    return [ev.StorageUpdated(item) for item in items]


async def test_the_binding_waits_for_the_claims_and_the_condition_says_so() -> None:
    async with playing(Stage()) as stage:
        stage.see(ev.NodeUpdated(node("n1", labels=LABELS)))
        stage.see(*storage(FAST, claim(class_name="fast")))
        stage.see(ev.PodUpdated(pod("a", spec=uses("data"))))
        stage.sync()
        await stage.quiet()
        assert stage.binder.sent == []
        assert stage.recorder.waiting["a"] == (
            "waits for PersistentVolumeClaims to be bound: data (class fast; provisioner"
            " x.example/y) on node n1"
        )
        assert stage.recorder.nominated["a"] == "n1"

        stage.see(ev.VolumesWritten("team-a", 1, (("team/data", "2"),)))
        stage.see(*storage(claim(class_name="fast", selected="n1", volume="new", version="3")))
        stage.see(*storage(volume("new", class_name="fast")))
        placement = await stage.binder.next()

        assert placement.node_name == "n1"


async def test_the_binding_waits_for_instances_and_claims() -> None:
    """Each of them may be there first."""
    async with playing(Stage()) as stage:
        stage.see(ev.NodeUpdated(dynamic(labels=LABELS)))
        stage.see(*storage(storage_class(), claim(), volume(host="n1")))
        stage.see(ev.PodUpdated(pod("a", mig={"2g.20gb": 1}, spec=uses("data"))))
        stage.sync()
        await stage.quiet()

        stage.see(ev.PartitionsUpdated(NodePartitions("n1", instances=(MigInstance(TWO),))))
        stage.see(ev.NodeUpdated(dynamic(mig={"2g.20gb": 1}, labels=LABELS)))
        await stage.quiet()
        assert stage.binder.sent == []

        given = volume(host="n1", for_claim="team/data", claim_uid="uid-data", version="2")
        stage.see(ev.VolumesWritten("team-a", 1, (("pv", "2"),)))
        stage.see(*storage(given, claim(volume="pv", version="3")))

        assert (await stage.binder.next()).devices.mig_placements == (TWO,)


async def test_a_failed_instance_frees_the_volume() -> None:
    async with playing(Stage()) as stage:
        stage.see(ev.NodeUpdated(dynamic(labels=LABELS)))
        stage.see(*storage(storage_class(), claim(), volume(host="n1")))
        stage.see(ev.PodUpdated(pod("a", mig={"2g.20gb": 1}, spec=uses("data"))))
        stage.sync()
        await stage.quiet()
        store = stage.loop.cluster.volumes
        assert store.free(["pv"]) == []
        [order] = stage.asked["n1"]

        no = MigInstance(TWO, PartitionState.FAILED, message="no", deadline=order.deadline)
        stage.see(ev.PartitionsUpdated(NodePartitions("n1", instances=(no,))))
        await stage.quiet()

        assert [one.name for one in store.free(["pv"])] == ["pv"]
        assert stage.loop.cluster.assumed == {}
