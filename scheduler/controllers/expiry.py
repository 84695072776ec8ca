"""Time-driven changes of the state: reservations expire, unschedulable pods are retried."""

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
        """Drop expired reservations."""
        if self._reservations.expire(now):
            log.info("reservation expired")
        return NOTHING


class UnschedulableFlush:
    """Retries unschedulable pods after some minutes, even without a requeue event."""

    name = "queue"

    def __init__(self, queue: SchedulingQueue) -> None:
        self._queue = queue

    def tick(self, now: float, *, leads: bool) -> Effects:
        """Move the due pods into the active queue."""
        self._queue.flush_unschedulable(now)
        return NOTHING
