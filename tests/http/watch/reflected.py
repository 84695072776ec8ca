"""A running reflector of pods, and what it delivers."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

from scheduler.state import event as ev
from scheduler.watch.client import Client
from scheduler.watch.informers import PODS
from scheduler.watch.reflector import Limits, Reflector
from tests.http.fakeapi import Stream
from tests.patience import PATIENCE_S

LIST: Final = "GET /api/v1/pods"
WATCH: Final = "WATCH /api/v1/pods"
QUICK: Final = Limits(pause_first_s=0.01, pause_max_s=0.02, silence_max_s=5.0)
QUIET: Final = Stream(end="hang")


class Mirror:
    """A running reflector and what it delivered."""

    def __init__(self, client: Client, limits: Limits = QUICK) -> None:
        self.events: asyncio.Queue[ev.Event] = asyncio.Queue()
        self.warnings: list[tuple[str, str]] = []
        self.warned = asyncio.Event()
        self.refusals: list[tuple[str, str]] = []
        self.relists: list[tuple[str, str]] = []
        self.opened = asyncio.Event()
        self.reflector = Reflector(
            client,
            PODS,
            self.events.put_nowait,
            self._warn,
            random.Random(1),
            limits,
            lambda kind, reason: self.relists.append((kind, reason)),
            busy=lambda kind, problem: self.refusals.append((kind, problem)),
            opened=self.opened.set,
        )

    def _warn(self, kind: str, problem: str) -> None:
        self.warnings.append((kind, problem))
        self.warned.set()

    async def next(self) -> ev.Event:
        async with asyncio.timeout(PATIENCE_S):
            return await self.events.get()


@asynccontextmanager
async def running(client: Client, limits: Limits = QUICK) -> AsyncIterator[Mirror]:
    mirror = Mirror(client, limits)
    task = asyncio.create_task(mirror.reflector.run())
    try:
        yield mirror
        assert not task.done(), task
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
