"""Limits the bytes of request bodies held at once by all connections together.

A body counts from its first byte until its request was answered. Above the limit, the address with
the most bytes loses its oldest incomplete body: a client that sends half bodies affects itself, not
the client that sends a whole body.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager


class TooManyBytes(Exception):
    """The body was dropped in favour of others."""


class Body:
    """One body in memory."""

    def __init__(self, address: str) -> None:
        self.address = address
        self.content = bytearray()
        #: The reader's deadline while the body arrives; None once it is whole.
        self.deadline: asyncio.Timeout | None = None
        self.is_given_up = False

    def give_up(self) -> None:
        """End its reader at once."""
        self.is_given_up = True
        if self.deadline is not None and not self.deadline.expired():
            self.deadline.reschedule(float("-inf"))
        self.deadline = None


class BodyLimiter:
    """All bodies of one listener; ``limit`` in bytes."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        #: By arrival.
        self._held: dict[Body, None] = {}
        self._total = 0

    @property
    def total(self) -> int:
        """The number of bytes held."""
        return self._total

    @contextmanager
    def holding(self, address: str) -> Iterator[Body]:
        """A body, until the end of the block."""
        body = Body(address)
        self._held[body] = None
        try:
            yield body
        finally:
            self._release(body)

    def add(self, body: Body, piece: bytes) -> None:
        """Add a piece; :class:`TooManyBytes` if this body is dropped, or was dropped already."""
        if body.is_given_up:
            raise TooManyBytes
        body.content += piece
        self._total += len(piece)
        while self._total > self._limit:
            victim = self._victim() or body
            self._release(victim)
            victim.give_up()
            if victim is body:
                raise TooManyBytes

    def _victim(self) -> Body | None:
        """The oldest incomplete body of the address with the most bytes in incomplete bodies."""
        arriving = [body for body in self._held if body.deadline is not None]
        held: Counter[str] = Counter()
        for body in arriving:
            held[body.address] += len(body.content)
        most = max(held.values(), default=0)
        return next((body for body in arriving if held[body.address] == most), None)

    def _release(self, body: Body) -> None:
        if body in self._held:
            del self._held[body]
            self._total -= len(body.content)
            body.content = bytearray()
