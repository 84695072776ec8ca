"""The gang at the head of the queue reserves room for a time, and only one gang does."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest

from scheduler.controllers.gangs.reservation import RESERVE_S
from scheduler.controllers.table import ControllerSettings
from scheduler.model.pods.pod import Pod
from scheduler.state import event as ev
from tests.builders import node, pod
from tests.gangs import member, members
from tests.unit.controllers.gangs.test_scheduling import seen, sent
from tests.unit.loop.loop_world import Stage, playing

RUNNING = [pod(f"r-{name}", gpus=1, node=name, phase="Running") for name in ("n1", "n2")]


async def on_two_nodes(stage: Stage, *pods: Pod) -> None:
    """One of the two GPUs of each node is free."""
    stage.sync()
    stage.see(*(ev.NodeUpdated(node(name, gpus=2)) for name in ("n1", "n2")))
    seen(stage, *RUNNING, *pods)
    await stage.quiet()


@pytest.fixture
async def stage() -> AsyncIterator[Stage]:
    """A gang waits for all four GPUs."""
    async with playing(Stage()) as playing_stage:
        await on_two_nodes(playing_stage, *members(4, 4, gpus=1))
        yield playing_stage


def small(name: str = "small", **fields: Any) -> Pod:
    return pod(name, **{"gpus": 1, "created": 9, **fields})


def limited(seconds: int, **fields: Any) -> Pod:
    return small("limited", spec={"activeDeadlineSeconds": seconds}, **fields)


async def wait(stage: Stage, seconds: int) -> None:
    """Time passes, in steps that are shorter than a backoff."""
    for _ in range(0, seconds, 3):
        stage.pass_time(min(3, seconds))
        await stage.quiet()


async def test_smaller_pods_leave_the_room_to_the_head(stage: Stage) -> None:
    seen(stage, small())
    await stage.quiet()
    assert sent(stage) == []

    stage.see(*(ev.PodDeleted(one.uid) for one in RUNNING))
    await wait(stage, 3)

    assert sent(stage) == [f"train-{number}" for number in range(4)]
    assert stage.loop.cluster.nominated == {}


async def test_no_condition_says_that_room_is_reserved(stage: Stage) -> None:
    """An autoscaler would not buy a node for a nominated pod."""
    assert len(stage.loop.cluster.nominated) == 4
    assert set(stage.recorder.nominated.values()) == {""}
    assert {reason for _, reason, _ in stage.recorder.said} == {"Unschedulable"}


async def test_the_reservation_ends_at_its_deadline(stage: Stage) -> None:
    seen(stage, small())
    await wait(stage, int(RESERVE_S) - 3)
    assert sent(stage) == []

    await wait(stage, 15)

    assert sent(stage) == ["small"]
    assert stage.loop.cluster.nominated == {}


async def test_a_pod_that_ends_before_the_deadline_takes_the_room(stage: Stage) -> None:
    seen(stage, limited(int(RESERVE_S) - 5))
    await stage.quiet()

    assert sent(stage) == ["limited"]


async def test_a_pod_that_ends_after_the_deadline_waits(stage: Stage) -> None:
    await wait(stage, 10)
    seen(stage, limited(int(RESERVE_S) - 5))
    await stage.quiet()

    assert sent(stage) == []


async def test_a_short_pod_does_not_wait_behind_a_longer_one(stage: Stage) -> None:
    """They ask for the same, and would wait as one."""
    seen(stage, small(), limited(1000))
    await stage.quiet()
    assert sent(stage) == []

    seen(stage, limited(10))
    await wait(stage, 2)

    assert sent(stage) == ["limited"]


async def test_a_pod_of_higher_priority_takes_the_room(stage: Stage) -> None:
    seen(stage, small(priority=1))
    await stage.quiet()

    assert sent(stage) == ["small"]


async def test_at_most_one_gang_reserves(stage: Stage) -> None:
    seen(stage, *members(3, 3, "other", gpus=1, created=20))
    await stage.quiet()

    assert {one.group for one in stage.loop.cluster.nominated.values()} == {"train"}


async def test_after_the_rest_the_next_gang_reserves(stage: Stage) -> None:
    seen(stage, *members(3, 3, "other", gpus=1, created=20))
    await wait(stage, int(RESERVE_S) + 15)
    assert stage.loop.cluster.nominated == {}

    await wait(stage, int(RESERVE_S))

    assert {one.group for one in stage.loop.cluster.nominated.values()} == {"other"}


@pytest.mark.parametrize("others", [1, 2, 3])
async def test_gangs_in_turns_do_not_keep_the_room_from_others(stage: Stage, others: int) -> None:
    """None of the gangs fits, and the pod and the small gang do."""
    for number in range(others):
        seen(stage, *members(4, 4, f"big-{number}", gpus=1, created=20 + number))
    seen(stage, small(created=50), *members(1, 1, "fits", gpus=1, created=51))

    await wait(stage, 2 * int(RESERVE_S))

    assert sorted(sent(stage)) == ["fits-0", "small"]


async def test_a_started_gang_comes_before_the_others(stage: Stage) -> None:
    """Its replaced member is the youngest pod."""
    async with playing(Stage()) as stage:
        await on_two_nodes(
            stage,
            member("a", 2, "old", gpus=1, node="n1", phase="Running"),
            small("blocks", node="n2", phase="Running"),
        )
        seen(stage, *members(4, 4, gpus=1), member("b", 2, "old", gpus=1, created=50))
        await wait(stage, int(RESERVE_S) * 2 + 30)
        stage.see(ev.PodDeleted(RUNNING[1].uid))
        await wait(stage, 3)

        assert sent(stage) == ["b"]


async def test_a_gang_that_cannot_fit_reserves_nothing() -> None:
    async with playing(Stage()) as stage:
        await on_two_nodes(stage, *members(5, 5, gpus=1), small(), small("second"))

        assert sent(stage) == ["second", "small"]
        assert stage.loop.cluster.nominated == {}


async def test_room_of_daemons_is_not_waited_for() -> None:
    async with playing(Stage()) as stage:
        stage.sync()
        stage.see(ev.NodeUpdated(node("n1", gpus=2)))
        seen(stage, small("d", owner="DaemonSet/d", node="n1", phase="Running"))
        seen(stage, *members(2, 2, gpus=1), small())
        await stage.quiet()

        assert sent(stage) == ["small"]


async def test_reserved_room_without_a_time_is_none() -> None:
    async with playing(Stage(settings=ControllerSettings(reserve_s=0))) as stage:
        await on_two_nodes(stage, *members(4, 4, gpus=1), small())

        assert sent(stage) == ["small"]


async def test_a_former_leader_reserves_nothing(stage: Stage) -> None:
    stage.leader.is_leading = False
    await wait(stage, 2)

    assert stage.loop.cluster.nominated == {}


async def test_a_gang_with_a_missing_member_gives_the_room_up(stage: Stage) -> None:
    stage.see(ev.PodDeleted("team-train-0"))
    seen(stage, small())
    await wait(stage, 3)

    assert sent(stage) == ["small"]


async def test_no_rest_follows_a_head_that_lost_a_member(stage: Stage) -> None:
    """A rest follows a deadline only: the next gang reserves at once."""
    seen(stage, *members(3, 3, "other", gpus=1, created=20))
    stage.see(ev.PodDeleted("team-train-0"))
    await wait(stage, 15)

    assert {one.group for one in stage.loop.cluster.nominated.values()} == {"other"}
