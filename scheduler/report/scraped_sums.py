"""Sums of the state that are taken when they are scraped, so they cost nothing without a scrape.

A large cluster takes a part of a second in small parts; a scrape that comes too early gets the
former sums, so that scrapes take little of the processor. Only the leader has sums: a standby would
double every one.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, Generic, Protocol, TypeVar

from prometheus_client.registry import Collector

from scheduler.report.decisions.questions import paused
from scheduler.state.parts import Parts

#: Series of the other nodes and namespaces are summed; no object of the API has such a name.
OTHERS: Final = "_others"
#: Sums are used again for this multiple of the time that they took, but not longer than this.
REST: Final = 100.0
REST_MAX_S: Final = 30.0

Sums = TypeVar("Sums")


class ScrapedCollector(Collector, Protocol):
    """Series of sums that are taken before they are collected."""

    async def refresh(self) -> None:
        """Take the sums again, unless they are recent."""


class ScrapedSums(Generic[Sums]):
    """The sums of one process; ``clock`` is in seconds."""

    def __init__(
        self, take: Callable[[], Parts[Sums]], leads: Callable[[], bool], clock: Callable[[], float]
    ) -> None:
        self._take = take
        self._leads = leads
        self._clock = clock
        self._sums: Sums | None = None
        self._is_running = False
        self._next_at = 0.0

    @property
    def last(self) -> Sums | None:
        """The last sums; None while this process does not lead."""
        return self._sums if self._leads() else None

    async def refresh(self) -> None:
        """Sum the state again, unless the sums are recent or another scrape does it."""
        if not self._leads():
            self._sums = None
            return
        started = self._clock()
        if self._is_running or started < self._next_at:
            return
        self._is_running = True
        try:
            self._sums = await paused(self._take())
        finally:
            self._is_running = False
            now = self._clock()
            self._next_at = now + min(REST * (now - started), REST_MAX_S)
