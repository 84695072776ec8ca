"""A gang in the loop: its Bindings start together, and no other one starts."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from scheduler.model.crd.mig_partition import MigInstance, NodePartitions, PartitionState
from scheduler.model.gpu.device import MigPlacement
from scheduler.model.pods.pod import Pod
from scheduler.state import event as ev
from tests.builders import dynamic, node, pod
from tests.gangs import member, members
from tests.unit.loop.loop_world import Stage, playing


@pytest.fixture
async def stage() -> AsyncIterator[Stage]:
    async with playing(Stage()) as playing_stage:
        playing_stage.sync()
        yield playing_stage


def seen(stage: Stage, *pods: Pod) -> None:
    stage.see(*(ev.PodUpdated(one) for one in pods))


def sent(stage: Stage) -> list[str]:
    return sorted(one.pod.name for one in stage.binder.sent)


async def test_no_member_is_bound_before_the_last_one_exists(stage: Stage) -> None:
    stage.see(ev.NodeUpdated(node(gpus=4)))
    every = members(3, 3, gpus=1)
    seen(stage, *every[:2])
    await stage.quiet()
    assert sent(stage) == []

    seen(stage, every[2])
    await stage.quiet()

    assert sent(stage) == ["train-0", "train-1", "train-2"]
    assert len(stage.loop.queue) == 0


async def test_every_member_of_an_incomplete_gang_gets_the_reason(stage: Stage) -> None:
    stage.see(ev.NodeUpdated(node(gpus=4)))
    seen(stage, *members(2, 3, gpus=1, owner="Job/train"))
    await stage.quiet()
    assert stage.recorder.said == []

    stage.pass_time(2)
    said = sorted([await stage.recorder.next() for _ in range(2)])

    text = "0/1 nodes are available: waiting for members 2/3 of group train."
    assert said == [("train-0", "WaitingForGroup", text), ("train-1", "WaitingForGroup", text)]


async def test_all_members_ask_for_a_node_where_one_has_no_room(stage: Stage) -> None:
    """With one of them alone, an autoscaler would see it fit on the room of the others."""
    stage.see(ev.NodeUpdated(node(gpus=2)))
    seen(stage, *members(3, 3, gpus=1))
    said = [await stage.recorder.next() for _ in range(3)]

    assert {reason for _, reason, _ in said} == {"Unschedulable"}
    assert {text.partition(". ")[2] for _, _, text in said} == {
        "group train: 2 of the 3 members that have to be placed together fit; train-2 does not."
    }
    assert not any(stage.recorder.nominated.values())
    assert (sent(stage), stage.loop.cluster.assumed) == ([], {})


async def test_room_that_a_gang_lacked_starts_it(stage: Stage) -> None:
    stage.see(ev.NodeUpdated(node("n1", gpus=2)))
    seen(stage, *members(3, 3, gpus=1))
    await stage.quiet()

    stage.see(ev.NodeUpdated(node("n2", gpus=1)))
    stage.pass_time(3)
    await stage.quiet()

    assert sent(stage) == ["train-0", "train-1", "train-2"]


async def test_an_unchanged_reason_is_told_to_the_leader_only(stage: Stage) -> None:
    stage.see(ev.NodeUpdated(node("n1", gpus=2)))
    seen(stage, *members(3, 3, gpus=1))
    await stage.quiet()
    before = len(stage.recorder.said)

    stage.see(ev.NodeUpdated(node("n1", gpus=2, labels={"new": "label"})))
    stage.see(ev.PodUpdated(pod("x", gpus=1, node="n1")), ev.PodDeleted("team-x"))
    stage.pass_time(3)
    await stage.quiet()

    assert (before, len(stage.recorder.said)) == (3, 4)


async def test_new_numbers_are_told_to_the_leader_only(stage: Stage) -> None:
    stage.see(ev.NodeUpdated(node(gpus=4)))
    seen(stage, *members(2, 4, gpus=1, owner="Job/train"))
    await stage.quiet()
    stage.pass_time(2)
    await stage.quiet()
    assert [name for name, _, _ in stage.recorder.said] == ["train-1", "train-0"]
    stage.recorder.said.clear()

    seen(stage, members(3, 4, gpus=1, owner="Job/train")[2])
    await stage.quiet()
    stage.pass_time(11)
    await stage.quiet()

    told = [(name, text.partition(": ")[2]) for name, _, text in stage.recorder.said]
    text = "waiting for members 3/4 of group train."
    assert told == [("train-2", text), ("train-0", text)]


async def test_gang_with_an_unknown_profile_asks_for_no_node(stage: Stage) -> None:
    a100 = {"nvidia.com/gpu.product": "NVIDIA-A100-SXM4-80GB"}
    stage.see(ev.NodeUpdated(node(gpus=2, labels=a100)))
    seen(stage, *members(2, 2, mig={"9g.99gb": 1}))

    said = [await stage.recorder.next() for _ in range(2)]

    assert {reason for _, reason, _ in said} == {"NoSuchProfile"}


async def test_a_waiting_gang_lets_smaller_pods_through(stage: Stage) -> None:
    stage.see(ev.NodeUpdated(node(gpus=2)))
    seen(stage, *members(3, 3, gpus=1), pod("single", gpus=2, created=9))
    await stage.quiet()

    assert sent(stage) == ["single"]


async def test_a_refused_member_is_placed_again_alone(stage: Stage) -> None:
    stage.see(ev.NodeUpdated(node(gpus=3)))
    seen(stage, *members(3, 3, gpus=1))
    placements = {(await stage.binder.next()).pod.name: None for _ in range(3)}
    by_name = {one.pod.name: one for one in stage.binder.sent}
    stage.confirm(by_name["train-0"])
    stage.binder.end(by_name["train-1"], ev.BindOutcome.REFUSED, "no")
    stage.confirm(by_name["train-2"])
    await stage.quiet()
    assert len(placements) == len(stage.binder.sent) == 3

    stage.pass_time(3)
    again = await stage.binder.next()
    stage.confirm(again)
    await stage.quiet()

    assert again.pod.name == "train-1"
    assert (len(stage.loop.queue), stage.loop.cluster.assumed) == (0, {})


async def refused_member(stage: Stage) -> None:
    """A gang of two on two GPUs: one member is bound, the Binding of the other one is refused."""
    stage.see(ev.NodeUpdated(node(gpus=2)))
    seen(stage, *members(2, 2, gpus=1))
    stage.confirm(await stage.binder.next())
    stage.binder.end(await stage.binder.next(), ev.BindOutcome.REFUSED, "no")
    await stage.quiet()


async def test_the_place_of_a_refused_member_is_left_to_it(stage: Stage) -> None:
    await refused_member(stage)
    seen(stage, pod("other", gpus=1))
    await stage.quiet()
    assert len(stage.binder.sent) == 2, "the other pod waits"

    stage.pass_time(3)
    again = await stage.binder.next()
    stage.confirm(again)
    stage.pass_time(400)
    await stage.quiet()

    assert again.pod.name == "train-0"
    assert len(stage.binder.sent) == 3
    assert stage.loop.cluster.nominated == {}


async def test_a_place_is_held_for_a_minute_only(stage: Stage) -> None:
    """KAI#2074: a Binding that is refused whenever it is tried delayed all other pods."""
    await refused_member(stage)
    seen(stage, pod("other", gpus=1))
    tries, waited_s = 0, 0
    while (last := stage.binder.sent[-1].pod.name) != "other" and waited_s < 200:
        if len(stage.binder.sent) > 2 + tries:
            assert last == "train-0"
            tries += 1
            stage.binder.end(stage.binder.sent[-1], ev.BindOutcome.REFUSED, "no")
        stage.pass_time(1)
        waited_s += 1
        await stage.quiet()

    assert tries >= 3
    assert 60 <= waited_s <= 75


