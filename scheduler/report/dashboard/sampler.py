"""Adds a sample of the devices to the history, every few minutes while this process leads."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from datetime import datetime
from typing import Final

import structlog

from scheduler.report.dashboard.contents import PageContents
from scheduler.report.dashboard.pages.history import STEP_S, History
from scheduler.report.dashboard.pages.overview import all_devices
from scheduler.report.decisions.capacity import CapacityReport
from scheduler.report.decisions.questions import Busy, QuestionQueue, paused

#: A process that does not lead looks again after so long.
LOOK_S: Final = 5.0

log = structlog.get_logger("dashboard")


class Sampler:
    """Samples the state of one process."""

    def __init__(
        self,
        capacity: CapacityReport,
        history: History,
        contents: PageContents,
        questions: QuestionQueue,
        wall: Callable[[], datetime],
        pause: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._capacity = capacity
        self._history = history
        self._contents = contents
        self._questions = questions
        self._wall = wall
        self._pause = pause

    async def run(self) -> None:
        """Take samples until cancelled."""
        while True:
            await self._pause(STEP_S if await self.sample() else LOOK_S)

    async def sample(self) -> bool:
        """Take one sample, if this process leads; returns whether it did."""
        if self._contents.obstacle() is not None:
            return False
        try:
            async with self._questions.turn():
                parts = self._capacity.take(with_nodes=False, with_holders=False)
                capacity = await paused(parts)
        except Busy:
            return False
        except Exception:  # the history is informational
            log.error("sample failed", exc_info=True)
            return True
        waiting = sum(one.waiting_pods for one in capacity.namespaces)
        self._history.add(self._wall().timestamp(), all_devices(capacity), waiting)
        return True
