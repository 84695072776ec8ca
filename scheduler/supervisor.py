"""The background tasks of one process; a task that ends has failed, and the process ends with
it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Iterable
from typing import Any

import structlog

log = structlog.get_logger("supervisor")


class TaskSupervisor:
    """Starts tasks, waits until one ends, and cancels the others."""

    def __init__(self) -> None:
        self._tasks: list[asyncio.Task[None]] = []

    def start(self, name: str, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """Start a task. Returns the task, so that the caller can end it before the others."""
        task = asyncio.create_task(work, name=name)
        self._tasks.append(task)
        return task

    def start_all(self, tasks: Iterable[tuple[str, Coroutine[Any, Any, None]]]) -> None:
        """Start tasks by name."""
        for name, work in tasks:
            self.start(name, work)

    def are_alive(self) -> bool:
        """Whether no task has ended."""
        return not any(task.done() for task in self._tasks)

    async def until(self, stop: asyncio.Event) -> bool:
        """Wait for ``stop``; True when a task ended before it, which is always a failure."""
        waiting = asyncio.create_task(stop.wait(), name="signal")
        await asyncio.wait([waiting, *self._tasks], return_when=asyncio.FIRST_COMPLETED)
        ended = [task for task in self._tasks if task.done()]
        for task in ended:
            problem = task.exception() if not task.cancelled() else None
            log.error("background task exited", task=task.get_name(), exc_info=problem)
        waiting.cancel()
        return bool(ended)

    async def end(self) -> None:
        """Cancel every task and wait for its end."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
