"""The webhook's questions over a real Unix socket."""

from __future__ import annotations

import asyncio
import io
import stat
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import aiohttp
import msgspec
import pytest

from scheduler.admission.server import AdmissionServer
from scheduler.controllers.migration.controller import NoMigration
from scheduler.decide.admission.admit import Rules
from scheduler.model import well_known
from scheduler.model.admission import PATH, VERSION, AdmissionDecision, ResourceRewrite
from scheduler.model.crd.migration import Migration
from scheduler.model.mig.fallback_ladder import parse_ladder
from scheduler.model.pods.pod import Pod
from scheduler.state import event as ev
from scheduler.state.breakers.recreate_budget import WebhookLiveness
from scheduler.state.reservation_limits import devices
from scheduler.state.reservations import Reservations
from tests.builders import MIG_1G, MIG_2G, namespace, node, pod_json, restoring
from tests.dra import claiming
from tests.patience import PATIENCE_S
from tests.unit.loop.loop_world import Stage, playing

RULES = Rules(ladders=(parse_ladder("2g.20gb->1g.10gb"),))
TICKET = restoring("restore-1-0a1b2c3d")
ROOMY = node("m", mig={"2g.20gb": 1, "1g.10gb": 400})


class Asking:
    """A scheduler that answers, and a way to ask it."""

    def __init__(self, stage: Stage, socket: Path) -> None:
        self.stage = stage
        self.socket = socket
        self._session = aiohttp.ClientSession(connector=aiohttp.UnixConnector(str(socket)))

    async def close(self) -> None:
        await self._session.close()

    async def post(self, body: bytes) -> tuple[int, bytes]:
        """Status and body of the answer to any bytes."""
        async with self._session.post(f"http://scheduler{PATH}", data=io.BytesIO(body)) as response:
            return response.status, await response.read()

    async def ask(
        self, name: str = "web-", *, dry_run: bool = False, **fields: Any
    ) -> AdmissionDecision:
        """The answer for a pod that requests 2g.20gb."""
        asked: dict[str, Any] = {"mig": {"2g.20gb": 1}, "uid": "", **fields}
        space = asked.get("namespace", "team")
        body = question(pod_json(name, **asked), dry_run=dry_run, namespace=space)
        status, body = await self.post(body)
        assert status == 200, body
        return msgspec.json.decode(body, type=AdmissionDecision)


def question(pod: Any, *, dry_run: bool = False, namespace: str = "team") -> bytes:
    return msgspec.json.encode(
        {"uid": "u", "dryRun": dry_run, "namespace": namespace, "scope": "ours", "pod": pod}
    )


def is_open(socket: Path) -> bool:
    """Whether the server listens, for its own group only."""
    return socket.is_socket() and stat.S_IMODE(socket.stat().st_mode) == 0o660


@pytest.fixture
async def asking(tmp_path: Path) -> AsyncIterator[Asking]:
    socket = tmp_path / "place.sock"
    socket.write_text("left by a killed process")
    async with playing(Stage()) as stage:
        stage.see(ev.NodeUpdated(ROOMY))
        stage.see(ev.NamespaceUpdated(namespace("team")))
        stage.sync()
        answerer = AdmissionServer(stage.loop, RULES, stage.metrics, stage.clock)
        serving = asyncio.create_task(answerer.serve(socket))
        async with asyncio.timeout(PATIENCE_S):
            while not is_open(socket):  # noqa: ASYNC110 - no notification for a new file
                await asyncio.sleep(0.001)
        await stage.quiet()
        made = Asking(stage, socket)
        yield made
        await made.close()
        serving.cancel()
        await asyncio.gather(serving, return_exceptions=True)
        assert not socket.exists(), "the socket goes with its server"


