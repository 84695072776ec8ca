"""Our HTTP server: aiohttp's low-level server behind the acceptor, and no router.

The creation of every pod waits for its webhook and the scheduler behind it. It serves the
webhook's TLS port, the scheduler's Unix socket and the port for the other replicas.

Must never: read a body before the handler's gate let its head through, hold more bytes than the
limits allow, or let one request's failure end the server.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any, Final, cast

from aiohttp import web

from scheduler.httpserver.acceptor import TlsContext, accepting
from scheduler.httpserver.body_limiter import Body, BodyLimiter, TooManyBytes
from scheduler.httpserver.connection import Connection
from scheduler.httpserver.connection_metrics import ConnectionMetrics
from scheduler.httpserver.limits import FIELDS_MAX, LINE_MAX, READ_BUFFER, Limits
from scheduler.httpserver.log_throttle import LogThrottle, ThrottledLogger, log_internal_error
from scheduler.httpserver.messages import TEXT, Head, Reply, Request

_NAME: Final = "gpu-scheduler"
_INTERNAL: Final = Reply(500, b"internal error\n", TEXT)
_LENGTH_REQUIRED: Final = Reply(411, b"a length is required\n", TEXT)
_NO_UPGRADE: Final = Reply(400, b"not HTTP/1.1\n", TEXT)
_NO_EXPECTATION: Final = Reply(417, b"only 100-continue can be expected\n", TEXT)
_TOO_SLOW: Final = Reply(408, b"the request did not arrive in time\n", TEXT)
_TOO_MANY: Final = Reply(503, b"too many bytes of requests are held\n", TEXT)
_METHODS: Final = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS")

Handler = Callable[[Request], Reply | Awaitable[Reply]]
#: A rejection, or the maximum body size of such a request.
Gate = Callable[[Head], Reply | int]


def options_of(limits: Limits, tally: ConnectionMetrics) -> dict[str, Any]:
    """The options of aiohttp's protocol, for every server behind the acceptor."""
    return {
        "access_log": None,
        "logger": ThrottledLogger(tally.port),
        "keepalive_timeout": limits.idle_s,
        "lingering_time": limits.linger_s,
        "max_line_size": LINE_MAX,
        "max_field_size": LINE_MAX,
        "max_headers": FIELDS_MAX,
        "read_bufsize": READ_BUFFER,
        "auto_decompress": False,  # a body of 3 MiB could become one of 3 GiB
        "handler_cancellation": True,
    }


class Server:
    """Answers the requests of one listener; created in a running event loop."""

    def __init__(
        self, handler: Handler, limits: Limits, tally: ConnectionMetrics, gate: Gate | None = None
    ) -> None:
        """``gate`` checks each head before its body; without one ``limits.body`` applies."""
        self._handler = handler
        self._limits = limits
        self._tally = tally
        self._gate = gate or (lambda head: limits.body)
        self._bodies = BodyLimiter(limits.bodies)
        self._seldom = LogThrottle()
        self._is_ending = False
        self._http = web.Server(self._handle, **options_of(limits, tally))

    @asynccontextmanager
    async def serving(
        self, listener: socket.socket, context: TlsContext | None, grace_s: float
    ) -> AsyncIterator[None]:
        """Serve for the duration of the block; then finish open requests within the grace
        period.
        """
        async with accepting(listener, self._http, self._limits, self._tally, context) as acceptor:
            try:
                yield
            finally:
                acceptor.stop()
                self._is_ending = True
                self._http.pre_shutdown()
                await self._http.shutdown(grace_s)
                await acceptor.end()

    async def _handle(self, raw: web.BaseRequest) -> web.StreamResponse:
        if raw.transport is None:  # the client disconnected before its request was handled
            return web.Response(status=400)
        connection = cast(Connection, raw.transport.get_protocol())
        path, _, query = raw.raw_path.partition("?")
        head = Head(
            *(raw.method, path, raw.headers, connection.is_known),
            client_name=connection.client_name,
            query=query,
        )
        problem = _refused(raw)
        if problem is not None:
            return self._response(raw, connection, problem, is_last=True)
        most = self._gate(head)
        if not isinstance(most, Reply) and (raw.content_length or 0) > most:
            text = f"Maximum request body size {most} exceeded\n"
            most = Reply(413, text.encode(), TEXT)
        if isinstance(most, Reply):
            return self._response(raw, connection, most)
        if raw.content.is_eof():
            reply = await self._answer(connection, head, raw.content.read_nowait(-1))
            return self._response(raw, connection, reply)
        with self._bodies.holding(connection.address) as body:
            problem = await self._read(raw, connection, body)
            if problem is not None:
                return self._response(raw, connection, problem)
            reply = await self._answer(connection, head, bytes(body.content))
        return self._response(raw, connection, reply)

    async def _read(self, raw: web.BaseRequest, connection: Connection, body: Body) -> Reply | None:
        """Read the whole body into ``body``; returns a reply if it does not arrive."""
        connection.reading()
        if raw.headers.get("Expect"):
            connection.go_on()
        try:
            async with asyncio.timeout(self._limits.body_s) as body.deadline:
                while piece := await raw.content.readany():
                    self._bodies.add(body, piece)
        except TooManyBytes:
            return _TOO_MANY
        except ConnectionError:  # the client disconnected
            return _TOO_SLOW
        except TimeoutError:
            if body.is_given_up:
                return _TOO_MANY
            self._tally.dropped("body")
            return _TOO_SLOW
        finally:
            body.deadline = None
        return None

    async def _answer(self, connection: Connection, head: Head, content: bytes) -> Reply:
        connection.answering()
        try:
            reply = self._handler(Request(head, content))
            return reply if isinstance(reply, Reply) else await reply
        except Exception:  # noqa: BLE001 - logged; the client gets a response
            log_internal_error(self._seldom, self._tally.port, head.path)
            return _INTERNAL

    def _response(
        self, raw: web.BaseRequest, connection: Connection, reply: Reply, *, is_last: bool = False
    ) -> web.Response:
        is_whole = raw.content.is_eof()
        connection.answered(reply.status, is_whole=is_whole)
        headers = {"Content-Type": reply.content_type, "Server": _NAME}
        if reply.retry_after_s:
            headers["Retry-After"] = str(reply.retry_after_s)
        response = web.Response(status=reply.status, body=reply.content, headers=headers)
        if is_last or not is_whole or self._is_ending or _wants_close(raw):
            response.force_close()
        return response


def _refused(raw: web.BaseRequest) -> Reply | None:
    """The rejection of a request that aiohttp's parser accepts and this server does not."""
    headers = raw.headers
    if raw.method not in _METHODS or not (1, 0) <= raw.version <= (1, 1) or "Upgrade" in headers:
        return _NO_UPGRADE
    if "Transfer-Encoding" in headers:
        return _LENGTH_REQUIRED
    if headers.get("Expect", "100-continue").lower() != "100-continue":
        return _NO_EXPECTATION
    return None


def _wants_close(raw: web.BaseRequest) -> bool:
    """aiohttp keeps a connection of HTTP/1.0 with ``keep-alive, close``."""
    tokens = raw.headers.get("Connection", "").lower().split(",")
    return any(token.strip() == "close" for token in tokens)
