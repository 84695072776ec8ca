"""A placement that has to be cut first is bound when it is there, or tried again."""

from __future__ import annotations

from scheduler.framework.decision import PendingPlacement
from scheduler.model.crd.mig_partition import MigInstance, NodePartitions, PartitionState
from scheduler.model.gpu.device import MigPlacement
from scheduler.state import event as ev
from tests.builders import dynamic, pod
from tests.unit.loop.loop_world import Stage, playing

TWO = MigPlacement(0, 4, "2g.20gb")


async def test_pending_placement_binds_when_ready_and_advertised() -> None:
    async with playing(Stage()) as stage:
        stage.see(ev.NodeUpdated(dynamic()), ev.PodUpdated(pod("a", mig={"2g.20gb": 1})))
        stage.sync()
        assert (await stage.recorder.next())[1] == "PartitionRequested"
        assert stage.binder.sent == []

        stage.see(ev.PartitionsUpdated(NodePartitions("n1", instances=(MigInstance(TWO),))))
        stage.see(ev.NodeUpdated(dynamic(mig={"2g.20gb": 1})))
        placement = await stage.binder.next()

        assert isinstance(placement, PendingPlacement)
        assert placement.devices.mig_placements == (TWO,)
        # What was said of the wait is not sent any more: it would come after the Binding.
        assert stage.recorder.forgotten == ["team-a"] * 2
        stage.confirm(placement)
        assert (await stage.recorder.next())[1] == "Scheduled"


async def test_failed_partition_retries_on_another_gpu() -> None:
    stage = Stage()
    async with playing(stage):
        stage.see(ev.NodeUpdated(dynamic(gpus=2)), ev.PodUpdated(pod("a", mig={"2g.20gb": 1})))
        stage.sync()
        await stage.recorder.next()
        [order] = stage.asked["n1"]

        no = MigInstance(TWO, PartitionState.FAILED, message="no", deadline=order.deadline)
        stage.see(ev.PartitionsUpdated(NodePartitions("n1", instances=(no,))))
        said = [(await stage.recorder.next())[1:] for _ in range(2)]
        stage.pass_time(5)
        assert (await stage.recorder.next())[1] == "PartitionRequested"

        text = "n1: no; backoff of GPU 0 for 30 s"
        assert said == [
            ("PartitionFailed", text),
            ("SchedulerError", f"creating MIG instances failed: {text}"),
        ]
        assert [one.mig_placement for one in stage.asked["n1"]] == [MigPlacement(1, 4, "2g.20gb")]


async def test_former_leader_binds_no_pending_placement() -> None:
    async with playing(Stage()) as stage:
        stage.see(ev.NodeUpdated(dynamic()), ev.PodUpdated(pod("a", mig={"2g.20gb": 1})))
        stage.sync()
        await stage.recorder.next()
        stage.leader.is_leading = False
        stage.pass_time(2)
        await stage.quiet()

        stage.see(ev.PartitionsUpdated(NodePartitions("n1", instances=(MigInstance(TWO),))))
        stage.see(ev.NodeUpdated(dynamic(mig={"2g.20gb": 1})))
        await stage.quiet()

        assert stage.binder.sent == []
        assert stage.loop.cluster.assumed == {}


async def test_simultaneous_pods_are_placed_jointly_where_order_would_fail() -> None:
    stage = Stage()
    async with playing(stage):
        stage.see(ev.NodeUpdated(dynamic()))
        for name, profile in (("a", "2g.20gb"), ("b", "2g.20gb"), ("c", "3g.40gb")):
            stage.see(ev.PodUpdated(pod(name, mig={profile: 1})))
        stage.sync()
        said = [await stage.recorder.next() for _ in range(3)]

        assert [one[1] for one in said] == ["PartitionRequested"] * 3
        assert [str(one.mig_placement) for one in stage.asked["n1"]] == [
            "2g.20gb@0/0",
            "2g.20gb@0/2",
            "3g.40gb@0/4",
        ]
