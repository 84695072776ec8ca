"""A server for HTTP/1.1, as little of it as our own ends need (``http1`` has the bytes).

The creation of every pod waits for its webhook and the scheduler behind it, and a general server
costs more than both answers. The scheduler's Unix socket and the webhook's TLS port use it.

Must never: hold more of a request than its limits, wait for half a request or for a silent client
for ever, answer out of order, or let one request's failure end the server.

    idle --bytes--> begun --whole--> answering --written--> idle      due: when it is given up
      '-- idle_s --> closed   '-- request_s --> 408, closed
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final, cast

import msgspec
import structlog

from scheduler.http1 import (
    CONTINUE,
    TEXT,
    BadRequest,
    Head,
    Reply,
    Request,
    encode,
    take_body,
    take_head,
)

_NEVER: Final = float("inf")
_INTERNAL: Final = Reply(500, b"internal error", TEXT)

log = structlog.get_logger("http")

#: Answers at once where it can: a task costs as much as a short answer.
Handler = Callable[[Request], Reply | Awaitable[Reply]]


class Limits(msgspec.Struct, frozen=True):
    """What a client may take of us: bytes, seconds, connections."""

    body_max: int
    request_s: float = 10.0
    #: Longer than the API server keeps an idle connection (90 s): if we were the first to close
    #: one, a review could be lost.
    idle_s: float = 180.0
    connections_max: int = 1000
    #: After a refusal what the client still sends is swallowed, or it would not read why.
    linger_s: float = 2.0
    #: How often it is looked whose time is over.
    sweep_s: float = 1.0


class Connection(asyncio.Protocol):
    """One connection: collects a request, has it answered, and only then reads on."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self._buffer = bytearray()
        self._head: Head | None = None
        self._transport: asyncio.Transport | None = None
        self._task: asyncio.Task[None] | None = None
        self._is_known = False
        self._is_refused = False
        self._can_write = True
        #: When it is given up, on the event loop's clock.
        self.due = _NEVER

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Somebody connected; with TLS the handshake is over."""
        self._transport = cast(asyncio.Transport, transport)
        self._is_known = bool(transport.get_extra_info("peercert"))
        self._wait(self._server.limits.request_s)
        self._server.opened(self)

    def connection_lost(self, exc: Exception | None) -> None:
        """He went; an answer that is under way is for nobody."""
        self._server.closed(self)
        if self._task is not None:
            self._task.cancel()

    def data_received(self, data: bytes) -> None:
        """More bytes."""
        if self._is_refused:
            return
        if not self._buffer and self._head is None and self._task is None:
            self._wait(self._server.limits.request_s)
        self._buffer += data
        if self._task is None and self._can_write:
            self._go_on()
        elif self._transport is not None:
            self._transport.pause_reading()  # whoever does not wait for answers has to

    def pause_writing(self) -> None:
        """He does not read his answers."""
        self._can_write = False

    def resume_writing(self) -> None:
        """He does again."""
        self._can_write = True
        if self._task is None:
            self._go_on()

    @property
    def is_idle(self) -> bool:
        """Whether nothing was begun here."""
        return self._task is None and self._head is None and not self._buffer

    def close(self) -> None:
        """End the connection, once what was written has been sent."""
        if self._transport is not None:
            self._transport.close()

    def abort(self) -> None:
        """End it at once."""
        if self._transport is not None:
            self._transport.abort()

    def expire(self) -> None:
        """Its time is over: say so to whoever sent half a request, and hang up."""
        if self._transport is None or self._transport.is_closing():
            self.abort()
        elif self.is_idle or self._is_refused or not self._can_write:
            self.close()
        else:
            self._refuse(BadRequest(408, "the request did not arrive in time"))

    def _wait(self, seconds: float) -> None:
        self.due = asyncio.get_running_loop().time() + seconds

    def _go_on(self) -> None:
        """Answer what has arrived whole, one after the other."""
        assert self._transport is not None, "bytes come from somewhere"
        while self._can_write and self._task is None and not self._transport.is_closing():
            try:
                request = self._take()
            except BadRequest as problem:
                self._refuse(problem)
                return
            if request is None:
                self._transport.resume_reading()
                return
            self.due = _NEVER
            self._answer(request)

    def _take(self) -> Request | None:
        if self._head is None:
            self._head = take_head(self._buffer, self._server.limits.body_max)
            if self._head is None:
                return None
            if self._head.wants_word and self._transport and len(self._buffer) < self._head.length:
                self._transport.write(CONTINUE)
        request = take_body(self._buffer, self._head, is_known=self._is_known)
        if request is not None:
            self._head = None
        return request

    def _answer(self, request: Request) -> None:
        try:
            reply = self._server.handler(request)
        except Exception:  # whatever a handler stumbles over, the client gets an answer
            log.exception("a request was not answered", path=request.path)
            reply = _INTERNAL
        if isinstance(reply, Reply):
            self._write(request, reply)
        else:
            self._task = asyncio.create_task(self._finish(request, reply), name="answer")

    async def _finish(self, request: Request, answer: Awaitable[Reply]) -> None:
        try:
            reply = await answer
        except Exception:  # whatever a handler stumbles over, the client gets an answer
            log.exception("a request was not answered", path=request.path)
            reply = _INTERNAL
        self._task = None
        self._write(request, reply)
        self._go_on()

    def _write(self, request: Request, reply: Reply) -> None:
        if self._transport is None or self._transport.is_closing():
            return
        is_last = request.is_last or self._server.is_ending
        limits = self._server.limits
        self._wait(limits.request_s if self._buffer else limits.idle_s)
        self._transport.write(encode(reply, is_last=is_last, without_body=request.method == "HEAD"))
        if is_last:
            self._transport.close()

    def _refuse(self, problem: BadRequest) -> None:
        assert self._transport is not None, "somebody was refused"
        self._is_refused = True
        self._buffer.clear()
        self._transport.write(encode(problem.reply, is_last=True))
        self._transport.resume_reading()
        self._wait(self._server.limits.linger_s)


class Server:
    """The connections of one listener, and what they ask."""

    def __init__(self, handler: Handler, limits: Limits) -> None:
        self.handler = handler
        self.limits = limits
        self.connections: set[Connection] = set()
        self.is_ending = False
        self._is_empty = asyncio.Event()
        self._is_empty.set()

    def connection(self) -> Connection:
        """For the listener: a protocol for somebody who connects."""
        return Connection(self)

    def opened(self, connection: Connection) -> None:
        """One more; where there are too many, the one that has been idle for longest goes."""
        self.connections.add(connection)
        self._is_empty.clear()
        if len(self.connections) > self.limits.connections_max:
            idle = [one for one in self.connections if one.is_idle and one is not connection]
            min(idle, key=lambda one: one.due, default=connection).close()

    def closed(self, connection: Connection) -> None:
        """One less."""
        self.connections.discard(connection)
        if not self.connections:
            self._is_empty.set()

    async def sweep(self) -> None:
        """Give up whoever takes too long; ends by cancellation."""
        now = asyncio.get_running_loop().time
        while True:
            await asyncio.sleep(self.limits.sweep_s)
            for connection in [one for one in self.connections if one.due <= now()]:
                connection.expire()

    async def end(self, grace_s: float) -> None:
        """Let answers that are under way be given, as long as the grace allows; then hang up."""
        self.is_ending = True
        for connection in list(self.connections):
            if connection.is_idle:
                connection.close()
        try:
            async with asyncio.timeout(grace_s):
                await self._is_empty.wait()
        except TimeoutError:
            for connection in list(self.connections):
                connection.abort()
