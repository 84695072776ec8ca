"""What a fake autoscaler buys for the pods that wait: nodes that would help, and nothing else."""

from __future__ import annotations

from typing import Any

import pytest

from scheduler.framework.settings import Settings
from scheduler.model.crd.mig_partition import MigInstance, NodePartitions, PartitionState
from scheduler.model.crd.migration import holder
from scheduler.plugins import default_pipeline
from scheduler.state import event as ev
from tests.builders import dynamic, node, pod, pod_json, restoring
from tests.fake_autoscalers import wants_a_node
from tests.gangs import members
from tests.unit.loop.loop_world import Stage, playing
from tools.autoscaler.contract import Reading
from tools.autoscaler.plan import NodeGroup, plan
from tools.controlplane.fake_nodes import FakeNode

FOUR = node(gpus=4, labels={"nvidia.com/gpu.product": "NVIDIA-A100-SXM4-80GB"})
AFFINITY = {
    "podAffinity": {
        "requiredDuringSchedulingIgnoredDuringExecution": [
            {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"w": "w"}}}
        ]
    }
}
CLAIM = [{"name": "h", "persistentVolumeClaim": {"claimName": "claim-user"}}]


def seen(name: str, reason: str, nominated: str, message: str = "") -> dict[str, Any]:
    """The pod as an autoscaler reads it."""
    condition = {"type": "PodScheduled", "status": "False", "reason": reason, "message": message}
    status = {"conditions": [condition], "nominatedNodeName": nominated}
    return pod_json(name, status=status)


async def refusal(stage: Stage, *objects: Any, fields: Any, name: str = "a") -> tuple[str, bool]:
    """The reason that a pod gets beside these objects, and whether it is a wish for nodes."""
    for one in objects:
        stage.see(ev.NodeUpdated(one))
    stage.see(ev.PodUpdated(pod(name, **fields)))
    stage.sync()
    _, reason, text = await stage.recorder.next()
    return reason, wants_a_node(seen(name, reason, stage.recorder.nominated[name], text))


REFUSED = [
    pytest.param({"gpus": 1, "spec": {"volumes": CLAIM}}, "WaitingForVolume", False, id="volume"),
    pytest.param(
        {"gpus": 1, "spec": {"affinity": AFFINITY}}, "Unschedulable", True, id="pod-affinity"
    ),
    pytest.param({"map": "0=node1:0\n"}, "MapsNotAllowed", False, id="namespace-without-maps"),
    pytest.param({"gpus": 8}, "Unschedulable", True, id="a-larger-node-would-help"),
    pytest.param({"requests": {"cpu": "33"}}, "Unschedulable", True, id="more-cpu-would-help"),
    pytest.param({"mig": {"9g.99gb": 1}}, "NoSuchProfile", False, id="no-such-profile"),
    pytest.param(
        {"gpus": 1, "spec": {"workloadRef": {"name": "w", "podGroup": "g"}}},
        *("UnsupportedField", False),
        id="a-field-that-is-not-implemented",
    ),
]


@pytest.mark.parametrize(("fields", "reason", "buys"), REFUSED)
async def test_autoscaler_buys_only_where_a_node_helps(
    fields: Any, reason: str, buys: bool
) -> None:
    async with playing(Stage(default_pipeline())) as stage:
        assert await refusal(stage, FOUR, fields=fields) == (reason, buys)


@pytest.mark.parametrize(
    ("name", "text", "reason"),
    [
        pytest.param("badmap-7", "0=n1:0\n", "IndexNotInMap", id="no-line-for-its-index"),
        pytest.param("w-0", "0=n9:0", "WaitingForMappedNode", id="its-node-is-to-come"),
        pytest.param("w-0", "0=n1:9", "DeviceNotFound", id="no-such-gpu"),
        pytest.param("w-0", "0=n1:x", "InvalidMap", id="a-map-that-cannot-be-read"),
    ],
)
async def test_autoscaler_buys_nothing_for_a_map(name: str, text: str, reason: str) -> None:
    async with playing(Stage()) as stage:
        assert await refusal(stage, FOUR, fields={"map": text}, name=name) == (reason, False)


