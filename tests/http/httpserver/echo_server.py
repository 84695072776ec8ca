"""A server of ours on a real port whose handler echoes the request, and clients for it."""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

from prometheus_client import CollectorRegistry

from scheduler.httpserver.connection_metrics import Connections
from scheduler.httpserver.limits import Limits
from scheduler.httpserver.messages import Head, Reply, Request
from scheduler.httpserver.server import Server

LIMITS = Limits(
    connections=100,
    per_address=100,
    body=1000,
    bodies=10_000,
    idle_s=60,
    linger_s=0.3,
    sweep_s=0.02,
)
QUESTION = b"POST /place/v1 HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\nhello"
LATER = QUESTION.replace(b"/place/v1", b"/later")
Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]


class EchoServer:
    """A server whose handler repeats what it was asked, at once or when it may."""

    def __init__(self, limits: Limits) -> None:
        self.limits = limits
        self.asked: list[Request] = []
        self.heads: list[Head] = []
        self.may_answer = asyncio.Event()
        self.ended: list[str] = []
        self.registry = CollectorRegistry()
        tally = Connections(self.registry, "").of("socket")
        self.server = Server(self.handle, limits, tally, self.gate)
        self.port = 0
        self.writers: list[asyncio.StreamWriter] = []

    def gate(self, head: Head) -> Reply | int:
        self.heads.append(head)
        return Reply(403, b"not you") if head.path == "/locked" else self.limits.body

    def handle(self, request: Request) -> Reply | Awaitable[Reply]:
        self.asked.append(request)
        if request.head.path == "/bug":
            raise ValueError("a bug")
        reply = Reply(200, b"got " + request.body)
        return self.later(request, reply) if request.head.path.startswith("/later") else reply

    async def later(self, request: Request, reply: Reply) -> Reply:
        try:
            await self.may_answer.wait()
        except asyncio.CancelledError:
            self.ended.append("cancelled")
            raise
        if request.head.path == "/later/bug":
            raise ValueError("a bug")
        return reply

    async def connect(
        self, source: str = "127.0.0.1", context: ssl.SSLContext | None = None
    ) -> Streams:
        """A connection; every address of 127.0.0.0/8 is one of this machine's."""
        reader, writer = await asyncio.open_connection(
            "127.0.0.1",
            self.port,
            local_addr=(source, 0),
            ssl=context,
            server_hostname="localhost" if context else None,
        )
        self.writers.append(writer)
        return reader, writer

    def counted(self, what: str, **labels: str) -> float:
        """A sample of the metrics; 0 where there is none."""
        name = f"connections{what}"
        return self.registry.get_sample_value(name, {"port": "socket", **labels}) or 0.0

    async def until(self, check: Callable[[], object]) -> None:
        """Wait for something that the server has no other way to tell."""
        while not check():  # noqa: ASYNC110 - that it has no other way is the point
            await asyncio.sleep(0.001)


@asynccontextmanager
async def serving(
    limits: Limits = LIMITS, context: ssl.SSLContext | None = None, grace_s: float = 5.0
) -> AsyncIterator[EchoServer]:
    """A server on a port."""
    server = EchoServer(limits)
    listener = socket.create_server(("127.0.0.1", 0), backlog=1024)
    server.port = listener.getsockname()[1]
    async with server.server.serving(listener, context, grace_s):
        try:
            yield server
        finally:
            for writer in server.writers:
                writer.transport.abort()


async def answer_from(reader: asyncio.StreamReader) -> bytes:
    """The status line and the body of the next answer."""
    head = await reader.readuntil(b"\r\n\r\n")
    [length] = [int(x.split(b":")[1]) for x in head.split(b"\r\n") if b"Content-Length" in x]
    return head.split(b"\r\n")[0] + b" | " + await reader.readexactly(length)


async def exchange(server: EchoServer, *pieces: bytes) -> bytes:
    """One connection that stays open while the answer is awaited."""
    reader, writer = await server.connect()
    for piece in pieces:
        writer.write(piece)
        await asyncio.sleep(0)
    return await answer_from(reader)
