"""From a gang that has no room to its Bindings in the room of its victims."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from scheduler.model.actions import PreemptPods
from scheduler.model.pods.pod import Pod
from scheduler.state import event as ev
from tests.builders import node, pod
from tests.gangs import members
from tests.unit.controllers.gangs.test_scheduling import seen, sent
from tests.unit.loop.loop_world import Stage, playing
from tests.unit.plugins.preemption.scene import OWN

LOW = [pod(f"low-{name}", gpus=1, node=name, phase="Running") for name in ("n1", "n2")]


@pytest.fixture
async def stage() -> AsyncIterator[Stage]:
    async with playing(Stage(OWN)) as playing_stage:
        playing_stage.see(*(ev.NodeUpdated(node(name, gpus=2)) for name in ("n1", "n2")))
        seen(playing_stage, *LOW)
        playing_stage.sync()
        yield playing_stage


def asked(stage: Stage) -> list[Pod]:
    """The pods whose deletion was asked for."""
    every = [one for one in stage.sent.actions if isinstance(one, PreemptPods)]
    return [pod for one in every for pod in one.victims]


def answer(stage: Stage) -> None:
    """The API server deleted every victim that it was asked to."""
    for one in [one for one in stage.sent.actions if isinstance(one, PreemptPods)]:
        results = tuple(ev.VictimResult(pod, ev.VictimOutcome.DELETED, "") for pod in one.victims)
        stage.see(ev.PreemptionEnded(one.preemptor, one.node_name, results))


async def test_all_members_wait_for_the_victims_where_they_will_run(stage: Stage) -> None:
    seen(stage, *members(4, 4, gpus=1, priority=9))
    await stage.quiet()

    assert sorted(one.name for one in asked(stage)) == ["low-n1", "low-n2"]
    assert sorted(stage.recorder.nominated.values()) == ["n1", "n1", "n2", "n2"]
    assert {reason for _, reason, _ in stage.recorder.said} == {"WaitingForCapacity"}
    assert sent(stage) == []


async def test_the_room_of_the_victims_is_left_to_the_gang(stage: Stage) -> None:
    seen(stage, *members(4, 4, gpus=1, priority=9))
    await stage.quiet()
    answer(stage)
    seen(stage, pod("other", gpus=1, priority=9, created=5))
    stage.see(*(ev.PodDeleted(one.uid) for one in LOW))
    await stage.quiet()
    stage.pass_time(3)
    await stage.quiet()

    assert sent(stage) == [f"train-{number}" for number in range(4)]
    assert len(asked(stage)) == 2
    assert stage.loop.cluster.nominated == {}


async def test_a_gang_that_no_victim_helps_waits_for_no_node(stage: Stage) -> None:
    seen(stage, *members(5, 5, gpus=1, priority=9))
    await stage.quiet()

    assert asked(stage) == []
    assert stage.loop.cluster.nominated == {}
    assert {reason for _, reason, _ in stage.recorder.said} == {"Unschedulable"}


async def test_a_gang_waits_while_its_victims_end(stage: Stage) -> None:
    """Its next plan fails too, as long as they are there."""
    seen(stage, *members(4, 4, gpus=1, priority=9))
    await stage.quiet()
    answer(stage)
    stage.see(ev.PodDeleted(LOW[0].uid))
    stage.pass_time(3)
    await stage.quiet()

    assert sent(stage) == []
    assert sorted(one.nominated_node for one in stage.loop.cluster.nominated.values()) == [
        *("n1", "n1", "n2", "n2")
    ]
