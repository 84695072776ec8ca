"""HTTP/1.1 on a Unix socket for the program beside us, as little of it as its questions need.

Every pod's creation waits for an answer from here, and a general server costs more than the
answer. One request at a time per connection; the socket is ours and the webhook's only.

Must never: read more than ``body_max`` bytes, or let one request's failure end the server.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import cast

import msgspec
import structlog

HEAD_MAX = 16 * 1024
_END = b"\r\n\r\n"
_REASONS = {200: "OK", 204: "No Content"}

log = structlog.get_logger("answer")


class Reply(msgspec.Struct, frozen=True):
    """A status and what goes with it."""

    status: int
    content: bytes = b""


class Request(msgspec.Struct, frozen=True):
    """A request that arrived whole."""

    method: str
    path: str
    body: bytes


Handler = Callable[[Request], Awaitable[Reply]]


class _Bad(Exception):
    """A request that cannot be read; ``status`` says why."""

    def __init__(self, status: int, line: str) -> None:
        super().__init__(line)
        self.status = status


class Connection(asyncio.Protocol):
    """One connection's bytes: collects a request, has it handled, and only then reads on."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self._buffer = bytearray()
        self._transport: asyncio.Transport | None = None
        self._task: asyncio.Task[None] | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Somebody connected."""
        self._transport = cast(asyncio.Transport, transport)
        self._server.connections.add(self)

    def connection_lost(self, exc: Exception | None) -> None:
        """He went; an answer that is under way is for nobody."""
        self._server.connections.discard(self)
        if self._task is not None:
            self._task.cancel()

    def data_received(self, data: bytes) -> None:
        """More bytes."""
        self._buffer += data
        if self._task is None:
            self._next()

    def close(self) -> None:
        """End the connection."""
        if self._transport is not None:
            self._transport.close()

    def _next(self) -> None:
        try:
            request = _take(self._buffer, self._server.body_max)
        except _Bad as problem:
            self._write(Reply(problem.status, str(problem).encode()))
            self.close()
            return
        if request is not None:
            self._task = asyncio.create_task(self._answer(request), name="answer")

    async def _answer(self, request: Request) -> None:
        try:
            reply = await self._server.handler(request)
        except Exception:
            log.exception("a question was not answered", path=request.path)
            reply = Reply(500, b"internal error")
        self._write(reply)
        self._task = None
        self._next()

    def _write(self, reply: Reply) -> None:
        if self._transport is None or self._transport.is_closing():
            return
        reason = _REASONS.get(reply.status, "Refused")
        head = (
            f"HTTP/1.1 {reply.status} {reason}\r\nContent-Type: application/json\r\n"
            f"Content-Length: {len(reply.content)}\r\n\r\n"
        )
        self._transport.write(head.encode("ascii") + reply.content)


class Server:
    """Listens on a socket file until cancelled."""

    def __init__(self, handler: Handler, body_max: int) -> None:
        self.handler = handler
        self.body_max = body_max
        self.connections: set[Connection] = set()

    async def serve(self, socket: Path) -> None:
        """A file left by a killed process is replaced; ours goes with us."""
        socket.unlink(missing_ok=True)
        loop = asyncio.get_running_loop()
        server = await loop.create_unix_server(lambda: Connection(self), str(socket))
        try:
            socket.chmod(0o660)
            await asyncio.Event().wait()
        finally:
            server.close()
            for connection in list(self.connections):
                connection.close()
            with contextlib.suppress(OSError):
                socket.unlink()


def _take(buffer: bytearray, body_max: int) -> Request | None:
    """The next whole request, taken out of the buffer; None while it is incomplete."""
    end = buffer.find(_END)
    if end < 0:
        if len(buffer) > HEAD_MAX:
            raise _Bad(431, "the head is too long")
        return None
    first, *lines = bytes(buffer[:end]).decode("latin-1").split("\r\n")
    method, path = _request_line(first)
    length = _length(lines)
    if length > body_max:
        raise _Bad(413, f"more than {body_max} bytes")
    start = end + len(_END)
    if len(buffer) < start + length:
        return None
    body = bytes(buffer[start : start + length])
    del buffer[: start + length]
    return Request(method, path, body)


def _request_line(line: str) -> tuple[str, str]:
    parts = line.split(" ")
    if len(parts) != 3 or not parts[2].startswith("HTTP/1."):
        raise _Bad(400, "not HTTP/1.1")
    return parts[0], parts[1]


def _length(lines: list[str]) -> int:
    for line in lines:
        name, _, value = line.partition(":")
        name, value = name.strip().lower(), value.strip()
        if name == "transfer-encoding":
            raise _Bad(411, "a length is required")
        if name == "content-length":
            if not (value.isascii() and value.isdigit()):
                raise _Bad(400, "a bad length")
            return int(value)
    return 0
