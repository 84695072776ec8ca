"""Repeats a request while the API server is busy and this process may send it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from scheduler.watch.client import ApiError, Unreachable


class NotLeading(Exception):
    """This process does not lead any more, or leads in another term."""


async def repeat_while_busy(
    send: Callable[[], Awaitable[bytes]],
    may_send: Callable[[], bool],
    *,
    tries: int,
    pause_first_s: float,
) -> bytes:
    """The answer of the API server, after pauses that double.

    Raises NotLeading before a request that is not to be sent any more, ApiError for a refusal, and
    the problem of the last one of the ``tries``.
    """
    attempt = 0
    while True:
        if not may_send():
            raise NotLeading
        try:
            return await send()
        except (ApiError, Unreachable) as error:
            attempt += 1
            if attempt == tries or (isinstance(error, ApiError) and not error.is_busy):
                raise
            await asyncio.sleep(pause_first_s * 2**attempt)
