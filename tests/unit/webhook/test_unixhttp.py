"""The client of the Unix socket: connections that are kept, and other ends that misbehave."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from webhook.unixhttp import ANSWER_BYTES_MAX, Confused, Response, UnixHttp

YES = b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nyes"
Talk = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


@pytest.fixture
def socket() -> Iterator[Path]:
    """A path short enough for a Unix socket."""
    with TemporaryDirectory(prefix="http") as folder:
        yield Path(folder) / "s"


@asynccontextmanager
async def other_end(socket: Path, talk: Talk) -> AsyncIterator[list[str]]:
    """Somebody who listens; a name per connection."""
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


def always(answer: bytes) -> Talk:
    """Answers every question with these bytes."""

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while True:
            await read_question(reader)
            writer.write(answer)

    return talk


def once(answer: bytes) -> Talk:
    """Answers one question and hangs up."""

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await read_question(reader)
        writer.write(answer)

    return talk


async def test_one_connection_serves_many_questions(socket: Path) -> None:
    client = UnixHttp(socket)
    async with other_end(socket, always(YES)) as connections:
        answers = [await client.request("POST", "/x", b"?") for _ in range(5)]
        client.close()

    assert answers == [Response(200, b"yes")] * 5
    assert connections == ["connection 1"]


async def test_what_is_asked_at_once_goes_over_connections_of_its_own(socket: Path) -> None:
    client = UnixHttp(socket)
    async with other_end(socket, always(YES)) as connections:
        await asyncio.gather(*(client.request("POST", "/x") for _ in range(3)))
        await client.request("POST", "/x")
        client.close()

    assert len(connections) == 3


async def test_a_kept_connection_that_was_closed_costs_nobody_an_answer(socket: Path) -> None:
    """The scheduler was restarted; the next pod does not pay for it."""
    client = UnixHttp(socket)
    async with other_end(socket, once(YES)) as connections:
        for _ in range(3):
            assert await client.request("POST", "/x") == Response(200, b"yes")
        client.close()

    assert len(connections) == 3


async def test_one_that_closes_just_as_it_is_asked_is_asked_again(socket: Path) -> None:
    asked: list[bytes] = []

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        asked.append(await read_question(reader))
        writer.write(YES)
        asked.append(await read_question(reader))  # and is gone

    client = UnixHttp(socket)
    async with other_end(socket, talk) as connections:
        for _ in range(2):
            assert await client.request("POST", "/x", b"?") == Response(200, b"yes")
        client.close()

    assert (len(connections), len(asked)) == (2, 3)


BROKEN = [
    pytest.param(b"", ConnectionResetError, "closed without an answer", id="nothing"),
    pytest.param(YES[:-1], ConnectionResetError, "cut off", id="half-an-answer"),
    pytest.param(YES[:9], ConnectionResetError, "cut off", id="half-a-head"),
    pytest.param(b"SSH-2.0-x\r\n\r\n", Confused, "does not speak HTTP", id="another-protocol"),
    pytest.param(b"x" * 20_000, Confused, "head is too long", id="endless-head"),
    pytest.param(
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n",
        Confused,
        "without a length",
        id="chunked",
    ),
    pytest.param(
        b"HTTP/1.1 200 OK\r\nContent-Length: x\r\n\r\n",
        Confused,
        "without a length",
        id="no-number",
    ),
    pytest.param(
        f"HTTP/1.1 200 OK\r\nContent-Length: {ANSWER_BYTES_MAX + 1}\r\n\r\n".encode(),
        Confused,
        "an answer longer than",
        id="too-long",
    ),
]


@pytest.mark.parametrize(("answer", "kind", "words"), BROKEN)
async def test_an_answer_that_makes_no_sense_is_an_error(
    socket: Path, answer: bytes, kind: type[Exception], words: str
) -> None:
    client = UnixHttp(socket)
    async with other_end(socket, once(answer)):
        with pytest.raises(kind, match=words):
            await client.request("POST", "/x")
        client.close()


async def test_an_answer_after_the_deadline_is_not_taken_for_the_next_one(socket: Path) -> None:
    late = asyncio.Event()

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        question = await read_question(reader)
        if b"/slow" in question:
            await late.wait()
        writer.write(YES if b"/slow" not in question else YES.replace(b"yes", b"old"))

    client = UnixHttp(socket)
    async with other_end(socket, talk):
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.01):
                await client.request("POST", "/slow")
        late.set()
        assert await client.request("POST", "/x") == Response(200, b"yes")
        client.close()


async def test_on_a_kept_connection_a_question_leaves_before_anybody_waits(socket: Path) -> None:
    """The other end works on it meanwhile."""
    asked = asyncio.Event()

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        for number in range(2):
            await read_question(reader)
            if number:
                asked.set()
            writer.write(YES)

    client = UnixHttp(socket)
    async with other_end(socket, talk):
        await client.request("POST", "/x", b"first")
        exchange = client.begin("POST", "/x", b"second")
        await asked.wait()
        answer = await client.end(exchange)
        client.close()

    assert answer == Response(200, b"yes")
