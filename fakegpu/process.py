"""Process functions of the programs: end at a signal, wait for updates, serve HTTP."""

from __future__ import annotations

import asyncio
import contextlib
import signal
from collections.abc import AsyncIterator
from typing import Final

import structlog
from aiohttp import web

SIGNALS: Final = (signal.SIGHUP, signal.SIGINT, signal.SIGTERM, signal.SIGQUIT)

log = structlog.get_logger("fakegpu")


def stopped_by_signals() -> asyncio.Event:
    """Set by any termination signal."""
    stop = asyncio.Event()

    def signalled(number: signal.Signals) -> None:
        log.info(f"Received signal {number.name}")
        stop.set()

    for number in SIGNALS:
        asyncio.get_running_loop().add_signal_handler(number, signalled, number)
    return stop


async def news_within(news: asyncio.Event, timeout_s: float) -> None:
    """Wait for an update, at most this time; clears the flag."""
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(timeout_s):
            await news.wait()
    news.clear()


@contextlib.asynccontextmanager
async def serving(app: web.Application, host: str, port: int) -> AsyncIterator[None]:
    """Serve HTTP during the block."""
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    await web.TCPSite(runner, host, port).start()
    log.info(f"Serving on port {port}")
    try:
        yield
    finally:
        await runner.cleanup()
