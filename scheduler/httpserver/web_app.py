"""aiohttp applications behind the acceptor: pages with a router, outside of pod creation."""

from __future__ import annotations

import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import cast

from aiohttp import web

from scheduler.httpserver.acceptor import accepting
from scheduler.httpserver.connection import Connection
from scheduler.httpserver.connection_metrics import ConnectionMetrics
from scheduler.httpserver.limits import Limits
from scheduler.httpserver.log_throttle import LogThrottle, log_internal_error
from scheduler.httpserver.server import options_of

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


@asynccontextmanager
async def serving(
    app: web.Application,
    listener: socket.socket,
    limits: Limits,
    tally: ConnectionMetrics,
    grace_s: float,
) -> AsyncIterator[None]:
    """Serve for the duration of the block; open requests have ``grace_s`` seconds at its end."""
    seldom = LogThrottle()

    @web.middleware
    async def watched(request: web.Request, handler: Handler) -> web.StreamResponse:
        if request.transport is None:  # the client disconnected before its request was handled
            return web.Response(status=400)
        connection = cast(Connection, request.transport.get_protocol())
        connection.answering()
        status = 500
        try:
            response = await handler(request)
        except web.HTTPException as refusal:
            status = refusal.status
            raise
        except Exception:  # noqa: BLE001 - logged; the client gets a response
            log_internal_error(seldom, tally.port, request.path)
            return web.Response(status=status, text="internal error\n")
        else:
            status = response.status
            return response
        finally:
            connection.answered(status, is_whole=request.content.is_eof())

    app.middlewares.insert(0, watched)
    runner = web.AppRunner(app, shutdown_timeout=grace_s, **options_of(limits, tally))
    await runner.setup()
    assert runner.server is not None, "it was set up"
    async with accepting(listener, runner.server, limits, tally) as acceptor:
        try:
            yield
        finally:
            acceptor.stop()
            await runner.cleanup()
            await acceptor.end()
