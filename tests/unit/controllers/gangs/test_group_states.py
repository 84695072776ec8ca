"""What PodGroups of the API server are told about their first start."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from scheduler.framework.pipeline import Pipeline
from scheduler.framework.plugin import Plugin
from scheduler.model.actions import WriteGroupState
from scheduler.model.pods.gang import GangSource, GroupState, PodGroup
from scheduler.plugins import PLUGINS
from scheduler.state import event as ev
from tests.builders import node, pod
from tests.gangs import of_pod_group, pod_group
from tests.unit.loop.loop_world import Stage, playing

API = GangSource.API.value


@pytest.fixture
async def stage() -> AsyncIterator[Stage]:
    async with playing(Stage()) as playing_stage:
        playing_stage.sync()
        playing_stage.see(ev.PodGroupsReplaced((), source=API))
        yield playing_stage


def written(stage: Stage) -> list[GroupState]:
    """The conditions that were asked for, without their times."""
    every = [one for one in stage.sent.actions if isinstance(one, WriteGroupState)]
    return [GroupState(one.state.is_scheduled, one.state.reason) for one in every]


async def ticked(stage: Stage, seconds: float = 2) -> list[GroupState]:
    """What was asked for after some time."""
    await stage.quiet()
    stage.pass_time(seconds)
    await stage.quiet()
    return written(stage)


async def bind_all(stage: Stage) -> None:
    await stage.quiet()
    for placement in tuple(stage.binder.sent):
        stage.confirm(placement)
    await stage.quiet()


def see(stage: Stage, group: PodGroup, *names: str, scheduler: str = "gpu-scheduler") -> None:
    stage.see(ev.PodGroupUpdated(group))
    pods = (of_pod_group(name, gpus=1, scheduler=scheduler) for name in names)
    stage.see(*map(ev.PodUpdated, pods))


async def test_a_group_with_nodes_is_scheduled(stage: Stage) -> None:
    stage.see(ev.NodeUpdated(node(gpus=4)))
    see(stage, pod_group(2), "a", "b")
    assert await ticked(stage) == [], "a Binding is not confirmed yet"

    await bind_all(stage)

    assert await ticked(stage) == [GroupState(True, "Scheduled")]


async def test_a_group_that_is_no_gang_is_scheduled_with_one_pod(stage: Stage) -> None:
    stage.see(ev.NodeUpdated(node(gpus=1)))
    see(stage, pod_group(None), "a", "b")
    await bind_all(stage)

    assert await ticked(stage) == [GroupState(True, "Scheduled")]


async def test_a_group_without_room_is_unschedulable(stage: Stage) -> None:
    stage.see(ev.NodeUpdated(node(gpus=1)))
    see(stage, pod_group(2), "a", "b")

    assert await ticked(stage) == [GroupState(False, "Unschedulable")]


async def test_a_group_that_finds_room_later_is_scheduled(stage: Stage) -> None:
    """KAI#1888: a running group kept the condition of its first try."""
    stage.see(ev.NodeUpdated(node("n1", gpus=1)))
    see(stage, pod_group(2), "a", "b")
    await ticked(stage)
    stage.see(ev.NodeUpdated(node("n2", gpus=1)))
    await ticked(stage)
    await bind_all(stage)

    assert await ticked(stage) == [
        GroupState(False, "Unschedulable"),
        GroupState(True, "Scheduled"),
    ]


async def test_an_incomplete_group_has_no_condition(stage: Stage) -> None:
    stage.see(ev.NodeUpdated(node(gpus=1)))
    see(stage, pod_group(2), "a")

    assert await ticked(stage) == []


async def test_a_group_that_was_scheduled_stays_so(stage: Stage) -> None:
    stage.see(ev.NodeUpdated(node(gpus=1)))
    see(stage, pod_group(2, state=GroupState(True, "Scheduled")), "a", "b")

    assert await ticked(stage) == []


async def test_a_lost_member_does_not_take_the_condition_back(stage: Stage) -> None:
    """The write of True is not seen yet."""
    stage.see(ev.NodeUpdated(node(gpus=2)))
    see(stage, pod_group(2), "a", "b")
    await bind_all(stage)
    await ticked(stage)
    stage.see(ev.PodDeleted("team-b"), ev.PodUpdated(pod("x", gpus=1, node="n1")))
    stage.see(ev.PodUpdated(of_pod_group("c", gpus=1)))

    assert {one.is_scheduled for one in await ticked(stage, 60)} == {True}


async def test_pods_of_other_schedulers_are_not_reported(stage: Stage) -> None:
    stage.see(ev.NodeUpdated(node(gpus=4)), ev.PodGroupUpdated(pod_group(1)))
    stage.see(ev.PodUpdated(of_pod_group("a", gpus=1, scheduler="other", node="n1")))

    assert await ticked(stage) == []


async def test_a_condition_that_is_not_seen_is_written_again(stage: Stage) -> None:
    stage.see(ev.NodeUpdated(node(gpus=1)))
    see(stage, pod_group(2), "a", "b")
    assert len(await ticked(stage)) == 1
    assert len(await ticked(stage)) == 1

    assert len(await ticked(stage, 40)) == 2

    text = "0/1 nodes are available: 1 Insufficient nvidia.com/gpu (need 1; best node has 0 free)."
    [first, _] = [one.state for one in stage.sent.actions if isinstance(one, WriteGroupState)]
    assert first.message.startswith(text)
    stage.see(ev.PodGroupUpdated(pod_group(2, state=first)))
    stage.see(ev.PodUpdated(pod("x", gpus=1, node="n1")), ev.PodDeleted("team-x"))
    assert len(await ticked(stage, 40)) == 2


def _fails(*_: object) -> None:
    raise ValueError("a bug of ours")


async def test_an_error_in_the_plan_of_a_group_is_reported() -> None:
    plugins = (*PLUGINS, Plugin(name="Broken", pre_filter=_fails))
    async with playing(Stage(Pipeline(plugins=plugins))) as stage:
        stage.sync()
        stage.see(ev.PodGroupsReplaced((), source=API), ev.NodeUpdated(node(gpus=4)))
        see(stage, pod_group(2), "a", "b")

        assert await ticked(stage) == [GroupState(False, "SchedulerError")]