@pytest.mark.contract("S0-B3")
async def test_last_slice_is_reserved_once(asking: Asking) -> None:
    """Twenty at the same moment."""
    answers = await asyncio.gather(*(asking.ask() for _ in range(20)))

    kept = [answer for answer in answers if not answer.rewrites]
    assert len(kept) == 1
    assert all(answer.reservation for answer in answers)
    assert len({answer.reservation for answer in answers}) == 20
    assert {answer.rewrites for answer in answers if answer.rewrites} == {
        (ResourceRewrite(container="app", source=MIG_2G, target=MIG_1G),)
    }
    assert len(asking.stage.loop.reservations) == 20


@pytest.mark.contract("S0-B3")
async def test_dry_run_reserves_nothing(asking: Asking) -> None:
    for _ in range(3):
        answer = await asking.ask(dry_run=True)
        assert (answer.rewrites, answer.reservation) == ((), None)

    assert len(asking.stage.loop.reservations) == 0
    assert asking.stage.sample("gpu_scheduler_admissions_total", result="kept") == 0


class OneTicket(NoMigration):
    """A migration that waits for its replacement, whatever pod that is."""

    def migration_for(self, pod: Pod) -> Migration | None:
        return TICKET


@pytest.mark.contract("S3-B14")
async def test_dry_run_does_not_consume_a_ticket(asking: Asking) -> None:
    asking.stage.replace(OneTicket())
    for _ in range(3):
        answer = await asking.ask(dry_run=True, owner="Deployment/web@r1")
        assert (answer.move, answer.rewrites) == (TICKET.id, ())
    assert len(asking.stage.loop.reservations) == 0, "nothing is held for a pod that is not created"

    made = await asking.ask(owner="Deployment/web@r1")

    assert (made.move, made.rewrites) == (TICKET.id, ())
    assert len(asking.stage.loop.reservations) == 1


async def test_replacement_without_a_tier_is_known_by_its_claims(asking: Asking) -> None:
    asking.stage.replace(OneTicket())
    for spec, move in ((claiming(templates={"accel": "gpu"}), TICKET.id), ({}, None)):
        answer = await asking.ask(owner="Deployment/web@r1", mig={}, spec=spec)

        assert (answer.move, answer.reservation) == (move, None)


async def test_second_dry_run_call_repeats_and_holds_nothing(asking: Asking) -> None:
    """Or a default that came back in between would be rewritten and summed up."""
    await asking.ask()
    first = await asking.ask(dry_run=True)
    assert first.rewrites == (ResourceRewrite(container="app", source=MIG_2G, target=MIG_1G),)
    again = {well_known.RESERVATION: str(first.reservation)}

    second = await asking.ask(dry_run=True, mig={"2g.20gb": 1, "1g.10gb": 1}, annotations=again)

    assert second.known_reservation
    assert second.rewrites == first.rewrites
    assert len(asking.stage.loop.reservations) == 1

    asking.stage.pass_time(11)
    await asking.stage.quiet()
    assert not (await asking.ask(dry_run=True, annotations=again)).known_reservation


async def test_remembered_dry_runs_are_limited(asking: Asking) -> None:
    await asking.ask()
    first = await asking.ask(dry_run=True)
    for _ in range(256):
        await asking.ask(dry_run=True)

    again = {well_known.RESERVATION: str(first.reservation)}
    assert not (await asking.ask(dry_run=True, annotations=again)).known_reservation


async def test_a_retry_of_a_controller_keeps_its_tier(asking: Asking) -> None:
    """Its clock is the clock of the reservations."""
    assert (await asking.ask(owner="Deployment/web")).rewrites == ()
    asking.stage.clock.now += 2

    assert (await asking.ask(owner="Deployment/web")).rewrites == ()
    assert len(asking.stage.loop.reservations) == 1


@pytest.mark.contract("S0-B4")
async def test_standby_answers_not_leading(asking: Asking) -> None:
    asking.stage.leader.is_leading = False

    assert await asking.post(question(pod_json())) == (421, b"this scheduler does not lead")


