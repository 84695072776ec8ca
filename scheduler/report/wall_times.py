"""Times of the loop's clock as timestamps: the same moment has the same text whenever it is asked.

The two clocks are compared at each use, and the offset changes only where the wall clock was set.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Final

import msgspec

from scheduler.model.timestamps import micro_time

#: A smaller difference of the clocks is the time between their readings, or their drift.
TOLERANCE: Final = timedelta(milliseconds=50)


class LoopTimes(msgspec.Struct, frozen=True):
    """Timestamps by one offset; ``zero`` is the wall clock when the loop's was zero."""

    zero: datetime

    def at(self, moment: float) -> str:
        """A time of the loop's clock."""
        return micro_time(self.zero + timedelta(seconds=moment))


class WallTimes:
    """The offset of two clocks; ``clock`` is the loop's, ``wall`` the wall clock."""

    def __init__(self, clock: Callable[[], float], wall: Callable[[], datetime]) -> None:
        self._clock = clock
        self._wall = wall
        self._times: LoopTimes | None = None

    def now(self) -> LoopTimes:
        """The timestamps by the present offset."""
        zero = self._wall() - timedelta(seconds=self._clock())
        if self._times is None or abs(zero - self._times.zero) > TOLERANCE:
            self._times = LoopTimes(zero)
        return self._times
