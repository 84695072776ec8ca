"""Questions take turns: one is answered at a time, and the loop runs between two parts of it.

So questions delay a decision by at most one part, however many are asked.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final, TypeVar

import msgspec

from scheduler.model.limits import QUESTIONS_WAITING_MAX
from scheduler.state.parts import Parts

#: A refused client asks again after so long.
RETRY_AFTER_S: Final = 2
#: Entries of an answer that are encoded in one part.
ENCODED: Final = 100

Result = TypeVar("Result")


class Busy(Exception):
    """Too many questions wait for their turn, or this one waited too long."""

    def __init__(self, reason: str) -> None:
        super().__init__(
            f"the scheduler answers one question at a time, and {reason};"
            f" ask again after {RETRY_AFTER_S} s"
        )


class QuestionQueue:
    """The questions of all clients, in the order of their arrival."""

    def __init__(self) -> None:
        self._turn = asyncio.Lock()
        self.waiting = 0

    @asynccontextmanager
    async def turn(self, wait_s: float | None = None) -> AsyncIterator[None]:
        """Wait until no other question is answered; ``Busy`` if too many wait.

        ``wait_s`` limits the wait, for a client that does not tell when it gives up.
        """
        if self.waiting >= QUESTIONS_WAITING_MAX:
            raise Busy(f"{QUESTIONS_WAITING_MAX} wait")
        self.waiting += 1
        try:
            async with asyncio.timeout(wait_s):
                await self._turn.acquire()
        except TimeoutError:
            raise Busy(f"the others take more than {wait_s:g} s") from None
        finally:
            self.waiting -= 1
        try:
            yield
        finally:
            self._turn.release()


async def paused(parts: Parts[Result]) -> Result:
    """The result of a computation; other tasks run between two of its parts."""
    while True:
        try:
            next(parts)
        except StopIteration as end:
            result: Result = end.value
            return result
        await asyncio.sleep(0)


async def encoded(answer: msgspec.Struct, *lists: str, part: int = ENCODED) -> bytes:
    """The JSON of an answer; the fields with these names, which are lists, are encoded in parts."""
    entries = {name: getattr(answer, name) for name in lists}
    rest = msgspec.json.encode(msgspec.structs.replace(answer, **dict.fromkeys(lists, ())))
    pieces = [rest.removesuffix(b"}")]
    for name, items in entries.items():
        before = f',"{name}":['.encode()
        for at in range(0, len(items), part):
            pieces += (before, msgspec.json.encode(items[at : at + part])[1:-1])
            before = b","
            await asyncio.sleep(0)
        if items:
            pieces.append(b"]")
    return b"".join((*pieces, b"}"))
