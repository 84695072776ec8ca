"""Each decision has one log line, whose keys do not depend on its result."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from structlog.testing import capture_logs

from scheduler.state import event as ev
from tests.builders import node, pod
from tests.unit.loop.loop_world import Stage, playing

KEYS = {"result", "pod", "node", "devices", "reason", "decision", "took_ms"}


class SlowClock:
    """Each reading takes a tenth of a second."""

    def __init__(self) -> None:
        self.now = 1000.0
        self.readings = 0

    def __call__(self) -> float:
        self.now += 0.1
        return self.now


@pytest.fixture
def lines() -> Iterator[list[Any]]:
    with capture_logs() as found:
        yield found


def of_decisions(lines: list[Any]) -> list[Any]:
    return [line for line in lines if "result" in line]


async def test_placed_and_waiting_pods_have_one_line_each(lines: list[Any]) -> None:
    async with playing(Stage()) as stage:
        stage.see(
            ev.NodeUpdated(node("a", gpus=4, with_gpu_indexes=True)),
            ev.PodUpdated(pod("big", gpus=9, created=1)),
            ev.PodUpdated(pod("one", gpus=1, created=2)),
        )
        stage.sync()
        stage.confirm(await stage.binder.next())
        for _ in range(2):
            await stage.recorder.next()

    waits, placed = of_decisions(lines)
    one, big = stage.journal.newest()
    assert placed == {
        "event": "Successfully scheduled pod one to node a (GPU devices: 0)",
        "log_level": "info",
        "result": "placed",
        "pod": "team/one",
        "node": "a",
        "devices": "gpu:0",
        "reason": "",
        "decision": one.id,
        "took_ms": 0.0,
    }
    assert waits == {
        "event": "Unable to schedule pod",
        "log_level": "info",
        "result": "waits",
        "pod": "team/big",
        "node": "",
        "devices": "",
        "reason": big.message,
        "decision": big.id,
        "took_ms": 0.0,
    }


@pytest.mark.parametrize(
    ("end", "reason"),
    [
        pytest.param(ev.BindOutcome.REFUSED, "no", id="refused"),
        pytest.param(ev.BindOutcome.GONE, "gone", id="without-a-message"),
    ],
)
async def test_failed_binding_is_the_line_of_its_decision(
    lines: list[Any], end: ev.BindOutcome, reason: str
) -> None:
    async with playing(Stage()) as stage:
        stage.see(ev.NodeUpdated(node("a", gpus=4)), ev.PodUpdated(pod("one", gpus=1)))
        stage.sync()
        stage.binder.end(await stage.binder.next(), end, "no" if reason == "no" else "")
        await stage.quiet()

    [line] = of_decisions(lines)
    assert line.keys() == KEYS | {"event", "log_level"}
    assert (line["event"], line["result"]) == ("binding failed", "failed")
    assert (line["pod"], line["reason"]) == ("team/one", reason)


async def test_placement_of_a_deleted_pod_is_dropped_in_one_line(lines: list[Any]) -> None:
    async with playing(Stage()) as stage:
        one = pod("one", gpus=1)
        stage.see(ev.NodeUpdated(node("a", gpus=4)), ev.PodUpdated(one))
        stage.sync()
        placement = await stage.binder.next()
        stage.see(ev.PodDeleted(one.uid))
        await stage.quiet()
        stage.binder.end(placement, ev.BindOutcome.GONE)
        await stage.quiet()

    [line] = of_decisions(lines)
    assert line.keys() == KEYS | {"event", "log_level"}
    assert (line["event"], line["result"]) == ("placement dropped", "dropped")
    assert line["reason"] == "the pod ended"


async def test_duration_of_a_decision_has_the_plan_of_its_batch(lines: list[Any]) -> None:
    stage = Stage()
    stage.loop._clock = SlowClock()
    stage.loop.queue.add(pod("big", gpus=9), stage.clock())

    assert stage.loop._decide_batch(stage.clock())

    [line] = of_decisions(lines)
    assert line["took_ms"] == 200.0
