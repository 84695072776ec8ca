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
from tests.http.desk import LATER, LIMITS, QUESTION, Desk, answer_from, exchange, serving

GOT = b"HTTP/1.1 200 OK | got hello"


@pytest.fixture
async def desk() -> AsyncIterator[Desk]:
    async with serving() as made:
        yield made


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
    """TCP promises nothing about pieces."""
    assert await exchange(desk, *cut(QUESTION)) == GOT
    (request,) = desk.asked
    assert (request.head.method, request.head.path, request.body) == ("POST", "/place/v1", b"hello")
    assert dict(request.head.headers) == {"Host": "x", "Content-Length": "5"}


@pytest.mark.parametrize("first", [QUESTION, LATER], ids=["at-once", "later"])
async def test_pipelined_requests_are_answered_in_order(desk: Desk, first: bytes) -> None:
    """Whether their answers are there at once or not, and wherever the pieces end."""
    desk.may_answer.set()
    reader, writer = await desk.connect()
    writer.write(first + QUESTION.replace(b"hello", b"again") + QUESTION[:20])
    answers = [await answer_from(reader) for _ in range(2)]
    writer.write(QUESTION[20:])
    answers.append(await answer_from(reader))

    assert answers == [GOT, GOT.replace(b"hello", b"again"), GOT]


async def test_while_a_request_is_answered_the_connection_is_not_read(desk: Desk) -> None:
    """Or a client could fill the memory with requests that nobody answers yet."""
    reader, writer = await desk.connect()
    writer.write(LATER)
    await desk.until(lambda: desk.asked)
    writer.write(QUESTION * 200_000)  # more than the kernel's buffers of both ends
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.3):
            await writer.drain()
    desk.may_answer.set()
    answers = [await answer_from(reader) for _ in range(100)]
    writer.transport.abort()

    assert answers == [GOT] * 100


async def test_a_body_of_many_pieces_arrives_whole() -> None:
    """It is longer than what is read at once."""
    async with serving(msgspec.structs.replace(LIMITS, body=3_000_000, bodies=4_000_000)) as desk:
        body = bytes(range(256)) * 10_000
        head = b"POST /place/v1 HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n" % len(body)
        answer = await exchange(desk, head, body)

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
async def test_what_is_no_request_of_ours_is_refused(desk: Desk, sent: bytes, status: int) -> None:
    """The connection ends, the handler hears nothing, and the next client is served."""
    reader, writer = await desk.connect()
    writer.write(sent)
    content = await reader.read()

    assert content.split()[1] == str(status).encode()
    assert desk.asked == []
    assert await exchange(desk, QUESTION) == GOT


async def test_a_client_that_sends_too_much_can_read_why(desk: Desk) -> None:
    """What it still sends is discarded, or its end would report a broken connection."""
    reader, writer = await desk.connect()
    writer.write(b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 9000000\r\n\r\n")
    writer.write(b"x" * 9_000_000)
    await writer.drain()
    answer, rest = await answer_from(reader), await reader.read()

    assert answer == (
        b"HTTP/1.1 413 Request Entity Too Large | Maximum request body size 1000 exceeded\n"
    )
    assert rest == b""


async def test_the_gate_refuses_before_a_body_is_read(desk: Desk) -> None:
    """The client hears it while its body is on the way."""
    head = b"POST /locked HTTP/1.1\r\nHost: x\r\nContent-Length: 900\r\n\r\n"
    answer = await exchange(desk, head + b"half a body")

    assert answer == b"HTTP/1.1 403 Forbidden | not you"
    assert desk.asked == []


async def test_a_compressed_body_stays_as_it_is(desk: Desk) -> None:
    """Three kilobytes could become three megabytes."""
    question = QUESTION.replace(b"Host: x", b"Host: x\r\nContent-Encoding: gzip")

    assert await exchange(desk, question) == GOT


@pytest.mark.parametrize("path", [b"/bug", b"/later/bug"])
async def test_a_bug_costs_one_answer_and_not_the_server(desk: Desk, path: bytes) -> None:
    """It is in the log with its traceback, once in ten seconds."""
    desk.may_answer.set()
    question = b"GET " + path + b" HTTP/1.1\r\nHost: x\r\n\r\n"
    with capture_logs() as lines:
        answers = [await exchange(desk, question) for _ in range(3)]

    assert answers == [b"HTTP/1.1 500 Internal Server Error | internal error\n"] * 3
    assert [(line["event"], line["exc_info"], line["path"]) for line in lines] == [
        ("a request was not answered", True, path.decode())
    ]
    assert await exchange(desk, QUESTION) == GOT


async def test_the_work_for_a_client_that_hangs_up_ends(desk: Desk) -> None:
    _, writer = await desk.connect()
    writer.write(LATER)
    await desk.until(lambda: desk.asked)
    writer.close()
    await desk.until(lambda: desk.ended)

    assert desk.ended == ["cancelled"]
    assert desk.counted("") == 0


async def test_a_client_that_hangs_up_in_its_body_is_forgotten(desk: Desk) -> None:
    """And leaves no line in the log."""
    with capture_logs() as lines:
        _, writer = await desk.connect()
        writer.write(QUESTION[:-1])
        await desk.until(lambda: desk.heads)
        writer.close()
        await desk.until(lambda: not desk.counted(""))

    assert lines == []
    assert await exchange(desk, QUESTION) == GOT


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
    desk: Desk, head: bytes, stays: bool
) -> None:
    """A new handshake costs more than a review."""
    reader, writer = await desk.connect()
    writer.write(head)
    await answer_from(reader)
    writer.write(QUESTION)
    answer = await reader.readuntil(b"got hello") if stays else await reader.read()

    assert answer.endswith(b"got hello") is stays


