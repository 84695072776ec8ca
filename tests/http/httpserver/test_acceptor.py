"""Connection limits of every port: per address, in total, and which connection is closed."""

from __future__ import annotations

import asyncio
import contextlib
import datetime
import resource
import socket
import ssl
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest
from structlog.testing import capture_logs

from scheduler.controllers.certificates.issuer import make_certificates
from tests.http.httpserver.echo_server import (
    LATER,
    LIMITS,
    QUESTION,
    EchoServer,
    Streams,
    answer_from,
    serving,
)
from tests.patience import PATIENCE_S

#: Of the event loop; a few are enough for each accepted and each ended connection.
ROUNDS = 200
GOT = b"HTTP/1.1 200 OK | got hello"
FEW = msgspec.structs.replace(LIMITS, connections=4, per_address=4)
NOW = datetime.datetime.now(datetime.UTC)
BUNDLE = make_certificates(["localhost"], ["127.0.0.1"], 1, now=NOW)


async def asked(server: EchoServer, streams: Streams, question: bytes = QUESTION) -> bytes:
    """The answer to a question on a connection that is kept."""
    streams[1].write(question)
    return await answer_from(streams[0])


async def proven(server: EchoServer, source: str = "127.0.0.1") -> Streams:
    """A connection on which a request was answered."""
    streams = await server.connect(source)
    assert await asked(server, streams) == GOT
    return streams


def is_gone(streams: Streams) -> bool:
    """Whether the other end has ended it."""
    return streams[0].at_eof() or streams[0].exception() is not None


async def gone(*all_streams: Streams) -> list[bool]:
    """Which ones the server has ended, once its event loop, which is this one, has nothing to do.

    No clock is read: a slow machine takes longer for the same rounds.
    """
    for _ in range(ROUNDS):
        await asyncio.sleep(0)
    return [is_gone(streams) for streams in all_streams]


async def test_oldest_silent_connection_is_closed_for_a_new_one() -> None:
    """Not the newest, however many come: it may be the API server's."""
    async with serving(FEW) as server:
        silent = [await server.connect() for _ in range(4)]
        newest = await proven(server)

        assert await gone(*silent, newest) == [True, False, False, False, False]
        assert server.counted("_dropped_total", reason="address") == 1


async def test_proven_connections_are_closed_last() -> None:
    """A flood of silent ones costs no connection that the API server keeps."""
    async with serving(FEW) as server:
        kept = [await proven(server) for _ in range(2)]
        flood = [await server.connect() for _ in range(50)]

        assert await gone(*kept, *flood[-2:]) == [False] * 4
        assert await gone(*flood[:-2]) == [True] * 48
        assert [await asked(server, one) for one in kept] == [GOT] * 2


async def test_longest_idle_proven_connection_is_closed_first() -> None:
    """So that a client that holds every proven connection cannot keep new ones out."""
    async with serving(FEW) as server:
        kept = [await proven(server) for _ in range(4)]
        assert await asked(server, kept[0]) == GOT
        newest = await proven(server)

        assert await gone(*kept, newest) == [False, True, False, False, False]


async def test_connection_with_a_running_request_is_kept() -> None:
    """Where all are, the new one is refused."""
    async with serving(FEW) as server:
        busy = [await server.connect() for _ in range(4)]
        for _, writer in busy:
            writer.write(LATER)
        await server.until(lambda: len(server.asked) == 4)
        newest = await server.connect()

        assert await gone(newest) == [True]
        assert server.counted("_refused_total", reason="address") == 1
        server.may_answer.set()
        assert [await answer_from(reader) for reader, _ in busy] == [GOT] * 4


async def test_address_at_its_limit_closes_only_its_own() -> None:
    """Every pod has an address of its own."""
    async with serving(msgspec.structs.replace(FEW, per_address=2)) as server:
        ours = [await server.connect("127.0.0.2") for _ in range(2)]
        theirs = [await server.connect("127.0.0.3") for _ in range(20)]

        assert await gone(*ours, *theirs[-2:]) == [False] * 4
        assert await gone(*theirs[:-2]) == [True] * 18


