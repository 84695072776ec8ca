"""The server on the Unix socket, byte by byte: what a program beside us can do to it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from structlog.testing import capture_logs

from scheduler.localhttp import HEAD_MAX, Reply, Request, Server

BODY_MAX = 1000
QUESTION = b"POST /place/v1 HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\nhello"


class Desk:
    """A server whose handler repeats what it was asked."""

    def __init__(self, socket: Path) -> None:
        self.socket = socket
        self.asked: list[Request] = []
        self.may_answer = asyncio.Event()
        self.may_answer.set()
        self.ended: list[str] = []
        self.server = Server(self.handle, BODY_MAX)

    async def handle(self, request: Request) -> Reply:
        self.asked.append(request)
        try:
            await self.may_answer.wait()
        except asyncio.CancelledError:
            self.ended.append("cancelled")
            raise
        if request.path == "/bug":
            raise ValueError("a bug")
        return Reply(200, b"got " + request.body)


@asynccontextmanager
async def serving() -> AsyncIterator[Desk]:
    with TemporaryDirectory(prefix="desk") as folder:
        desk = Desk(Path(folder) / "s")
        task = asyncio.create_task(desk.server.serve(desk.socket))
        async with asyncio.timeout(10):
            while not desk.socket.is_socket():  # noqa: ASYNC110 - a file tells nobody
                await asyncio.sleep(0.001)
        yield desk
        assert not task.done(), task
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        assert not desk.socket.exists()


@pytest.fixture
async def desk() -> AsyncIterator[Desk]:
    async with serving() as made:
        yield made


async def exchange(desk: Desk, *pieces: bytes) -> bytes:
    """One connection that stays open while the answer is awaited."""
    reader, writer = await asyncio.open_unix_connection(str(desk.socket))
    for piece in pieces:
        writer.write(piece)
        await asyncio.sleep(0)
    async with asyncio.timeout(10):
        head = await reader.readuntil(b"\r\n\r\n")
        [length] = [int(x.split(b":")[1]) for x in head.split(b"\r\n") if b"Content-Length" in x]
        body = await reader.readexactly(length)
    writer.close()
    return head.split(b"\r\n")[0] + b" | " + body


PIECES: list[Callable[[bytes], list[bytes]]] = [
    lambda whole: [whole],
    lambda whole: [whole[:10], whole[10:]],
    lambda whole: [whole[:-1], whole[-1:]],
    lambda whole: [bytes((byte,)) for byte in whole],
]


@pytest.mark.parametrize("cut", PIECES, ids=["whole", "head-cut", "body-cut", "byte-by-byte"])
async def test_a_question_may_come_in_pieces(
    desk: Desk, cut: Callable[[bytes], list[bytes]]
) -> None:
    assert await exchange(desk, *cut(QUESTION)) == b"HTTP/1.1 200 OK | got hello"
    assert desk.asked == [Request("POST", "/place/v1", b"hello")]


async def test_two_questions_on_one_connection_are_answered_in_order(desk: Desk) -> None:
    second = QUESTION.replace(b"hello", b"again")
    reader, writer = await asyncio.open_unix_connection(str(desk.socket))
    writer.write(QUESTION + second)
    async with asyncio.timeout(10):
        content = await reader.readuntil(b"got again")
    writer.close()

    assert content.index(b"got hello") < content.index(b"got again")
    assert [request.body for request in desk.asked] == [b"hello", b"again"]


BAD = [
    pytest.param(b"nonsense\r\n\r\n", b"HTTP/1.1 400 Refused | not HTTP/1.1", id="nonsense"),
    pytest.param(
        b"POST / HTTP/1.1\r\nContent-Length: -1\r\n\r\n",
        b"HTTP/1.1 400 Refused | a bad length",
        id="negative-length",
    ),
    pytest.param(
        b"POST / HTTP/1.1\r\nContent-Length: 1001\r\n\r\n",
        b"HTTP/1.1 413 Refused | more than 1000 bytes",
        id="too-long",
    ),
    pytest.param(
        b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n",
        b"HTTP/1.1 411 Refused | a length is required",
        id="chunked",
    ),
    pytest.param(
        b"x" * (HEAD_MAX + 1), b"HTTP/1.1 431 Refused | the head is too long", id="endless-head"
    ),
]


@pytest.mark.parametrize(("sent", "answer"), BAD)
async def test_what_is_no_request_of_ours_is_refused(
    desk: Desk, sent: bytes, answer: bytes
) -> None:
    assert await exchange(desk, sent) == answer
    assert desk.asked == []
    assert await exchange(desk, QUESTION) == b"HTTP/1.1 200 OK | got hello"


async def test_a_bug_costs_one_answer_and_not_the_server(desk: Desk) -> None:
    with capture_logs() as lines:
        answer = await exchange(desk, b"GET /bug HTTP/1.1\r\n\r\n")

    assert answer == b"HTTP/1.1 500 Refused | internal error"
    assert lines[0]["event"] == "a question was not answered"
    assert await exchange(desk, QUESTION) == b"HTTP/1.1 200 OK | got hello"


async def test_who_hangs_up_is_not_answered(desk: Desk) -> None:
    desk.may_answer.clear()
    _, writer = await asyncio.open_unix_connection(str(desk.socket))
    writer.write(QUESTION)
    async with asyncio.timeout(10):
        while not desk.asked:  # noqa: ASYNC110 - the handler has no other way to say it
            await asyncio.sleep(0.001)
        writer.close()
        while not desk.ended:  # noqa: ASYNC110
            await asyncio.sleep(0.001)

    assert desk.ended == ["cancelled"]
    assert desk.server.connections == set()
