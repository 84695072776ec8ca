"""The server that our own ends listen with, byte by byte: what a client can do to it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import msgspec
import pytest
from structlog.testing import capture_logs

from scheduler.http1 import HEAD_MAX, Reply, Request
from scheduler.httpserver import Connection, Limits, Server

LIMITS = Limits(1000, request_s=60, idle_s=60, linger_s=0.3, sweep_s=0.02)
QUESTION = b"POST /place/v1 HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\nhello"
Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]


class Desk:
    """A server whose handler repeats what it was asked, at once or when it may."""

    def __init__(self, limits: Limits) -> None:
        self.asked: list[Request] = []
        self.may_answer = asyncio.Event()
        self.ended: list[str] = []
        self.server = Server(self.handle, limits)
        self.port = 0
        self.writers: list[asyncio.StreamWriter] = []

    def handle(self, request: Request) -> Reply | Awaitable[Reply]:
        self.asked.append(request)
        if request.path == "/bug":
            raise ValueError("a bug")
        reply = Reply(200, b"got " + request.body)
        return self.later(request, reply) if request.path.startswith("/later") else reply

    async def later(self, request: Request, reply: Reply) -> Reply:
        try:
            await self.may_answer.wait()
        except asyncio.CancelledError:
            self.ended.append("cancelled")
            raise
        if request.path == "/later/bug":
            raise ValueError("a bug")
        return reply

    async def connect(self) -> Streams:
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        self.writers.append(writer)
        return reader, writer


@asynccontextmanager
async def serving(limits: Limits = LIMITS) -> AsyncIterator[Desk]:
    """A desk on a port."""
    desk = Desk(limits)
    loop = asyncio.get_running_loop()
    listening = await loop.create_server(desk.server.connection, "127.0.0.1", 0)
    desk.port = listening.sockets[0].getsockname()[1]
    sweep = asyncio.create_task(desk.server.sweep())
    yield desk
    assert not sweep.done(), sweep
    sweep.cancel()
    listening.close()
    for writer in desk.writers:
        writer.close()
    await desk.server.end(5.0)


@pytest.fixture
async def desk() -> AsyncIterator[Desk]:
    async with serving() as made:
        yield made


async def answer_from(reader: asyncio.StreamReader) -> bytes:
    """The status line and the body of the next answer."""
    head = await reader.readuntil(b"\r\n\r\n")
    [length] = [int(x.split(b":")[1]) for x in head.split(b"\r\n") if b"Content-Length" in x]
    return head.split(b"\r\n")[0] + b" | " + await reader.readexactly(length)


async def exchange(desk: Desk, *pieces: bytes) -> bytes:
    """One connection that stays open while the answer is awaited."""
    reader, writer = await desk.connect()
    for piece in pieces:
        writer.write(piece)
        await asyncio.sleep(0)
    answer = await answer_from(reader)
    return answer


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
    assert await exchange(desk, *cut(QUESTION)) == b"HTTP/1.1 200 OK | got hello"
    headers = {"host": "x", "content-length": "5"}
    assert desk.asked == [Request("POST", "/place/v1", b"hello", headers)]


@pytest.mark.parametrize("path", [b"/place/v1", b"/later"])
async def test_two_questions_on_one_connection_are_answered_in_order(
    desk: Desk, path: bytes
) -> None:
    """Whether their answers are there at once or not."""
    desk.may_answer.set()
    first = QUESTION.replace(b"/place/v1", path)
    reader, writer = await desk.connect()
    writer.write(first + QUESTION.replace(b"hello", b"again"))
    answers = [await answer_from(reader) for _ in range(2)]

    assert answers == [b"HTTP/1.1 200 OK | got hello", b"HTTP/1.1 200 OK | got again"]


BAD = [
    pytest.param(b"nonsense\r\n\r\n", b"400 Refused | not HTTP/1.1", id="nonsense"),
    pytest.param(b"GET / HTTP/2\r\n\r\n", b"400 Refused | not HTTP/1.1", id="version"),
    pytest.param(
        b"POST / HTTP/1.1\r\nContent-Length: -1\r\n\r\n",
        b"400 Refused | a bad length",
        id="negative-length",
    ),
    pytest.param(
        b"POST / HTTP/1.1\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab",
        b"400 Refused | a bad header",
        id="two-lengths",
    ),
    pytest.param(
        b"POST / HTTP/1.1\r\nContent-Length : 1\r\n\r\na",
        b"400 Refused | a bad header",
        id="space-in-name",
    ),
    pytest.param(
        b"POST / HTTP/1.1\r\nnothing\r\n\r\n", b"400 Refused | a bad header", id="no-colon"
    ),
    pytest.param(
        b"POST / HTTP/1.1\r\nContent-Length: 1001\r\n\r\n",
        b"413 Refused | Maximum request body size 1000 exceeded",
        id="too-long",
    ),
    pytest.param(
        b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n",
        b"411 Refused | a length is required",
        id="chunked",
    ),
    pytest.param(b"x" * (HEAD_MAX + 1), b"431 Refused | the head is too long", id="endless-head"),
]


@pytest.mark.parametrize(("sent", "answer"), BAD)
async def test_what_is_no_request_of_ours_is_refused(
    desk: Desk, sent: bytes, answer: bytes
) -> None:
    """In one line, and the next client is served."""
    assert await exchange(desk, sent) == b"HTTP/1.1 " + answer
    assert desk.asked == []
    assert await exchange(desk, QUESTION) == b"HTTP/1.1 200 OK | got hello"


async def test_who_sends_too_much_can_read_why(desk: Desk) -> None:
    """What he still sends is swallowed, or his end would report a broken connection."""
    reader, writer = await desk.connect()
    writer.write(b"POST / HTTP/1.1\r\nContent-Length: 9000000\r\n\r\n")
    writer.write(b"x" * 9_000_000)
    await writer.drain()
    answer, rest = await answer_from(reader), await reader.read()

    assert answer.startswith(b"HTTP/1.1 413 ")
    assert rest == b""


@pytest.mark.parametrize("path", [b"/bug", b"/later/bug"])
async def test_a_bug_costs_one_answer_and_not_the_server(desk: Desk, path: bytes) -> None:
    """It is in the log with its trace."""
    desk.may_answer.set()
    with capture_logs() as lines:
        answer = await exchange(desk, b"GET " + path + b" HTTP/1.1\r\n\r\n")

    assert answer == b"HTTP/1.1 500 Refused | internal error"
    assert [(line["event"], line["exc_info"]) for line in lines] == [
        ("a request was not answered", True)
    ]
    assert await exchange(desk, QUESTION) == b"HTTP/1.1 200 OK | got hello"


async def test_who_hangs_up_is_not_answered(desk: Desk) -> None:
    """And the work for him ends."""
    _, writer = await desk.connect()
    writer.write(QUESTION.replace(b"/place/v1", b"/later"))
    while not desk.asked:  # noqa: ASYNC110 - the handler has no other way to say it
        await asyncio.sleep(0.001)
    writer.close()
    while not desk.ended:  # noqa: ASYNC110 - as above
        await asyncio.sleep(0.001)

    assert desk.ended == ["cancelled"]
    assert desk.server.connections == set()


@pytest.mark.parametrize(
    ("head", "stays"),
    [
        pytest.param(b"GET / HTTP/1.1\r\n\r\n", True, id="kept"),
        pytest.param(b"GET / HTTP/1.1\r\nConnection: close\r\n\r\n", False, id="asked-to-close"),
        pytest.param(b"GET / HTTP/1.0\r\n\r\n", False, id="http-1.0"),
        pytest.param(b"GET / HTTP/1.0\r\nConnection: Keep-Alive\r\n\r\n", True, id="1.0-kept"),
    ],
)
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
    writer.write(b"HEAD /x HTTP/1.1\r\n\r\n" + QUESTION)
    head = await reader.readuntil(b"\r\n\r\n")
    answer = await answer_from(reader)

    assert b"Content-Length: 4\r\n" in head
    assert answer == b"HTTP/1.1 200 OK | got hello"


async def test_who_waits_for_the_word_to_go_on_gets_it(desk: Desk) -> None:
    """curl sends a long body only then, or after a second."""
    reader, writer = await desk.connect()
    head, body = QUESTION.split(b"\r\n\r\n")
    writer.write(head + b"\r\nExpect: 100-continue\r\n\r\n")
    word = await reader.readuntil(b"\r\n\r\n")
    writer.write(body)
    answer = await answer_from(reader)

    assert word == b"HTTP/1.1 100 Continue\r\n\r\n"
    assert answer == b"HTTP/1.1 200 OK | got hello"


@pytest.mark.parametrize(
    ("limits", "sent", "answer"),
    [
        pytest.param({"request_s": 0.02}, b"", b"", id="never-asked"),
        pytest.param({"idle_s": 0.02}, QUESTION, b"got hello", id="idle"),
        pytest.param({"request_s": 0.02}, b"POST / HT", b"arrive in time", id="half-a-head"),
        pytest.param({"request_s": 0.02}, QUESTION[:-1], b"arrive in time", id="half-a-body"),
        pytest.param({"request_s": 0.02}, QUESTION + b"PO", b"arrive in time", id="half-of-next"),
    ],
)
async def test_nobody_is_waited_for_for_ever(
    limits: dict[str, float], sent: bytes, answer: bytes
) -> None:
    """The connection ends, after a word to whoever had begun."""
    async with serving(msgspec.structs.replace(LIMITS, linger_s=0.02, **limits)) as desk:
        reader, writer = await desk.connect()
        writer.write(sent)
        content = await reader.read()

    assert content.endswith(answer)
    assert bool(content) is bool(answer)


async def test_where_too_many_connect_the_idlest_goes() -> None:
    """Not the one that is being answered, and not the newest."""
    async with serving(Limits(1000, connections_max=3)) as desk:
        streams = [await desk.connect() for _ in range(3)]
        streams[0][1].write(QUESTION.replace(b"/place/v1", b"/later"))
        for reader, writer in streams[1:]:
            writer.write(QUESTION)
            await answer_from(reader)
        newest = await desk.connect()
        gone = await streams[1][0].read()
        desk.may_answer.set()
        first = await answer_from(streams[0][0])
        for _, writer in (streams[2], newest):
            writer.write(QUESTION)
        others = [await answer_from(reader) for reader, _ in (streams[2], newest)]

    assert gone == b""
    assert [first, *others] == [b"HTTP/1.1 200 OK | got hello"] * 3


async def test_at_the_end_what_is_under_way_is_answered(desk: Desk) -> None:
    """Who only kept a connection is let go at once."""
    idle, busy = await desk.connect(), await desk.connect()
    idle[1].write(QUESTION)
    await answer_from(idle[0])
    busy[1].write(QUESTION.replace(b"/place/v1", b"/later"))
    while len(desk.asked) < 2:  # noqa: ASYNC110 - as above
        await asyncio.sleep(0.001)
    end = asyncio.create_task(desk.server.end(60.0))
    gone = await idle[0].read()
    desk.may_answer.set()
    async with asyncio.timeout(5):
        answer, rest = await answer_from(busy[0]), await busy[0].read()
        await end

    assert (gone, answer, rest) == (b"", b"HTTP/1.1 200 OK | got hello", b"")


async def test_the_end_does_not_wait_longer_than_its_grace(desk: Desk) -> None:
    """An answer that never comes is cut off."""
    reader, writer = await desk.connect()
    writer.write(QUESTION.replace(b"/place/v1", b"/later"))
    while not desk.asked:  # noqa: ASYNC110 - as above
        await asyncio.sleep(0.001)
    await desk.server.end(0.01)

    with pytest.raises((asyncio.IncompleteReadError, ConnectionError)):
        await answer_from(reader)


class Wire(asyncio.Transport):
    """The other end of a connection, as far as a protocol sees it."""

    def __init__(self) -> None:
        super().__init__()
        self.written = b""
        self.reads = True

    def is_closing(self) -> bool:
        return False

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self.written += data

    def pause_reading(self) -> None:
        self.reads = False

    def resume_reading(self) -> None:
        self.reads = True


async def test_who_does_not_read_answers_is_not_read_either() -> None:
    """Or both what he sends and what he is owed would fill the memory."""
    desk, wire = Desk(LIMITS), Wire()
    connection = Connection(desk.server)
    connection.connection_made(wire)

    connection.pause_writing()
    connection.data_received(QUESTION + QUESTION)
    before = (wire.reads, wire.written, len(desk.asked))
    connection.resume_writing()

    assert before == (False, b"", 0)
    assert (wire.reads, len(desk.asked)) == (True, 2)
    assert wire.written.count(b"got hello") == 2


async def test_who_sends_on_while_he_is_answered_has_to_wait() -> None:
    """His next request is read when the answer is written."""
    desk, wire = Desk(LIMITS), Wire()
    connection = Connection(desk.server)
    connection.connection_made(wire)

    connection.data_received(QUESTION.replace(b"/place/v1", b"/later"))
    connection.data_received(QUESTION)
    before = (wire.reads, len(desk.asked))
    desk.may_answer.set()
    while len(desk.asked) < 2:  # noqa: ASYNC110 - as above
        await asyncio.sleep(0)

    assert before == (False, 1)
    assert wire.reads
    assert wire.written.count(b"got hello") == 2
