"""Times of the run in which honest pods may wait longer, because something was taken away.

Seconds since 1970, as the API server's audit log has them: both clocks are the same machine's.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

#: After a kill: a standby waits for the lease (4 s) and starts to decide; a webhook starts again.
KILL_GRACE_S = 10.0
#: After the API server answers again, or a watch is heard again: every client connects and lists.
OUTAGE_GRACE_S = 15.0


class Windows:
    """Intervals, each from a fault until its grace is over."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._intervals: dict[int, tuple[float, float]] = {}

    @contextmanager
    def during(self, grace_s: float) -> Iterator[None]:
        """One window: as long as the block lasts, and the grace after it."""
        begun = time.time()
        with self._lock:
            key = len(self._intervals)
            self._intervals[key] = (begun, float("inf"))
        try:
            yield
        finally:
            with self._lock:
                self._intervals[key] = (begun, time.time() + grace_s)

    def add(self, begun: float, over: float) -> None:
        """One window that is known already."""
        with self._lock:
            self._intervals[len(self._intervals)] = (begun, over)

    def is_open(self, moment: float) -> bool:
        """Whether a moment is in a window."""
        return any(begun <= moment <= over for begun, over in self._sorted())

    def outside(self, since: float, until: float) -> float:
        """How many seconds of an interval are in no window."""
        seconds, at = 0.0, since
        for begun, over in self._sorted():
            seconds += max(0.0, min(begun, until) - at)
            at = max(at, over)
        return seconds + max(0.0, until - at)

    def _sorted(self) -> list[tuple[float, float]]:
        with self._lock:
            return sorted(self._intervals.values())

    @property
    def count(self) -> int:
        """How many there were."""
        return len(self._intervals)
