"""Asking the scheduler: its answer in time, or None and a warning that does not flood."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import msgspec
import pytest
from aiohttp import web
from structlog.testing import capture_logs

from scheduler.model import admission
from scheduler.model.admission import (
    AdmissionDecision,
    AdmissionQuery,
    NodeAssignment,
    ResourceRewrite,
)
from tests.patience import PATIENCE_S
from tests.unit.webhook.scheduler import SchedulerEnd, says
from webhook.scheduler_client import SchedulerClient

QUESTION = AdmissionQuery(
    uid="u", dry_run=True, namespace="n", scope="ours", pod=msgspec.Raw(b'{"future":[1.5]}')
)


async def ask(link: SchedulerClient) -> AdmissionDecision | None:
    """One question."""
    return await link.ask(QUESTION)


@pytest.fixture
def socket() -> Iterator[Path]:
    """A path short enough for a Unix socket."""
    with TemporaryDirectory(prefix="link") as folder:
        yield Path(folder) / "s"


async def test_query_and_decision_have_the_agreed_json(socket: Path) -> None:
    """Field by field, because the two programs may be of different versions."""

    async def reply(_question: Any) -> web.Response:
        return web.json_response(
            {
                "rewrites": [
                    {"container": "c", "init": False, "from": "nvidia.com/a", "to": "nvidia.com/b"}
                ],
                "denied": None,
                "reservation": "r-1",
                "annotate": False,
                "knownReservation": True,
                "nodeKinds": {"node1": {"node": "real", "kind": "numbered"}},
                "warnings": ["w"],
                "aFieldOfTomorrow": 1,
            }
        )

    link = SchedulerClient(socket, budget_s=PATIENCE_S)
    async with SchedulerEnd(socket, reply) as end:
        answer = await ask(link)
    await link.close()

    assert end.questions == [
        {
            **{"uid": "u", "dryRun": True, "namespace": "n", "scope": "ours"},
            **{"pod": {"future": [1.5]}, "version": admission.VERSION},
        }
    ]
    assert answer == AdmissionDecision(
        rewrites=(ResourceRewrite(container="c", source="nvidia.com/a", target="nvidia.com/b"),),
        reservation="r-1",
        annotate=False,
        known_reservation=True,
        node_kinds={"node1": NodeAssignment("real", "numbered")},
        warnings=("w",),
    )


def test_query_and_decision_round_trip() -> None:
    """The scheduler encodes the very type that the webhook decodes."""
    answer = AdmissionDecision(
        rewrites=(ResourceRewrite(container="c", source="a", target="b", init=True),),
        node_kinds={"x": NodeAssignment(None, "counted")},
    )

    assert msgspec.json.decode(msgspec.json.encode(answer), type=AdmissionDecision) == answer


async def impossible(_question: Any) -> web.Response:
    """Accepts the query and sends nothing."""
    await asyncio.Event().wait()
    raise AssertionError("unreachable")


async def status_500(_question: Any) -> web.Response:
    return web.Response(status=500, text="boom")


async def not_json(_question: Any) -> web.Response:
    return web.Response(text="<html>")


async def wrong_type(_question: Any) -> web.Response:
    return web.json_response({"rewrites": "all"})


async def endless(_question: Any) -> web.Response:
    return web.Response(body=b" " * 2_000_000)


@pytest.mark.contract("S0-B4")
@pytest.mark.parametrize(
    ("reply", "problem"),
    [
        pytest.param(impossible, "no answer within 0.05 s", id="silent"),
        pytest.param(status_500, "status 500: boom", id="error"),
        pytest.param(not_json, "invalid answer", id="not-json"),
        pytest.param(wrong_type, "invalid answer", id="wrong-type"),
        pytest.param(endless, "an answer longer than", id="too-long"),
    ],
)
async def test_scheduler_error_is_no_answer(reply: Any, problem: str, socket: Path) -> None:
    """The pod is admitted without a fallback, and the log has the reason."""
    link = SchedulerClient(socket, budget_s=0.05 if reply is impossible else PATIENCE_S)
    async with SchedulerEnd(socket, reply):
        with capture_logs() as lines:
            answer = await ask(link)
    await link.close()

    assert answer is None
    (line,) = lines
    assert line["log_level"] == "warning"
    assert line["problem"].startswith(problem)


async def test_an_answer_in_many_pieces_is_read_to_its_end(socket: Path) -> None:
    """A map of ten thousand lines has as many node kinds."""
    kinds = {f"node-{number}": NodeAssignment(f"worker-{number}") for number in range(10_000)}
    link = SchedulerClient(socket, budget_s=PATIENCE_S)
    async with SchedulerEnd(socket, says(AdmissionDecision(node_kinds=kinds))):
        answer = await ask(link)
    await link.close()

    assert answer is not None
    assert answer.node_kinds == kinds


async def test_liveness_is_reported_and_ignores_a_silent_scheduler(socket: Path) -> None:
    heard: list[str] = []

    async def hear(request: web.Request) -> web.Response:
        heard.append(request.path)
        return web.Response(status=204)

    link = SchedulerClient(socket, budget_s=PATIENCE_S)
    await link.say_alive()
    app = web.Application()
    app.router.add_get(admission.ALIVE_PATH, hear)
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    await web.UnixSite(runner, str(socket)).start()
    await link.say_alive()
    await link.close()
    await runner.cleanup()

    assert heard == ["/alive/v1"]


async def test_no_socket_at_all_is_no_answer_and_one_warning_a_minute(socket: Path) -> None:
    """While the scheduler is away every pod comes through here."""
    now = [100.0]
    link = SchedulerClient(socket, budget_s=PATIENCE_S, now=lambda: now[0])
    counts = []
    for step_s in (0.0, 1.0, 58.0, 2.0, 30.0):
        now[0] += step_s
        with capture_logs() as lines:
            assert await ask(link) is None
        counts.append(len(lines))
    await link.close()

    assert counts == [1, 0, 0, 1, 0]


async def test_a_restarted_scheduler_is_found_again(socket: Path) -> None:
    """No connection is kept that a restart would break."""
    link = SchedulerClient(socket, budget_s=PATIENCE_S)
    answers = []
    for _ in range(2):
        async with SchedulerEnd(socket, says(AdmissionDecision(reservation="r"))):
            answers.append(await ask(link))
        answers.append(await ask(link))
    await link.close()

    assert answers == [AdmissionDecision(reservation="r"), None] * 2


YES = b'HTTP/1.1 200 OK\r\nContent-Length: 19\r\n\r\n{"reservation":"r"}'
Talk = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


@asynccontextmanager
async def other_end(socket: Path, talk: Talk) -> AsyncIterator[list[str]]:
    """A scheduler's end that does with each connection what ``talk`` says; a name for each."""
    connections: list[str] = []

    async def meet(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connections.append(f"connection {len(connections) + 1}")
        try:
            await talk(reader, writer)
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()

    server = await asyncio.start_unix_server(meet, str(socket))
    try:
        yield connections
    finally:
        server.close()


async def read_question(reader: asyncio.StreamReader) -> bytes:
    head = await reader.readuntil(b"\r\n\r\n")
    [length] = [int(x.split(b":")[1]) for x in head.split(b"\r\n") if b"Content-Length" in x]
    return head + await reader.readexactly(length)


async def test_one_connection_serves_many_questions(socket: Path) -> None:
    async def always(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while True:
            await read_question(reader)
            writer.write(YES)

    link = SchedulerClient(socket, budget_s=PATIENCE_S)
    async with other_end(socket, always) as connections:
        answers = [await ask(link) for _ in range(5)]
        await link.close()

    assert answers == [AdmissionDecision(reservation="r")] * 5
    assert connections == ["connection 1"]


async def test_a_question_is_asked_again_where_a_kept_connection_ends(socket: Path) -> None:
    """The scheduler was restarted just then; no pod pays for it."""
    asked: list[bytes] = []

    async def once(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        asked.append(await read_question(reader))
        writer.write(YES)
        asked.append(await read_question(reader))  # and is gone

    link = SchedulerClient(socket, budget_s=PATIENCE_S)
    async with other_end(socket, once) as connections:
        answers = [await ask(link) for _ in range(2)]
        await link.close()

    assert answers == [AdmissionDecision(reservation="r")] * 2
    assert (len(connections), len(asked)) == (2, 3)


@pytest.mark.parametrize(
    "sent",
    [b"", YES[:-1], YES[:9], b"SSH-2.0-x\r\n\r\n", b"x" * 20_000],
    ids=["nothing", "half-an-answer", "half-a-head", "another-protocol", "an-endless-head"],
)
async def test_invalid_http_response_is_no_answer(socket: Path, sent: bytes) -> None:
    async def confused(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await read_question(reader)
        writer.write(sent)

    link = SchedulerClient(socket, budget_s=PATIENCE_S)
    async with other_end(socket, confused):
        with capture_logs() as lines:
            assert await ask(link) is None
        await link.close()

    assert [line["log_level"] for line in lines] == ["warning"]


async def test_an_answer_after_the_deadline_is_not_taken_for_the_next_one(socket: Path) -> None:
    late = asyncio.Event()

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await read_question(reader)
        is_first = not late.is_set()
        await late.wait()
        writer.write(YES.replace(b'"r"', b'"o"') if is_first else YES)

    link = SchedulerClient(socket, budget_s=1.0)
    async with other_end(socket, talk):
        assert await ask(link) is None
        late.set()
        assert await ask(link) == AdmissionDecision(reservation="r")
        await link.close()
