"""The one way from the I/O shells into the loop: events in the order of their arrival."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Iterator
from contextlib import suppress

from scheduler.state.event import Event


class Inbox:
    """A queue of events with one consumer. It has no bound: a lost event would be a wrong state."""

    def __init__(self) -> None:
        self._events: deque[Event] = deque()
        self._changed = asyncio.Event()

    def enqueue(self, event: Event) -> None:
        """Append an event; never blocks."""
        self._events.append(event)
        self._changed.set()

    def wake(self) -> None:
        """Let the consumer look again: leadership or the first sync changed, not the events."""
        self._changed.set()

    def drain(self) -> Iterator[Event]:
        """The events that are here, and those that arrive meanwhile."""
        while self._events:
            yield self._events.popleft()

    async def wait(self, timeout_s: float) -> None:
        """Wait for an event or ``wake``, for no longer than the timeout."""
        if self._events or timeout_s == 0.0:
            await asyncio.sleep(0)
        else:
            with suppress(TimeoutError):
                async with asyncio.timeout(timeout_s):
                    await self._changed.wait()
        self._changed.clear()
