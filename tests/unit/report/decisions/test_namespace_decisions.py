"""The decisions about one namespace: which pods, in which state, and at which cost."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from datetime import UTC, datetime

import msgspec
import pytest

from scheduler.model.decisions.messages import PodDecision
from scheduler.model.limits import DECISIONS_OF_A_NAMESPACE_MAX
from scheduler.report.decisions.api_types import PodAnswer
from scheduler.report.decisions.namespace_decisions import (
    LIVE_BURST_S,
    LIVE_SHARE,
    NamespaceDecisions,
)
from scheduler.report.decisions.pod_answers import PodAnswers
from scheduler.report.decisions.renderer import DecisionRenderer
from scheduler.state import event as ev
from tests.builders import node, pod
from tests.unit.loop.loop_world import Stage, playing

NOON = datetime(2026, 11, 27, 12, tzinfo=UTC)


def decisions_of(
    stage: Stage,
    clock: Callable[[], float] | None = None,
    pods_max: int = DECISIONS_OF_A_NAMESPACE_MAX,
) -> NamespaceDecisions:
    renderer = DecisionRenderer(stage.clock, lambda: NOON)
    pods = PodAnswers(stage.loop, stage.journal, renderer, lambda: True)
    return NamespaceDecisions(stage.loop, stage.journal, pods, clock or stage.clock, pods_max)


@pytest.fixture
async def stage() -> AsyncIterator[Stage]:
    """A node with two GPUs: team/one has one of them, team/big waits, rival/big waits too."""
    async with playing(Stage()) as playing_stage:
        playing_stage.see(ev.NodeUpdated(node("a", gpus=2)))
        playing_stage.sync()
        playing_stage.see(ev.PodUpdated(pod("one", gpus=1)))
        playing_stage.confirm(await playing_stage.binder.next())
        for space in ("team", "rival"):
            playing_stage.see(ev.PodUpdated(pod("big", gpus=8, namespace=space)))
        await playing_stage.quiet()
        yield playing_stage


def read(found: PodDecision) -> PodAnswer:
    """The explanation in a decision."""
    return msgspec.json.decode(found.answer, type=PodAnswer)


async def test_list_has_the_pods_of_one_namespace_by_name(stage: Stage) -> None:
    answer = await decisions_of(stage).every("team")

    found = [(one.pod, one.state, one.reason, one.node) for one in answer.decisions]
    assert found == [("big", "Pending", "INSUFFICIENT", ""), ("one", "Scheduled", "", "a")]
    assert "Insufficient nvidia.com/gpu" in answer.decisions[0].message
    assert (await decisions_of(stage).every("empty")).decisions == ()


async def test_one_pod_is_explained_on_the_current_state(stage: Stage) -> None:
    [found] = (await decisions_of(stage).one("team", "big")).decisions

    answer = read(found)
    assert (found.state, found.uid) == ("Pending", "team-big")
    assert answer.now is not None
    assert [one.code for one in answer.now.refusals] == ["INSUFFICIENT"]
    assert answer.waiting is not None
    assert (answer.waiting.position, answer.waiting.of) == (1, 2)


async def test_pod_that_is_gone_is_unknown(stage: Stage) -> None:
    """A later namespace of this name may have another owner."""
    stage.see(ev.PodDeleted("team-one"), ev.PodDeleted("team-big"))
    await stage.quiet()

    decisions = decisions_of(stage)

    assert stage.journal.about("team", "one")
    assert (await decisions.one("team", "one")).decisions == ()
    assert (await decisions.one("team", "big")).decisions == ()
    assert (await decisions.every("team")).decisions == ()


async def test_new_pod_of_a_name_shows_no_decision_of_the_former_one(stage: Stage) -> None:
    stage.see(ev.PodDeleted("team-big"))
    stage.see(ev.PodUpdated(pod("big", gpus=9, uid="second")))
    await stage.quiet()

    [found] = (await decisions_of(stage).one("team", "big")).decisions

    assert {one.uid for one in read(found).decisions} == {"second"}


async def test_new_pod_without_a_decision_has_no_message_of_the_former_one(stage: Stage) -> None:
    stage.see(ev.PodDeleted("team-big"))
    stage.leader.is_leading = False
    stage.see(ev.PodUpdated(pod("big", gpus=9, uid="second")))
    await stage.quiet()

    [found] = (await decisions_of(stage).one("team", "big")).decisions

    assert stage.journal.about("team", "big")
    assert (found.uid, found.message, found.reason) == ("second", "", "")


async def test_long_list_counts_the_rest(stage: Stage) -> None:
    answer = await decisions_of(stage, pods_max=1).every("team")

    assert ([one.pod for one in answer.decisions], answer.left_out) == (["big"], 1)


class Costly:
    """A clock by which each part of a decision takes twice the burst."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        self.now += 2 * LIVE_BURST_S
        return self.now


async def test_live_decisions_have_a_share_of_the_time(stage: Stage) -> None:
    """Beyond the share an answer has the past decisions only."""
    clock = Costly()
    decisions = decisions_of(stage, clock=clock)

    answers = [read((await decisions.one("team", "big")).decisions[0]) for _ in range(2)]
    clock.now += LIVE_SHARE * 1_000 * LIVE_BURST_S
    answers.append(read((await decisions.one("team", "big")).decisions[0]))

    assert [answer.now is not None for answer in answers] == [True, False, True]
    assert all(answer.decisions for answer in answers)


class Turning:
    """A clock that counts the turns of other tasks: no time passes within a part."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now

    async def run(self) -> None:
        """Twice the burst between two parts."""
        while True:
            self.now += 2 * LIVE_BURST_S
            await asyncio.sleep(0)


async def test_time_between_the_parts_is_not_spent(stage: Stage) -> None:
    clock = Turning()
    decisions = decisions_of(stage, clock=clock)
    turning = asyncio.create_task(clock.run())

    answers = [read((await decisions.one("team", "big")).decisions[0]) for _ in range(3)]
    turning.cancel()

    assert clock.now > 3 * LIVE_BURST_S
    assert all(answer.now is not None for answer in answers)


@pytest.mark.parametrize("name", ["big", ""], ids=["one", "every"])
async def test_other_tasks_run_between_the_parts(stage: Stage, name: str) -> None:
    decisions = decisions_of(stage)
    clock = Turning()
    turning = asyncio.create_task(clock.run())

    await (decisions.one("team", name) if name else decisions.every("team"))
    turning.cancel()

    assert clock.now > 2 * LIVE_BURST_S