@pytest.mark.contract("S0-B4")
async def test_unsynced_caches_give_no_answer(asking: Asking) -> None:
    asking.stage.gate.is_synced = False

    assert (await asking.post(question(pod_json())))[0] == 421


BAD: list[Any] = [
    pytest.param(b"", id="nothing"),
    pytest.param(b"no json", id="no-json"),
    pytest.param(b"{}", id="no-question"),
    pytest.param(b"[]", id="a-list"),
    pytest.param(question({}), id="no-pod"),
    pytest.param(question("text"), id="a-text-for-a-pod"),
    pytest.param(question({"metadata": {}, "spec": {"containers": 1}}), id="wrong-type"),
    pytest.param(
        question(
            {
                "metadata": {},
                "spec": {
                    "containers": [{"name": "c", "resources": {"limits": {"cpu": "1K"}}}],
                },
            }
        ),
        id="no-quantity",
    ),
]


@pytest.mark.parametrize("body", BAD)
async def test_malformed_query_is_refused_with_a_sentence(asking: Asking, body: bytes) -> None:
    status, text = await asking.post(body)

    assert status == 400
    assert text.startswith(b"invalid admission query: ")
    assert len(text) < 300


async def test_oversized_query_is_refused(asking: Asking) -> None:
    status, _ = await asking.post(b" " * (4 * 1024 * 1024 + 1))

    assert status == 413


async def test_query_after_a_malformed_one_is_answered(asking: Asking) -> None:
    await asking.post(b"no json")

    assert (await asking.ask()).reservation is not None


async def test_too_many_pending_reservations_leave_the_request_unchanged(asking: Asking) -> None:
    """Any client can post a review; the wait for capacity is limited."""
    await asyncio.gather(*(asking.ask() for _ in range(64)))
    answer = await until_answered(asking, asyncio.create_task(asking.ask()))

    assert (answer.rewrites, answer.reservation) == ((), None)
    assert len(asking.stage.loop.reservations) == 64


async def until_answered(
    asking: Asking, waiting: asyncio.Task[AdmissionDecision]
) -> AdmissionDecision:
    """Let the clock run on until the answer is there."""
    while not waiting.done():
        asking.stage.clock.now += 0.1
        await asyncio.sleep(0.001)
    return await waiting


async def test_review_in_an_unknown_namespace_reserves_nothing(
    asking: Asking,
) -> None:
    """Any client in the cluster can post one, with the highest priority there is."""
    forged = asyncio.create_task(asking.ask(namespace="nonexistent", priority=2**31 - 1))
    answer = await until_answered(asking, forged)

    assert (answer.rewrites, answer.reservation) == ((), None)
    assert len(asking.stage.loop.reservations) == 0


async def test_namespace_arriving_in_time_is_used(asking: Asking) -> None:
    """It was created a moment before its first pod."""
    waiting = asyncio.create_task(asking.ask(namespace="fresh"))
    await asyncio.sleep(0)
    asking.stage.see(ev.NamespaceUpdated(namespace("fresh")))

    assert (await waiting).reservation is not None


@pytest.mark.parametrize(
    ("number", "sent", "rewritten"),
    [
        pytest.param(1, 2**31 - 1, False, id="a-number-that-no-class-has-counts-as-the-lowest"),
        pytest.param(1, 0, True, id="an-equal-priority-is-respected"),
    ],
)
async def test_forged_review_takes_tiers_only_from_its_own_priority(
    asking: Asking, number: int, sent: int, rewritten: bool
) -> None:
    asking.stage.see(ev.NamespaceUpdated(namespace("theirs")))
    await asking.stage.quiet()
    await asking.ask("e1", namespace="theirs", priority=sent, mig={"2g.20gb": number})

    answer = await asking.ask()
    assert bool(answer.rewrites) is rewritten


