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
#: After the API server answers again, or a watch is heard again: everybody connects and lists.
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

    def touch(self, since: float, until: float) -> bool:
        """Whether an interval and a window have a moment in common."""
        with self._lock:
            intervals = list(self._intervals.values())
        return any(begun <= until and since <= over for begun, over in intervals)

    @property
    def count(self) -> int:
        """How many there were."""
        return len(self._intervals)
