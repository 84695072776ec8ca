"""When this process may decide: it leads, its term has settled, and its caches are new enough.

A new leader waits before its first decision, for two reasons (design 5.19 and 5.20):

- its caches must be at least as new as everything the leader before it did, so every kind is
  listed again, from a quorum, after the lease was taken;
- API servers learn of the new epoch through a watch of their own, and refuse Bindings that
  carry it until then.

And nobody decides while the watch of a vital kind is broken: a frozen view looks like any other.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Protocol

import structlog

SETTLE_S = 1.0

log = structlog.get_logger("mandate")


class Term(Protocol):
    """What is asked of the election."""

    epoch: int | None
    is_enabled: bool

    def leads(self) -> bool:
        """Whether the lease is ours now."""

    async def next_term(self, epoch: int | None) -> float:
        """Wait for a term of ours other than this one; when it was taken (monotonic seconds)."""


class Cache(Protocol):
    """What is asked of a reflector."""

    is_healthy: bool
    is_vital: bool

    async def newer_than(self, moment: float) -> None:
        """Wait until the cache rests on a list that was asked for after this moment."""


class LeaderGate:
    """Says whether this process may decide now; ``on_change`` hears when a term has settled."""

    def __init__(
        self,
        term: Term,
        caches: Sequence[Cache],
        on_change: Callable[[], None],
        settle_s: float = SETTLE_S,
    ) -> None:
        self._term = term
        self._caches = caches
        self._on_change = on_change
        self._settle_s = settle_s
        self._settled: int | None = None

    def leads(self) -> bool:
        """Asked before every decision and every answer."""
        return (
            self._term.leads()
            and (not self._term.is_enabled or self._settled == self._term.epoch)
            and all(cache.is_healthy or not cache.is_vital for cache in self._caches)
        )

    async def run(self) -> None:
        """Settle every term of ours; ends by cancellation."""
        while True:
            taken_at = await self._term.next_term(self._settled)
            epoch = self._term.epoch
            async with asyncio.TaskGroup() as group:
                group.create_task(asyncio.sleep(self._settle_s))
                for cache in self._caches:
                    group.create_task(cache.newer_than(taken_at))
            self._settled = epoch
            log.info("leading", epoch=epoch)
            self._on_change()
