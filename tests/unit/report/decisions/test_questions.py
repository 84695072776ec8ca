"""Questions take turns, in parts: the loop goes on meanwhile.

Counted in turns of the event loop and in steps; nothing here is timed.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest

from scheduler.decide.explain import Outcome
from scheduler.decide.remedy.outlook import Outlook
from scheduler.decide.remedy.question import answer
from scheduler.model.limits import QUESTIONS_WAITING_MAX
from scheduler.report.decisions.api_types import API_VERSION, Capacity
from scheduler.report.decisions.capacity import NODE_STEPS, PART, WAITING_MAX, CapacityReport
from scheduler.report.decisions.questions import Busy, QuestionQueue, encoded, paused
from scheduler.state import event as ev
from scheduler.state.parts import Parts, finish
from scheduler.state.queue.position import PART as COMPARED
from tests.builders import ALLOW_ALL_MAPS, node, pod
from tests.patience import PATIENCE_S
from tests.unit.loop.loop_world import Stage, playing
from tests.unit.plugins.preemption.scene import running

NODES = 100
PODS_OF_A_NODE = 60
PLACED = 12
#: The turns from the end of one placement to the next one: the test, the inbox, the loop.
TURNS_MAX = 6


def crowd() -> list[ev.Event]:
    """Nodes with many pods without GPUs, and one node with room."""
    events: list[ev.Event] = [ev.NodeUpdated(node("free", gpus=PLACED, pods=500))]
    for at in range(NODES):
        name = f"n{at:02}"
        events.append(ev.NodeUpdated(node(name, gpus=PLACED + 1, pods=500)))
        events.append(ev.PodUpdated(running(f"g-{name}", on=name, gpus=PLACED + 1)))
        events += [
            ev.PodUpdated(running(f"{name}-{one}", on=name, requests={"cpu": "1m"}))
            for one in range(PODS_OF_A_NODE)
        ]
    return events


def counted(parts: Parts[Any], log: list[str]) -> Parts[Any]:
    """The same parts, each of which is an entry of the log."""
    while True:
        try:
            steps = next(parts)
        except StopIteration as end:
            return end.value
        log.append("part")
        assert steps <= 2 * ALLOW_ALL_MAPS.decision_steps_max
        yield steps


async def test_placements_go_on_between_the_parts_of_questions() -> None:
    big = pod("big", gpus=PLACED + 1)
    log: list[str] = []
    async with playing(Stage()) as stage:
        stage.see(*crowd())
        stage.sync()
        await stage.quiet()
        questions = QuestionQueue()

        async def ask() -> tuple[Outcome, Outlook]:
            async with questions.turn():
                parts = answer(stage.loop.cluster, big, stage.loop.pipeline)
                return await paused(counted(parts, log))

        asked = [asyncio.create_task(ask()) for _ in range(QUESTIONS_WAITING_MAX)]
        for at in range(PLACED):
            stage.see(ev.PodUpdated(pod(f"p{at}", gpus=1, created=at)))
            await stage.binder.next()
            log.append("placed")
        answers = await asyncio.gather(*asked)

    between = "".join("p" if one == "part" else "|" for one in log).split("|")
    assert len(between) == PLACED + 1
    assert max(map(len, between[:-1])) <= TURNS_MAX
    assert sum(map(len, between)) > PLACED
    assert all(not outcome.is_placed for outcome, _ in answers)


async def test_other_tasks_run_between_two_parts() -> None:
    turns, seen = 0, []

    def three() -> Iterator[int]:
        for _ in range(3):
            seen.append(turns)
            yield 1

    async def turning() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    task = asyncio.create_task(turning())
    await paused(counted(three(), []))  # type: ignore[arg-type]  # an iterator is a generator here
    task.cancel()

    assert seen == [0, 1, 2]


async def test_questions_beyond_the_limit_are_refused() -> None:
    questions = QuestionQueue()

    async def ask() -> None:
        async with questions.turn():
            pass

    async with questions.turn():
        waiting = [asyncio.create_task(ask()) for _ in range(QUESTIONS_WAITING_MAX)]
        await asyncio.sleep(0)
        with pytest.raises(Busy, match=f"{QUESTIONS_WAITING_MAX} wait; ask again after 2 s"):
            await asyncio.wait_for(ask(), PATIENCE_S)
        waiting.pop().cancel()
        await asyncio.sleep(0)
        waiting.append(asyncio.create_task(ask()))

    await asyncio.gather(*waiting)
    assert questions.waiting == 0


async def test_question_with_a_limit_does_not_wait_longer() -> None:
    questions = QuestionQueue()

    async with questions.turn():
        with pytest.raises(Busy, match="the others take more than 0 s; ask again after 2 s"):
            async with questions.turn(wait_s=0.0):
                pass
    async with questions.turn(wait_s=0.0):
        pass

    assert questions.waiting == 0


@pytest.mark.parametrize("count", [0, 1, 2, 5], ids=lambda count: f"{count}-entries")
async def test_answer_in_parts_has_the_bytes_of_the_whole(count: int) -> None:
    capacity = Capacity(api_version=API_VERSION, leads=True, time="now", nodes_total=count)
    report = CapacityReport(_Seen(count), lambda: True, lambda: 9.0, lambda: NOON)
    full = finish(report.take(with_nodes=True, with_holders=True))

    for one in (capacity, full):
        parts = msgspec.json.decode(await encoded(one, "nodes", "waiting", part=2), type=Capacity)
        assert parts == one


NOON = datetime(2026, 11, 27, 12, tzinfo=UTC)


class _Seen:
    """The state of a scheduler with a few nodes, and many pods that wait."""

    def __init__(self, nodes: int, waiting: int = 0) -> None:
        loop = Stage().loop
        self.cluster, self.queue = loop.cluster, loop.queue
        for at in range(nodes):
            self.cluster.upsert_node(node(f"n{at}", gpus=2))
            self.cluster.upsert_pod(running(f"g{at}", on=f"n{at}", gpus=1))
        for at in range(waiting):
            self.queue.add(pod(f"w{at}", gpus=3, created=at % 60), 0.0)


def test_capacity_is_summed_in_bounded_parts() -> None:
    report = CapacityReport(_Seen(NODES, 3_000), lambda: True, lambda: 9.0, lambda: NOON)

    steps = list(report.take(with_nodes=True, with_holders=True))
    capacity = finish(report.take(with_nodes=False, with_holders=False))

    assert max(steps) <= max(PART + NODE_STEPS + PODS_OF_A_NODE, COMPARED)
    assert [one.waiting_pods for one in capacity.namespaces] == [3_000]
    assert (len(capacity.waiting), capacity.waiting_left_out) == (WAITING_MAX, 2_000)
    assert [one.position for one in capacity.waiting[:2]] == [1, 2]
    assert capacity.waiting == tuple(sorted(capacity.waiting, key=lambda one: one.position))
