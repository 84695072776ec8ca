"""State that time alone changes: reservations that expire, pods that are retried in any case."""

from __future__ import annotations

import structlog

from scheduler.state.effects import NOTHING, Effects
from scheduler.state.queue.scheduling_queue import SchedulingQueue
from scheduler.state.reservations import Reservations

log = structlog.get_logger("scheduler")


class ReservationExpiry:
    """Drops reservations whose pod does not appear."""

    name = "reservations"

    def __init__(self, reservations: Reservations) -> None:
        self._reservations = reservations

    def tick(self, now: float, *, leads: bool) -> Effects:
        """Drop the reservations that are too old."""
        if self._reservations.expire(now):
            log.info("reservation expired")
        return NOTHING


class UnschedulableFlush:
    """Retries unschedulable pods after some minutes, even if no event could help them."""

    name = "queue"

    def __init__(self, queue: SchedulingQueue) -> None:
        self._queue = queue

    def tick(self, now: float, *, leads: bool) -> Effects:
        """Move the pods that are due into the active queue."""
        self._queue.flush_unschedulable(now)
        return NOTHING
