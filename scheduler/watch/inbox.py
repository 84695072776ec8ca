"""The queue from the I/O shells to the loop: events in the order of their arrival."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Iterator
from contextlib import suppress

from scheduler.state.event import Event


class Inbox:
    """A queue of events with one consumer. It is unbounded: a lost event would make the state
    wrong.
    """

    def __init__(self) -> None:
        self._events: deque[Event] = deque()
        self._changed = asyncio.Event()

    def enqueue(self, event: Event) -> None:
        """Append an event; never blocks."""
        self._events.append(event)
        self._changed.set()

    def wake(self) -> None:
        """Wake the consumer without an event: leadership or the first sync changed."""
        self._changed.set()

    def drain(self) -> Iterator[Event]:
        """The queued events, including those that arrive during the iteration."""
        while self._events:
            yield self._events.popleft()

    async def wait(self, timeout_s: float) -> None:
        """Wait for an event or ``wake``, for at most the timeout."""
        if self._events or timeout_s == 0.0:
            await asyncio.sleep(0)
        else:
            with suppress(TimeoutError):
                async with asyncio.timeout(timeout_s):
                    await self._changed.wait()
        self._changed.clear()