async def test_a_gang_of_which_every_binding_fails_starts_as_one(stage: Stage) -> None:
    """The room for it went to another pod meanwhile: it holds nothing."""
    stage.see(ev.NodeUpdated(node(gpus=2)))
    seen(stage, *members(2, 2, gpus=1))
    for _ in range(2):
        stage.binder.end(await stage.binder.next(), ev.BindOutcome.REFUSED, "no")
    await stage.quiet()
    seen(stage, pod("other", gpus=1))
    stage.confirm(await stage.binder.next())

    stage.pass_time(9)
    await stage.quiet()

    assert sent(stage) == ["other", "train-0", "train-1"]
    assert stage.loop.cluster.assumed == {}


async def test_a_deleted_member_is_replaced_in_a_started_gang(stage: Stage) -> None:
    stage.see(ev.NodeUpdated(node(gpus=2)))
    seen(stage, *members(2, 2, gpus=1))
    for _ in range(2):
        stage.confirm(await stage.binder.next())
    stage.see(ev.PodDeleted("team-train-1"))
    seen(stage, member("train-9", 2, gpus=1))

    assert (await stage.binder.next()).pod.name == "train-9"


async def test_members_above_the_minimum_follow_when_there_is_room(stage: Stage) -> None:
    stage.see(ev.NodeUpdated(node("n1", gpus=2)))
    seen(stage, *members(3, 2, gpus=1))
    await stage.quiet()
    assert len(sent(stage)) == 2
    assert [(name, reason) for name, reason, _ in stage.recorder.said] == [
        ("train-2", "Unschedulable")
    ]

    stage.see(ev.NodeUpdated(node("n2", gpus=1)))
    stage.pass_time(3)
    await stage.quiet()

    assert len(sent(stage)) == 3