async def test_forged_reviews_reserve_at_most_64_devices_per_namespace(
    asking: Asking,
) -> None:
    """Two reviews for ten slices held more than sixty-four for one each."""
    tasks = [asyncio.create_task(asking.ask(mig={"1g.10gb": 10})) for _ in range(30)]
    for task in tasks:
        await until_answered(asking, task)

    held = [devices(one.pod) for one in asking.stage.loop.reservations.pending()]
    assert sum(held) == 60


async def test_capacity_freed_in_time_is_used(asking: Asking) -> None:
    await asyncio.gather(*(asking.ask() for _ in range(64)))
    waiting = asyncio.create_task(asking.ask())
    await asyncio.sleep(0)
    asking.stage.loop.reservations.expire(asking.stage.clock.now + 10)

    assert (await waiting).reservation is not None
    assert len(asking.stage.loop.reservations) == 1


@pytest.mark.parametrize(
    ("fields", "result"),
    [
        pytest.param({}, "kept", id="kept"),
        pytest.param({"mig": {"2g.20gb": 2}}, "degraded", id="degraded"),
        pytest.param({"mig": {"3g.40gb": 1}}, "pending", id="waits"),
        pytest.param(
            {"annotations": {"gpu-scheduler.io/mig-fallback": "x"}}, "denied", id="denied"
        ),
    ],
)
async def test_query_results_are_counted(asking: Asking, fields: Any, result: str) -> None:
    await asking.ask(**fields)

    assert asking.stage.sample("gpu_scheduler_admissions_total", result=result) == 1


async def test_webhook_liveness_and_queries_are_both_recorded(
    tmp_path: Path,
) -> None:
    """What the repair of pods that came past it waits for."""
    stage, pulse = Stage(), WebhookLiveness()
    answerer = AdmissionServer(stage.loop, RULES, stage.metrics, stage.clock, webhook=pulse)
    socket = tmp_path / "s"
    serving = asyncio.create_task(answerer.serve(socket))
    async with asyncio.timeout(PATIENCE_S):
        while not is_open(socket):  # noqa: ASYNC110 - no notification for a new file
            await asyncio.sleep(0.001)
    async with aiohttp.ClientSession(connector=aiohttp.UnixConnector(str(socket))) as session:
        async with session.get("http://scheduler/alive/v1") as response:
            assert response.status == 204
        assert (pulse.stretch, pulse.is_proved) == (1, False)
        async with session.post(f"http://scheduler{PATH}", data=b"{}") as response:
            assert response.status == 421
    serving.cancel()
    await asyncio.gather(serving, return_exceptions=True)

    assert (pulse.stretch, pulse.is_proved) == (1, True)


@pytest.mark.parametrize("waits", [False, True], ids=["at-once", "after-a-wait"])
async def test_failing_pod_is_left_unchanged_and_the_next_is_answered(
    asking: Asking, monkeypatch: pytest.MonkeyPatch, waits: bool
) -> None:
    """The log has the problem id; the API server still gets an answer."""
    if waits:
        monkeypatch.setattr(Reservations, "has_room", lambda self, namespace: False)
        monkeypatch.setattr(AdmissionServer, "_room", lambda *_: asyncio.sleep(0, result=True))

    def fail(*_: Any, **__: Any) -> None:
        raise AssertionError("ours")

    with monkeypatch.context() as patch:
        patch.setattr(
            "scheduler.admission.server.reserve"
            if waits
            else "scheduler.admission.server.with_tier",
            fail,
        )
        assert await asking.ask("bad-") == AdmissionDecision(version=VERSION)

    monkeypatch.undo()
    assert (await asking.ask("good-")).reservation is not None
    errors = asking.stage.sample("gpu_scheduler_internal_errors_total", part="admission")
    assert errors == 1


@pytest.mark.parametrize("amount", [2**63 - 1, 60_000_000])
async def test_pod_beyond_the_limits_is_left_unchanged(asking: Asking, amount: int) -> None:
    assert (await asking.ask(mig={"2g.20gb": amount})).rewrites == ()
