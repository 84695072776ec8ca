"""From the decision to preempt until the preemptor has its node."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from scheduler.decide.schedule_one import schedule_one
from scheduler.framework.decision import Decision
from scheduler.framework.settings import Settings
from scheduler.framework.view import View
from scheduler.model.actions import PreemptPods
from scheduler.model.pods.pod import Pod
from scheduler.plugins import default_pipeline
from scheduler.state import event as ev
from tests.builders import dynamic, node, pod
from tests.unit.loop.loop_world import Stage, playing

OWN = default_pipeline(Settings(maps_allow="all", preemption="own"))
LOW = pod("low", gpus=1, node="n1", phase="Running")
HIGH = pod("high", gpus=1, priority=9)


def sent(stage: Stage) -> list[PreemptPods]:
    """The deletions that were asked for."""
    return [one for one in stage.sent.actions if isinstance(one, PreemptPods)]


def ended(*victims: Pod, how: ev.VictimOutcome = ev.VictimOutcome.DELETED) -> ev.PreemptionEnded:
    """The API server's answers."""
    results = tuple(
        ev.VictimResult(one, how, "no" * (how is not ev.VictimOutcome.DELETED)) for one in victims
    )
    return ev.PreemptionEnded(HIGH, "n1", results)


async def begun(stage: Stage, *pods: Pod) -> PreemptPods:
    """A stage on which HIGH preempts LOW."""
    stage.see(ev.NodeUpdated(node("n1", gpus=1)), ev.PodUpdated(LOW))
    stage.see(*map(ev.PodUpdated, pods))
    stage.see(ev.PodUpdated(HIGH))
    stage.sync()
    while not sent(stage):
        await stage.recorder.next()
        await stage.quiet()
    [action] = sent(stage)
    return action


async def test_the_victim_is_deleted_and_the_node_nominated() -> None:
    async with playing(Stage(OWN)) as stage:
        assert await begun(stage) == PreemptPods(HIGH, "n1", (LOW,))

        pods, reasons, _ = zip(*stage.recorder.said, strict=True)
        assert (pods, reasons) == (("high",), ("WaitingForCapacity",))
        assert stage.recorder.nominated == {"high": "n1"}
        assert stage.loop.cluster.nominated[HIGH.uid].nominated_node == "n1"


async def test_the_preemptor_gets_the_room_of_its_victim() -> None:
    async with playing(Stage(OWN)) as stage:
        await begun(stage)
        stage.see(ended(LOW))
        assert await stage.recorder.next() == ("low", "Preempted", f"{HIGH.uid} n1")

        other = pod("other", gpus=1, priority=9, created=5)
        stage.see(ev.PodUpdated(other))
        assert (await stage.recorder.next())[0] == "other"
        stage.see(ev.PodDeleted(LOW.uid))
        await stage.quiet()
        stage.pass_time(1.1)

        assert (await stage.binder.next()).pod.name == "high", "and not the other one"


async def test_a_preemptor_takes_no_second_victim_while_the_first_ends() -> None:
    async with playing(Stage(OWN)) as stage:
        await begun(stage)
        stage.see(ev.NodeUpdated(node("n2", gpus=1)))
        stage.see(ev.PodUpdated(pod("low2", gpus=1, node="n2", phase="Running", priority=1)))
        stage.see(ev.PodUpdated(msgspec.structs.replace(HIGH, labels={"a": "b"})))
        _, _, text = await stage.recorder.next()
        await stage.quiet()

        assert "not eligible due to a terminating pod on the nominated node." in text
        assert len(sent(stage)) == 1
        assert stage.recorder.nominated["high"] == "n1"


async def test_a_refused_deletion_lets_the_preemptor_try_again() -> None:
    async with playing(Stage(OWN)) as stage:
        await begun(stage)
        stage.see(ended(LOW, how=ev.VictimOutcome.REFUSED))
        name, reason, text = await stage.recorder.next()
        assert (name, reason) == ("high", "SchedulerError")
        assert text == "preemption failed: deleting 1 of 1 victims: team/low: no"
        assert HIGH.uid not in stage.loop.cluster.nominated

        stage.pass_time(2)
        await stage.recorder.next()
        await stage.quiet()
        assert len(sent(stage)) == 2


async def test_a_placement_that_waits_for_its_instances_is_dropped() -> None:
    async with playing(Stage(OWN)) as stage:
        small, big = pod("small", mig={"2g.20gb": 1}), pod("big", mig={"7g.80gb": 1}, priority=9)
        stage.see(ev.NodeUpdated(dynamic()), ev.PodUpdated(small))
        stage.sync()
        assert (await stage.recorder.next())[1] == "PartitionRequested"

        stage.see(ev.PodUpdated(big))
        said = [await stage.recorder.next() for _ in range(2)]
        assert [one[:2] for one in said] == [("big", "WaitingForCapacity"), ("small", "Preempted")]
        assert sent(stage) == []

        stage.pass_time(1.1)
        said = [await stage.recorder.next() for _ in range(2)]
        assert ("big", "PartitionRequested") in [one[:2] for one in said]


