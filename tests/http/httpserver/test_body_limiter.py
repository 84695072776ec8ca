"""How much of unfinished and long bodies is held, and whose goes."""

from __future__ import annotations

import asyncio

import msgspec
import pytest

from scheduler.httpserver.body_limiter import Body, BodyLimiter, TooManyBytes
from tests.http.httpserver.echo_server import (
    LIMITS,
    EchoServer,
    Streams,
    answer_from,
    exchange,
    serving,
)

BODY = b"x" * 1_000_000
HEAD = b"POST /place/v1 HTTP/1.1\r\nHost: x\r\nContent-Length: 1000000\r\n\r\n"
#: Room for three bodies.
ROOM = msgspec.structs.replace(LIMITS, body=1_000_000, bodies=3_100_000)


async def half(server: EchoServer, source: str) -> Streams:
    """A client that sends all but the end of its body; it was held when this returns."""
    reader, writer = await server.connect(source)
    before = len(server.heads)
    writer.write(HEAD + BODY[:-1])
    await writer.drain()
    await server.until(lambda: len(server.heads) > before)
    return reader, writer


async def test_half_bodies_are_bounded_and_a_whole_one_is_still_answered() -> None:
    """The oldest of the address that holds most goes, with a word."""
    async with serving(ROOM) as server:
        halves = [await half(server, "127.0.0.2") for _ in range(8)]
        answer = await exchange(server, HEAD, BODY)
        refused = [await answer_from(reader) for reader, _ in halves[:5]]

        assert answer == b"HTTP/1.1 200 OK | got " + BODY
        assert (
            refused
            == [b"HTTP/1.1 503 Service Unavailable | too many bytes of requests are held\n"] * 5
        )
        halves[-1][1].write(b"x")
        assert await answer_from(halves[-1][0]) == b"HTTP/1.1 200 OK | got " + BODY


async def test_a_body_counts_until_its_request_was_answered() -> None:
    """What is decided on it takes more memory than the body itself."""
    async with serving(ROOM) as server:
        later = HEAD.replace(b"/place/v1", b"/later")
        busy = [await server.connect() for _ in range(3)]
        for _, writer in busy:
            writer.write(later + BODY)
        await server.until(lambda: len(server.asked) == 3)
        refused = await exchange(server, HEAD, BODY)
        server.may_answer.set()
        answers = [await answer_from(reader) for reader, _ in busy]

        assert refused.startswith(b"HTTP/1.1 503 ")
        assert answers == [b"HTTP/1.1 200 OK | got " + BODY] * 3
        assert await exchange(server, HEAD, BODY) == b"HTTP/1.1 200 OK | got " + BODY


async def test_body_accounting_returns_to_zero() -> None:
    """Whether a body was given up or answered; one that was given up takes in nothing more."""
    bodies = BodyLimiter(100)
    with bodies.holding("a") as first, bodies.holding("b") as second:
        with pytest.raises(TimeoutError):
            await held_up(bodies, first, second)
        assert (first.is_given_up, second.is_given_up, bodies.total) == (True, False, 41)
        for body in (first, second):
            with pytest.raises(TooManyBytes):
                bodies.add(body, b"x" * 60)

    assert bodies.total == 0


async def held_up(bodies: BodyLimiter, first: Body, second: Body) -> None:
    """The reader of the first body, until the second takes its place."""
    async with asyncio.timeout(60) as first.deadline:
        bodies.add(first, b"x" * 60)
        bodies.add(second, b"x" * 40)
        assert bodies.total == 100
        bodies.add(second, b"x")
        await asyncio.Event().wait()
