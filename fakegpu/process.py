"""What the programs do as processes: end at a signal, wait for news, serve HTTP while they run."""

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
    """Set by any signal that asks a program to end."""
    stop = asyncio.Event()

    def signalled(number: signal.Signals) -> None:
        log.info(f"Received signal {number.name}")
        stop.set()

    for number in SIGNALS:
        asyncio.get_running_loop().add_signal_handler(number, signalled, number)
    return stop


async def news_within(news: asyncio.Event, timeout_s: float) -> None:
    """Wait until something is told, at most so long; what is told from now on is news again."""
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(timeout_s):
            await news.wait()
    news.clear()


@contextlib.asynccontextmanager
async def serving(app: web.Application, host: str, port: int) -> AsyncIterator[None]:
    """Serve HTTP inside the block."""
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    await web.TCPSite(runner, host, port).start()
    log.info(f"Serving on port {port}")
    try:
        yield
    finally:
        await runner.cleanup()