async def test_a_new_term_starts_without_deletions_in_flight() -> None:
    async with playing(Stage(OWN)) as stage:
        await begun(stage)
        stage.leader.is_leading = False
        stage.pass_time(1.1)
        await stage.quiet()

        assert stage.loop.cluster.preemptions.running == {}


async def test_a_preemptor_waits_on_while_its_victims_terminate() -> None:
    marked = {"type": "DisruptionTarget", "status": "True", "reason": "PreemptionByScheduler"}
    going = pod(
        "low", gpus=1, node="n1", phase="Running", deleting=True, status={"conditions": [marked]}
    )
    async with playing(Stage(OWN)) as stage:
        await begun(stage)
        stage.see(ended(LOW), ev.PodUpdated(going))
        assert (await stage.recorder.next())[1] == "Preempted"
        shown = msgspec.structs.replace(HIGH, nominated_node="n1")
        stage.see(ev.PodUpdated(shown))
        stage.see(ev.PodUpdated(msgspec.structs.replace(shown, labels={"a": "b"})))
        _, reason, text = await stage.recorder.next()

        assert "not eligible due to a terminating pod on the nominated node." in text
        assert (reason, stage.recorder.nominated["high"]) == ("WaitingForCapacity", "n1")
        assert len(sent(stage)) == 1


async def test_a_freed_node_costs_one_decision_however_many_wait() -> None:
    """Each preemptor waits for the node of its own victim."""
    decided: list[str] = []

    def decider(view: View, one: Pod, *rest: Any) -> Decision:
        decided.append(one.name)
        return schedule_one(view, one, *rest)

    async with playing(Stage(OWN, decider)) as stage:
        for number in range(9):
            low = pod(f"low-{number}", gpus=1, node=f"n{number}", phase="Running")
            stage.see(ev.NodeUpdated(node(f"n{number}", gpus=1)), ev.PodUpdated(low))
        stage.sync()
        for number in range(9):
            stage.see(ev.PodUpdated(pod(f"high-{number}", gpus=1, priority=9)))
        await stage.quiet()
        stage.pass_time(2)
        await stage.quiet()
        assert (len(sent(stage)), len(decided)) == (9, 9)

        for action in sent(stage):
            decided.clear()
            stage.see(ev.PreemptionEnded(action.preemptor, action.node_name, ()))
            stage.see(*(ev.PodDeleted(victim.uid) for victim in action.victims))
            placement = await stage.binder.next()
            await stage.quiet()

            assert (placement.pod.name, placement.node_name) == (
                action.preemptor.name,
                action.node_name,
            )
            assert decided == [action.preemptor.name]
            stage.confirm(placement)


@pytest.mark.parametrize(
    "end",
    [
        pytest.param(ev.PodDeleted(HIGH.uid), id="deleted"),
        pytest.param(
            ev.PodUpdated(pod("high", gpus=1, priority=9, node="n2")), id="bound-elsewhere"
        ),
    ],
)
async def test_the_end_of_a_nomination_wakes_the_pod_behind_it(end: ev.Event) -> None:
    async with playing(Stage(OWN)) as stage:
        await begun(stage)
        stage.see(ev.PodUpdated(pod("next", gpus=1, priority=9, created=5)))
        await stage.quiet()
        stage.see(ended(LOW), ev.PodDeleted(LOW.uid), end)
        await stage.quiet()
        stage.pass_time(1.1)

        assert (await stage.binder.next()).pod.name == "next"


async def test_a_preemptor_that_gives_its_node_up_wakes_the_pod_behind_it() -> None:
    """The victim ended, but the node does not take the preemptor any more."""
    async with playing(Stage(OWN)) as stage:
        await begun(stage)
        stage.see(ev.PodUpdated(pod("next", gpus=1, priority=9, created=5)))
        await stage.quiet()
        asked = pod("high", gpus=2, priority=9)
        stage.see(ended(LOW), ev.PodDeleted(LOW.uid), ev.PodUpdated(asked))
        await stage.quiet()
        stage.pass_time(1.1)

        assert (await stage.binder.next()).pod.name == "next"
        assert HIGH.uid not in stage.loop.cluster.nominated


async def test_a_pod_that_may_preempt_now_does_so() -> None:
    """The stronger pod beside its victim ended: the victim alone is in the way."""
    async with playing(Stage(OWN)) as stage:
        strong = pod("strong", gpus=1, node="n1", phase="Running", priority=99)
        stage.see(ev.NodeUpdated(node("n1", gpus=2)), ev.PodUpdated(LOW), ev.PodUpdated(strong))
        stage.see(ev.PodUpdated(pod("high", gpus=2, priority=9)))
        stage.sync()
        await stage.recorder.next()
        assert sent(stage) == []

        stage.see(ev.PodDeleted(strong.uid))
        await stage.quiet()
        stage.pass_time(1.1)
        await stage.recorder.next()
        await stage.quiet()

        assert [action.victims for action in sent(stage)] == [(LOW,)]
