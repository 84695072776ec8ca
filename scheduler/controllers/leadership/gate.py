"""Decides when this process may schedule: it leads, its term has settled, its caches are synced.

A new leader waits before its first decision, for two reasons (design 5.19 and 5.20):

- its caches must be at least as new as the writes of the former leader, so every kind is listed
  again, from a quorum, after the lease was acquired;
- API servers observe the new epoch through a watch of their own, and reject Bindings that carry it
  until then.

No replica decides while the watch of a vital kind is broken: stale data looks like any other.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Protocol

import structlog

from scheduler.model.lease import LeaderTerm
from scheduler.watch.inbox import Inbox

SETTLE_S = 1.0

log = structlog.get_logger("leader")


class Term(LeaderTerm, Protocol):
    """What the gate reads of the election."""

    is_enabled: bool

    async def next_term(self, epoch: int | None) -> float:
        """Wait for a term of this process other than ``epoch``; returns when it began
        (monotonic).
        """


class Cache(Protocol):
    """What the gate reads of a reflector."""

    is_healthy: bool
    is_vital: bool

    async def newer_than(self, moment: float) -> None:
        """Wait until the cache is based on a list that was requested after this moment."""


async def _adopt_nothing(since: float) -> float:
    return since


class LeaderGate:
    """Opens for a process that leads; wakes the loop when a term has settled.

    ``adopt`` is called at the begin of a term with its time, and returns the time after which the
    caches must be listed: it may write objects that the caches must contain.
    """

    def __init__(
        self,
        term: Term,
        caches: Sequence[Cache],
        inbox: Inbox,
        settle_s: float = SETTLE_S,
        adopt: Callable[[float], Awaitable[float]] = _adopt_nothing,
    ) -> None:
        self._term = term
        self._caches = caches
        self._inbox = inbox
        self._settle_s = settle_s
        self._adopt = adopt
        self._settled: int | None = None
        #: Whether every cache has been filled once.
        self.is_synced = False

    @property
    def epoch(self) -> int | None:
        """The term that this process held last."""
        return self._term.epoch

    def is_open(self) -> bool:
        """Whether decisions and admission answers are allowed: caches filled, and leading."""
        return self.is_synced and self.leads()

    def sync(self) -> None:
        """Every cache is filled."""
        self.is_synced = True
        self._inbox.wake()

    def leads(self) -> bool:
        """Whether this process leads, with a settled term and no broken watch."""
        return (
            self._term.leads()
            and (not self._term.is_enabled or self._settled == self._term.epoch)
            and all(cache.is_healthy or not cache.is_vital for cache in self._caches)
        )

    async def run(self) -> None:
        """Settle every term of this process; ends by cancellation."""
        while True:
            taken_at = await self._term.next_term(self._settled)
            epoch = self._term.epoch
            listed_after = await self._adopt(taken_at)
            async with asyncio.TaskGroup() as group:
                group.create_task(asyncio.sleep(self._settle_s))
                for cache in self._caches:
                    group.create_task(cache.newer_than(listed_after))
            self._settled = epoch
            log.info("leading", epoch=epoch)
            self._inbox.wake()