async def test_autoscaler_buys_one_node_for_a_gang_of_two() -> None:
    """VOL#2558: one node was free, so the one member that was marked seemed to fit there."""
    async with playing(Stage()) as stage:
        stage.see(ev.NodeUpdated(node(gpus=1)), *map(ev.PodUpdated, members(2, 2, gpus=1)))
        stage.sync()
        await stage.quiet()
        told = {name: (reason, text) for name, reason, text in stage.recorder.said}
        nominated = stage.recorder.nominated

    one = FakeNode(name="n1", gpus=1).manifest()
    waiting = [
        pod_json(name, gpus=1, status=seen(name, reason, nominated[name], text)["status"])
        for name, (reason, text) in told.items()
    ]
    added = [plan(waiting, [one], NodeGroup("gpus", one, 9), how).add for how in Reading]
    assert (len(waiting), added) == (2, [1, 1])


async def test_autoscaler_buys_nothing_while_partitioning() -> None:
    stage = Stage()
    async with playing(stage):
        stage.see(ev.NodeUpdated(dynamic()), ev.PodUpdated(pod("a", mig={"2g.20gb": 1})))
        stage.sync()
        await stage.recorder.next()
        assert stage.recorder.nominated["a"] == "n1"

        [order] = stage.asked["n1"]
        no = MigInstance(
            order.mig_placement, PartitionState.FAILED, message="no", deadline=order.deadline
        )
        stage.see(ev.PartitionsUpdated(NodePartitions("n1", instances=(no,))))
        while (said := await stage.recorder.next())[1] != "SchedulerError":
            pass

        assert stage.recorder.nominated["a"] == ""
        assert not wants_a_node(seen("a", said[1], ""))


MIGRATION = restoring("restore-1-aa")


async def migrating(stage: Stage) -> tuple[str, bool]:
    """The reason of a pod that waits for the capacity of an open migration."""
    stage.loop.cluster.nominations.hold(holder(MIGRATION))
    moved = {
        "owner": "Deployment/web@r1",
        "mig": {"2g.20gb": 1},
        "annotations": {"gpu-scheduler.io/migration": MIGRATION.id},
    }
    there = node(MIGRATION.node_name, mig={"1g.10gb": 1})
    return await refusal(stage, there, fields=moved, name="web-1")


async def later(stage: Stage) -> None:
    """Everything that happens within three seconds has happened."""
    for _ in range(3):
        await stage.quiet()
        stage.pass_time(1.1)
    await stage.quiet()


async def test_autoscaler_buys_nothing_for_a_migrating_pod() -> None:
    async with playing(Stage()) as stage:
        assert await migrating(stage) == ("WaitingForCapacity", False)
        assert stage.recorder.nominated["web-1"] == MIGRATION.node_name

        await later(stage)
        assert len(stage.recorder.said) == 1, "the nomination holds, so nothing is decided again"


async def test_nomination_lapses_with_its_migration() -> None:
    async with playing(Stage()) as stage:
        await migrating(stage)
        stage.loop.cluster.release_migration(MIGRATION.id)
        await later(stage)

        assert [one[1] for one in stage.recorder.said] == ["WaitingForCapacity", "Unschedulable"]
        assert stage.recorder.nominated["web-1"] == ""


async def test_nomination_lapses_with_its_node() -> None:
    preempting = default_pipeline(Settings(maps_allow="all", preemption="own"))
    async with playing(Stage(preempting)) as stage:
        stage.see(ev.PodUpdated(pod("low", gpus=1, node="n1", phase="Running")))
        one = node("n1", gpus=1)
        said = await refusal(stage, one, fields={"gpus": 1, "priority": 9})
        assert (*said, stage.recorder.nominated["a"]) == ("WaitingForCapacity", False, "n1")

        stage.see(ev.NodeDeleted("n1"), ev.NodeUpdated(node("n2")))
        await later(stage)

        assert [one[1] for one in stage.recorder.said] == ["WaitingForCapacity", "Unschedulable"]
        assert stage.recorder.nominated["a"] == ""
        assert stage.loop.cluster.nominated == {}