async def test_many_addresses_together_are_bounded_too() -> None:
    async with serving(msgspec.structs.replace(FEW, per_address=2)) as server:
        kept = await proven(server)
        flood = [await server.connect(f"127.0.1.{number}") for number in range(20)]

        assert await gone(kept, *flood[-3:]) == [False] * 4
        assert server.counted("") == 4
        assert server.counted("_dropped_total", reason="crowded") == 17


async def test_closed_connections_are_not_counted() -> None:
    async with serving(FEW) as server:
        for _ in range(20):
            _, writer = await proven(server)
            writer.close()
            await server.until(lambda: not server.counted(""))

        assert server.counted("_dropped_total", reason="address") == 0


@pytest.fixture
def context(tmp_path: Path) -> ssl.SSLContext:
    """The server's side of TLS."""
    (tmp_path / "pair").write_bytes(BUNDLE.cert_pem + BUNDLE.key_pem)
    made = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    made.load_cert_chain(tmp_path / "pair")
    return made


def trusting() -> ssl.SSLContext:
    return ssl.create_default_context(cadata=BUNDLE.ca_pem.decode())


async def test_stalled_tls_handshake_times_out(context: ssl.SSLContext) -> None:
    """One that never began too, and nothing of them is left."""
    limits = msgspec.structs.replace(LIMITS, handshake_s=0.1)
    async with serving(limits, context) as server:
        streams = [await server.connect() for _ in range(2)]
        streams[1][1].write(b"\x16\x03\x01\x02\x00\x01")

        assert [await reader.read() for reader, _ in streams] == [b""] * 2
        assert server.counted("_dropped_total", reason="handshake") == 2
        assert await asked(server, await server.connect(context=trusting())) == GOT


async def test_plain_text_on_a_tls_port_is_dropped_silently(context: ssl.SSLContext) -> None:
    with capture_logs() as lines:
        async with serving(LIMITS, context) as server:
            reader, writer = await server.connect()
            writer.write(QUESTION)
            with contextlib.suppress(ConnectionError):
                await reader.read()
            await server.until(lambda: not server.counted(""))

    assert lines == []


async def test_unfinished_handshakes_make_room_for_new_ones(context: ssl.SSLContext) -> None:
    """And are cut off in the middle."""
    async with serving(FEW, context) as server:
        half = [await server.connect() for _ in range(6)]
        for _, writer in half:
            writer.write(b"\x16\x03\x01\x02\x00\x01")
        answers = [await asked(server, await server.connect(context=trusting())) for _ in range(3)]

        assert answers == [GOT] * 3
        await server.until(lambda: server.counted("") <= 4)


@contextlib.contextmanager
def no_file_left() -> Iterator[None]:
    """This process can open no more files."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    used = {int(name.name) for name in Path("/proc/self/fd").iterdir()}
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(set(range(10_000)) - used), hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


async def test_file_exhaustion_closes_the_oldest_and_logs_once() -> None:
    """The new client is served: its connection waits in the kernel for a moment."""
    with capture_logs() as lines, socket.socket() as client:
        client.setblocking(False)
        async with serving() as server:
            silent = [await server.connect() for _ in range(3)]
            loop = asyncio.get_running_loop()
            with no_file_left():
                await loop.sock_connect(client, ("127.0.0.1", server.port))
                await loop.sock_sendall(client, QUESTION)
                async with asyncio.timeout(PATIENCE_S):
                    content = await loop.sock_recv(client, 1000)
            dropped = server.counted("_dropped_total", reason="files")

            assert content.endswith(b"got hello")
            assert await gone(*silent) == [True, False, False]

    assert dropped == 1
    assert [line["event"] for line in lines] == ["connection not accepted"]
