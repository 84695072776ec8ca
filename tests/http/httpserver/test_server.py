"""Our server over real sockets: what a client gets, whatever it sends and however slowly."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Callable
from typing import Any

import msgspec
import pytest
from structlog.testing import capture_logs

from scheduler.httpserver.limits import HEAD_MAX
from tests.http.httpserver.echo_server import (
    LATER,
    LIMITS,
    QUESTION,
    EchoServer,
    answer_from,
    exchange,
    serving,
)
from tests.patience import PATIENCE_S

GOT = b"HTTP/1.1 200 OK | got hello"


@pytest.fixture
async def server() -> AsyncIterator[EchoServer]:
    async with serving() as made:
        yield made


PIECES: list[Callable[[bytes], list[bytes]]] = [
    lambda whole: [whole],
    lambda whole: [whole[:10], whole[10:]],
    lambda whole: [whole[:-1], whole[-1:]],
    lambda whole: [bytes((byte,)) for byte in whole],
]


@pytest.mark.parametrize("cut", PIECES, ids=["whole", "head-cut", "body-cut", "byte-by-byte"])
async def test_request_may_arrive_in_pieces(
    server: EchoServer, cut: Callable[[bytes], list[bytes]]
) -> None:
    """TCP promises nothing about pieces."""
    assert await exchange(server, *cut(QUESTION)) == GOT
    (request,) = server.asked
    assert (request.head.method, request.head.path, request.body) == ("POST", "/place/v1", b"hello")
    assert dict(request.head.headers) == {"Host": "x", "Content-Length": "5"}


@pytest.mark.parametrize("first", [QUESTION, LATER], ids=["at-once", "later"])
async def test_pipelined_requests_are_answered_in_order(server: EchoServer, first: bytes) -> None:
    """Whether their answers are there at once or not, and wherever the pieces end."""
    server.may_answer.set()
    reader, writer = await server.connect()
    writer.write(first + QUESTION.replace(b"hello", b"again") + QUESTION[:20])
    answers = [await answer_from(reader) for _ in range(2)]
    writer.write(QUESTION[20:])
    answers.append(await answer_from(reader))

    assert answers == [GOT, GOT.replace(b"hello", b"again"), GOT]


async def test_connection_is_not_read_while_answering(server: EchoServer) -> None:
    """Otherwise a client could fill the memory with unanswered requests."""
    reader, writer = await server.connect()
    writer.write(LATER)
    await server.until(lambda: server.asked)
    writer.write(QUESTION * 200_000)  # more than the kernel's buffers of both ends
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.3):
            await writer.drain()
    server.may_answer.set()
    answers = [await answer_from(reader) for _ in range(100)]
    writer.transport.abort()

    assert answers == [GOT] * 100


async def test_a_body_of_many_pieces_arrives_whole() -> None:
    """It is longer than what is read at once."""
    async with serving(msgspec.structs.replace(LIMITS, body=3_000_000, bodies=4_000_000)) as server:
        body = bytes(range(256)) * 10_000
        head = b"POST /place/v1 HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n" % len(body)
        answer = await exchange(server, head, body)

    assert answer == b"HTTP/1.1 200 OK | got " + body


BAD = [
    pytest.param(b"nonsense\r\n\r\n", 400, id="nonsense"),
    pytest.param(b"\x16\x03\x01\x02\x00\x01\x00", 400, id="tls-on-a-plain-port"),
    pytest.param(b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 1001\r\n\r\n", 413, id="too-long"),
    pytest.param(
        b"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        411,
        id="chunked",
    ),
    pytest.param(
        b"POST / HTTP/1.1\r\nHost: x\r\nExpect: a-miracle\r\nContent-Length: 1\r\n\r\n",
        417,
        id="expects-what-we-do-not-know",
    ),
    pytest.param(b"GET / HTTP/1.1\r\nX: " + b"x" * HEAD_MAX, 431, id="a-field-without-end"),
    pytest.param(b"GET / HTTP/1.1\r\n" + b"X: x\r\n" * HEAD_MAX, 431, id="fields-without-end"),
    pytest.param(b"GET /" + b"x" * HEAD_MAX, 431, id="a-path-without-end"),
    pytest.param(
        b"GET / HTTP/1.1\r\nHost: x\r\n" + b"X: x\r\n" * 70 + b"\r\n", 400, id="too-many-fields"
    ),
]


@pytest.mark.parametrize(("sent", "status"), BAD)
async def test_unsupported_request_is_refused(server: EchoServer, sent: bytes, status: int) -> None:
    """The connection ends, the handler hears nothing, and the next client is served."""
    reader, writer = await server.connect()
    writer.write(sent)
    content = await reader.read()

    assert content.split()[1] == str(status).encode()
    assert server.asked == []
    assert await exchange(server, QUESTION) == GOT


async def test_oversized_request_gets_a_readable_error(server: EchoServer) -> None:
    """What it still sends is discarded, or its end would report a broken connection."""
    reader, writer = await server.connect()
    writer.write(b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 9000000\r\n\r\n")
    writer.write(b"x" * 9_000_000)
    await writer.drain()
    answer, rest = await answer_from(reader), await reader.read()

    assert answer == (
        b"HTTP/1.1 413 Request Entity Too Large | Maximum request body size 1000 exceeded\n"
    )
    assert rest == b""


async def test_gate_refuses_before_reading_the_body(server: EchoServer) -> None:
    """The client hears it while its body is on the way."""
    head = b"POST /locked HTTP/1.1\r\nHost: x\r\nContent-Length: 900\r\n\r\n"
    answer = await exchange(server, head + b"half a body")

    assert answer == b"HTTP/1.1 403 Forbidden | not you"
    assert server.asked == []


async def test_a_compressed_body_stays_as_it_is(server: EchoServer) -> None:
    """Three kilobytes could become three megabytes."""
    question = QUESTION.replace(b"Host: x", b"Host: x\r\nContent-Encoding: gzip")

    assert await exchange(server, question) == GOT


@pytest.mark.parametrize("path", [b"/bug", b"/later/bug"])
async def test_handler_error_fails_one_request_only(server: EchoServer, path: bytes) -> None:
    """It is in the log with its traceback, once in ten seconds."""
    server.may_answer.set()
    question = b"GET " + path + b" HTTP/1.1\r\nHost: x\r\n\r\n"
    with capture_logs() as lines:
        answers = [await exchange(server, question) for _ in range(3)]

    assert answers == [b"HTTP/1.1 500 Internal Server Error | internal error\n"] * 3
    assert [(line["event"], line["exc_info"], line["path"]) for line in lines] == [
        ("request handler failed", True, path.decode())
    ]
    assert await exchange(server, QUESTION) == GOT


async def test_disconnected_client_cancels_its_handler(server: EchoServer) -> None:
    _, writer = await server.connect()
    writer.write(LATER)
    await server.until(lambda: server.asked)
    writer.close()
    await server.until(lambda: server.ended)

    assert server.ended == ["cancelled"]
    assert server.counted("") == 0


async def test_a_client_that_hangs_up_in_its_body_is_forgotten(server: EchoServer) -> None:
    """And leaves no line in the log."""
    with capture_logs() as lines:
        _, writer = await server.connect()
        writer.write(QUESTION[:-1])
        await server.until(lambda: server.heads)
        writer.close()
        await server.until(lambda: not server.counted(""))

    assert lines == []
    assert await exchange(server, QUESTION) == GOT


KEPT = [
    pytest.param(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n", True, id="kept"),
    pytest.param(b"GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n", False, id="close"),
    pytest.param(
        b"GET / HTTP/1.1\r\nHost: x\r\nConnection: keep-alive, close\r\n\r\n", False, id="list"
    ),
    pytest.param(b"GET / HTTP/1.0\r\n\r\n", False, id="http-1.0"),
    pytest.param(b"GET / HTTP/1.0\r\nConnection: Keep-Alive\r\n\r\n", True, id="1.0-kept"),
    pytest.param(b"GET / HTTP/1.0\r\nConnection: keep-alive, close\r\n\r\n", False, id="1.0-list"),
]


@pytest.mark.parametrize(("head", "stays"), KEPT)
async def test_a_connection_is_kept_unless_the_client_wants_it_closed(
    server: EchoServer, head: bytes, stays: bool
) -> None:
    """A new handshake costs more than a review."""
    reader, writer = await server.connect()
    writer.write(head)
    await answer_from(reader)
    writer.write(QUESTION)
    answer = await reader.readuntil(b"got hello") if stays else await reader.read()

    assert answer.endswith(b"got hello") is stays


async def test_head_returns_the_content_length(server: EchoServer) -> None:
    """And has no body, which would be read as the next answer."""
    reader, writer = await server.connect()
    writer.write(b"HEAD /x HTTP/1.1\r\nHost: x\r\n\r\n" + QUESTION)
    head = await reader.readuntil(b"\r\n\r\n")
    answer = await answer_from(reader)

    assert b"Content-Length: 4\r\n" in head
    assert answer == GOT


async def test_expect_continue_is_answered(server: EchoServer) -> None:
    """curl sends a long body only then, or after a second; not where the gate is closed."""
    reader, writer = await server.connect()
    head, body = QUESTION.split(b"\r\n\r\n")
    writer.write(head + b"\r\nExpect: 100-continue\r\n\r\n")
    word = await reader.readuntil(b"\r\n\r\n")
    writer.write(body)
    answer = await answer_from(reader)
    locked = head.replace(b"/place/v1", b"/locked") + b"\r\nExpect: 100-continue\r\n\r\n"
    refused = await exchange(server, locked)

    assert word == b"HTTP/1.1 100 Continue\r\n\r\n"
    assert answer == GOT
    assert refused == b"HTTP/1.1 403 Forbidden | not you"


SLOW = [
    pytest.param({"handshake_s": 0.05}, b"", b"", "handshake", id="never-spoke"),
    pytest.param({"idle_s": 0.05}, QUESTION, b"got hello", "", id="idle"),
    pytest.param({"idle_s": 0.05}, QUESTION + b"PO", b"got hello", "", id="half-of-next"),
    pytest.param({"head_s": 0.05}, b"POST / HT", b"Request Timeout\n", "head", id="half-a-head"),
    pytest.param({"body_s": 0.05}, QUESTION[:-1], b"arrive in time\n", "body", id="half-a-body"),
]


@pytest.mark.parametrize(("limits", "sent", "answer", "reason"), SLOW)
async def test_client_not_continuing_times_out(
    limits: dict[str, Any], sent: bytes, answer: bytes, reason: str
) -> None:
    """After a word to a client that had begun a request, and counted by reason."""
    hour = dict.fromkeys(("handshake_s", "head_s", "body_s", "idle_s"), 3600.0)
    async with serving(msgspec.structs.replace(LIMITS, **{**hour, **limits})) as server:
        reader, writer = await server.connect()
        writer.write(sent)
        async with asyncio.timeout(PATIENCE_S):
            content = await reader.read()
        dropped = server.counted("_dropped_total", reason=reason)

    assert content.endswith(answer)
    assert bool(content) is bool(answer)
    assert dropped == (1 if reason else 0)


async def test_client_not_reading_times_out() -> None:
    """What is owed to it would stay in the memory."""
    limits = msgspec.structs.replace(LIMITS, unread_s=0.1, body=9_000_000, bodies=9_000_000)
    async with serving(limits) as server:
        loop = asyncio.get_running_loop()
        with socket.socket() as client:
            client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            client.setblocking(False)
            await loop.sock_connect(client, ("127.0.0.1", server.port))
            head = b"POST /place/v1 HTTP/1.1\r\nHost: x\r\nContent-Length: 9000000\r\n\r\n"
            # Its answer is longer than the kernel's buffers of both ends.
            await loop.sock_sendall(client, head + b"x" * 9_000_000)
            await server.until(lambda: server.counted("_dropped_total", reason="unread"))


async def test_shutdown_answers_requests_in_flight() -> None:
    """A client that only kept a connection is let go at once."""
    async with serving(grace_s=60.0) as server:
        idle, busy = await server.connect(), await server.connect()
        idle[1].write(QUESTION)
        await answer_from(idle[0])
        busy[1].write(LATER)
        await server.until(lambda: len(server.asked) == 2)
        asyncio.get_running_loop().call_later(0.1, server.may_answer.set)
        writers, server.writers = server.writers, []
    gone = await idle[0].read()
    answer, rest = await answer_from(busy[0]), await busy[0].read()
    for writer in writers:
        writer.close()

    assert (gone, answer, rest) == (b"", GOT, b"")


async def test_shutdown_is_limited_by_the_grace_period() -> None:
    """An answer that never comes is cut off."""
    async with serving(grace_s=0.05) as server:
        reader, writer = await server.connect()
        writer.write(LATER)
        await server.until(lambda: server.asked)
        server.writers = []

    with pytest.raises((asyncio.IncompleteReadError, ConnectionError)):
        await answer_from(reader)
    writer.close()
