"""From a standby's webhook to the leader's state and back: one hop, one reservation."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import msgspec
import pytest

from scheduler.admission import leader_proxy
from scheduler.admission.leader_proxy import BUDGET_S, LeaderProxy, LeaderProxySettings
from scheduler.admission.server import ROOM_POLL_S, AdmissionServer
from scheduler.httpserver.connection_metrics import uncounted
from scheduler.model.admission import PATH, AdmissionDecision
from scheduler.state import event as ev
from tests.builders import namespace, node, pod_json
from tests.http.admission.test_admission_server import RULES, question
from tests.http.admission.test_leader_proxy import OURS, listening, write
from tests.patience import PATIENCE_S
from tests.unit.loop.loop_world import Stage, playing

QUESTION = question(pod_json("web-", mig={"2g.20gb": 1}, uid=""))


class TickingClock:
    """Each reading is ``step_s`` later than the one before, however long that took."""

    def __init__(self) -> None:
        self.now = 0.0
        self.step_s = 0.0

    def __call__(self) -> float:
        self.now += self.step_s
        return self.now


class Pair:
    """A leader that answers replicas, and a standby that knows its address."""

    def __init__(self, leader: Stage, standby: Stage, settings: LeaderProxySettings) -> None:
        self.leader, self.standby = leader, standby
        standby.leader.is_leading = False
        self.clock = TickingClock()
        self.forwarder = LeaderProxy(settings, lambda: settings.address, self.clock, PATIENCE_S)
        self.ours = AdmissionServer(
            standby.loop, RULES, standby.metrics, self.clock, self.forwarder
        )
        self.theirs = AdmissionServer(leader.loop, RULES, leader.metrics, self.clock)

    async def ask(self) -> AdmissionDecision:
        reply = await self.forwarder.ask(QUESTION)
        assert reply.status == 200, reply
        return msgspec.json.decode(reply.content, type=AdmissionDecision)


@pytest.fixture
async def pair(tmp_path: Path) -> AsyncIterator[Pair]:
    settings = write(tmp_path / "leader", OURS)
    async with playing(Stage()) as leader, playing(Stage()) as standby:
        for stage in (leader, standby):
            stage.see(ev.NodeUpdated(node("m", mig={"2g.20gb": 1, "1g.10gb": 400})))
            stage.see(ev.NamespaceUpdated(namespace("team")))
            stage.sync()
            await stage.quiet()
        made = Pair(leader, standby, settings)
        serving = asyncio.create_task(
            leader_proxy.serve(settings, {PATH: made.theirs.forwarded}, uncounted("replicas"))
        )
        await listening(settings)
        yield made
        await made.forwarder.close()
        serving.cancel()
        await asyncio.gather(serving, return_exceptions=True)


@pytest.mark.contract("S0-B3")
async def test_leader_reserves_and_the_standby_does_not(pair: Pair) -> None:
    """Two simultaneous queries for the last slice, through any replica."""
    answers = await asyncio.gather(*(pair.ask() for _ in range(2)))

    assert sorted(len(answer.rewrites) for answer in answers) == [0, 1]
    assert (len(pair.leader.loop.reservations), len(pair.standby.loop.reservations)) == (2, 0)


async def test_standby_taken_for_the_leader_forwards_nothing(pair: Pair) -> None:
    pair.leader.leader.is_leading = False

    assert (await pair.forwarder.ask(QUESTION)).status == 421
    assert (await pair.ours.forwarded(QUESTION)).status == 421


async def test_standby_is_answered_in_time_beside_many_reservations(pair: Pair) -> None:
    """A reservation made after the standby timed out has no pod."""
    for _ in range(64):
        await pair.ask()
    pair.clock.step_s = ROOM_POLL_S
    started = pair.clock.now
    answer = await pair.ask()

    assert (answer.rewrites, answer.reservation) == ((), None)
    assert 0 < pair.clock.now - started < BUDGET_S
    assert len(pair.leader.loop.reservations) == 64