async def test_bindings_wait_for_the_instances_of_one_member(stage: Stage) -> None:
    stage.see(ev.NodeUpdated(dynamic("d")), ev.NodeUpdated(node("n", gpus=1)))
    seen(stage, member("a", 2, mig={"2g.20gb": 1}), member("b", 2, gpus=1))
    await stage.quiet()
    assert (sent(stage), len(stage.loop.cluster.assumed)) == ([], 2)

    [order] = stage.asked["d"]
    instance = MigInstance(order.mig_placement)
    stage.see(ev.PartitionsUpdated(NodePartitions("d", instances=(instance,))))
    stage.see(ev.NodeUpdated(dynamic("d", mig={"2g.20gb": 1})))
    await stage.quiet()

    assert sent(stage) == ["a", "b"]


async def test_a_failed_instance_gives_up_the_other_members(stage: Stage) -> None:
    stage.see(ev.NodeUpdated(dynamic("d")), ev.NodeUpdated(node("n", gpus=1)))
    seen(stage, member("a", 2, mig={"2g.20gb": 1}), member("b", 2, gpus=1))
    await stage.quiet()
    [order] = stage.asked["d"]
    where = MigPlacement(order.mig_placement.gpu, order.mig_placement.start, "2g.20gb")

    failed = MigInstance(where, PartitionState.FAILED, message="no", deadline=order.deadline)
    stage.see(ev.PartitionsUpdated(NodePartitions("d", instances=(failed,))))
    await stage.quiet()
    stage.pass_time(1)
    await stage.quiet()

    assert (sent(stage), stage.loop.cluster.assumed) == ([], {})
    assert len(stage.loop.queue) == 2


async def test_an_error_in_the_plan_concerns_its_gang_only() -> None:
    """The rest of the queue is decided, and the gang is tried again."""
    async with playing(Stage()) as stage:
        stage.sync()
        stage.see(ev.NodeUpdated(node(gpus=4)))
        broken = members(2, 2, gpus=1)
        broken[1].__dict__["gpu_requests"] = {"nvidia.com/gpu": "one"}
        seen(stage, *broken, pod("single", gpus=1))
        await stage.quiet()

        assert sent(stage) == ["single"]
        assert {reason for _, reason, _ in stage.recorder.said} == {"SchedulerError"}
        assert len(stage.loop.queue) == 2