async def test_head_says_how_long_the_answer_would_be(desk: Desk) -> None:
    """And has no body, which would be read as the next answer."""
    reader, writer = await desk.connect()
    writer.write(b"HEAD /x HTTP/1.1\r\nHost: x\r\n\r\n" + QUESTION)
    head = await reader.readuntil(b"\r\n\r\n")
    answer = await answer_from(reader)

    assert b"Content-Length: 4\r\n" in head
    assert answer == GOT


async def test_a_client_that_waits_to_be_told_to_go_on_is_told(desk: Desk) -> None:
    """curl sends a long body only then, or after a second; not where the gate is closed."""
    reader, writer = await desk.connect()
    head, body = QUESTION.split(b"\r\n\r\n")
    writer.write(head + b"\r\nExpect: 100-continue\r\n\r\n")
    word = await reader.readuntil(b"\r\n\r\n")
    writer.write(body)
    answer = await answer_from(reader)
    locked = head.replace(b"/place/v1", b"/locked") + b"\r\nExpect: 100-continue\r\n\r\n"
    refused = await exchange(desk, locked)

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
async def test_a_client_that_does_not_go_on_is_given_up(
    limits: dict[str, Any], sent: bytes, answer: bytes, reason: str
) -> None:
    """After a word to a client that had begun a request, and counted by reason."""
    async with serving(msgspec.structs.replace(LIMITS, **limits)) as desk:
        reader, writer = await desk.connect()
        writer.write(sent)
        async with asyncio.timeout(10):  # far below the server's default limits
            content = await reader.read()
        dropped = desk.counted("_dropped_total", reason=reason)

    assert content.endswith(answer)
    assert bool(content) is bool(answer)
    assert dropped == (1 if reason else 0)


async def test_a_client_that_does_not_read_its_answers_is_given_up() -> None:
    """What is owed to it would stay in the memory."""
    limits = msgspec.structs.replace(LIMITS, unread_s=0.1, body=9_000_000, bodies=9_000_000)
    async with serving(limits) as desk:
        loop = asyncio.get_running_loop()
        with socket.socket() as client:
            client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            client.setblocking(False)
            await loop.sock_connect(client, ("127.0.0.1", desk.port))
            head = b"POST /place/v1 HTTP/1.1\r\nHost: x\r\nContent-Length: 9000000\r\n\r\n"
            # Its answer is longer than the kernel's buffers of both ends.
            await loop.sock_sendall(client, head + b"x" * 9_000_000)
            await desk.until(lambda: desk.counted("_dropped_total", reason="unread"))


async def test_at_the_end_what_is_under_way_is_answered() -> None:
    """A client that only kept a connection is let go at once."""
    async with serving(grace_s=60.0) as desk:
        idle, busy = await desk.connect(), await desk.connect()
        idle[1].write(QUESTION)
        await answer_from(idle[0])
        busy[1].write(LATER)
        await desk.until(lambda: len(desk.asked) == 2)
        asyncio.get_running_loop().call_later(0.1, desk.may_answer.set)
        writers, desk.writers = desk.writers, []
    gone = await idle[0].read()
    answer, rest = await answer_from(busy[0]), await busy[0].read()
    for writer in writers:
        writer.close()

    assert (gone, answer, rest) == (b"", GOT, b"")


async def test_the_end_does_not_wait_longer_than_its_grace() -> None:
    """An answer that never comes is cut off."""
    async with serving(grace_s=0.05) as desk:
        reader, writer = await desk.connect()
        writer.write(LATER)
        await desk.until(lambda: desk.asked)
        desk.writers = []

    with pytest.raises((asyncio.IncompleteReadError, ConnectionError)):
        await answer_from(reader)
    writer.close()
