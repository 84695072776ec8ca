"""An inbox that a test reads, for the I/O shells that put events into one."""

from __future__ import annotations

import asyncio
from typing import Any

from scheduler.state.event import Event
from scheduler.watch.inbox import Inbox
from tests.patience import PATIENCE_S


class Heard(Inbox):
    """Keeps the events for ``next``."""

    def __init__(self) -> None:
        super().__init__()
        self._queue: asyncio.Queue[Event] = asyncio.Queue()

    def enqueue(self, event: Event) -> None:
        self._queue.put_nowait(event)

    def is_empty(self) -> bool:
        """Whether every event was read."""
        return self._queue.empty()

    async def next(self) -> Any:
        """The next event."""
        async with asyncio.timeout(PATIENCE_S):
            return await self._queue.get()
