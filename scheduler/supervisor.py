"""The stages of one process: tasks that run for as long as it does.

None of them ends by itself: whichever does has failed, and with it the process.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any

import structlog

log = structlog.get_logger("stages")


class TaskSupervisor:
    """Starts them, waits for the end of any, ends the rest."""

    def __init__(self) -> None:
        self._tasks: list[asyncio.Task[None]] = []

    def start(self, name: str, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """Run a stage from now on; the task is for whoever ends it before the others."""
        task = asyncio.create_task(work, name=name)
        self._tasks.append(task)
        return task

    def are_alive(self) -> bool:
        """Whether none has ended."""
        return not any(task.done() for task in self._tasks)

    async def until(self, stop: asyncio.Event) -> bool:
        """Wait for ``stop``; True when a stage ended before it, which is always a failure."""
        waiting = asyncio.create_task(stop.wait(), name="signal")
        await asyncio.wait([waiting, *self._tasks], return_when=asyncio.FIRST_COMPLETED)
        ended = [task for task in self._tasks if task.done()]
        for task in ended:
            problem = task.exception() if not task.cancelled() else None
            log.error("a stage ended", stage=task.get_name(), exc_info=problem)
        waiting.cancel()
        return bool(ended)

    async def end(self) -> None:
        """Cancel all of them and wait until they are gone."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
