"""The backoff of pods after failed attempts (``pkg/scheduler/backend/queue/backoff_queue.go``).

A backoff expires in a window of one second and ends with it, so the pods of a window become active
together. Within a window the order is that of the active pods: priority, then age.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator
from math import floor

from scheduler.state.queue.fair_queue import Item

BACKOFF_FIRST_S = 1.0
BACKOFF_MAX_S = 10.0
#: kube-scheduler ends at 10 s here, too. A Binding that never succeeds costs eight requests in two
#: minutes this way.
ERROR_BACKOFF_MAX_S = 60.0
WINDOW_S = 1.0

#: End of the backoff, negative priority, place in the queue, number of the entry in the heap.
_Waiting = tuple[float, int, Item, int]


def backoff_s(attempts: int, longest_s: float = BACKOFF_MAX_S) -> float:
    """Seconds until the next try: 1, 2, 4, 8, 10, 10 ...

    >>> [backoff_s(n) for n in (1, 2, 3, 4, 5, 50)]
    [1.0, 2.0, 4.0, 8.0, 10.0, 10.0]
    """
    return float(min(longest_s, BACKOFF_FIRST_S * 2 ** min(attempts - 1, 10)))


def backoff_end(now: float, pause_s: float) -> float:
    """The end of the window in which a backoff expires that begins now.

    >>> backoff_end(3.2, 1.0), backoff_end(3.9, 1.0), backoff_end(4.0, 1.0)
    (5.0, 5.0, 6.0)
    """
    return (floor((now + pause_s) / WINDOW_S) + 1) * WINDOW_S


class BackoffHeap:
    """Pods in backoff, by its end; a removed pod leaves its entry behind until it is the first."""

    def __init__(self) -> None:
        self._heap: list[_Waiting] = []
        self._numbers: dict[str, int] = {}
        self._pushed = 0

    def __len__(self) -> int:
        return len(self._numbers)

    def push(self, ready_at: float, priority: int, item: Item) -> None:
        """Add a pod that is not in the heap."""
        self._pushed += 1
        self._numbers[item[2]] = self._pushed
        heapq.heappush(self._heap, (ready_at, -priority, item, self._pushed))

    def discard(self, uid: str) -> None:
        """Remove a pod, if it is in the heap."""
        self._numbers.pop(uid, None)

    def first(self) -> tuple[float, int] | None:
        """The end of the earliest backoff, and the priority of its first pod; None if empty."""
        while self._heap:
            ready_at, negative, item, number = self._heap[0]
            if self._numbers.get(item[2]) == number:
                return ready_at, -negative
            heapq.heappop(self._heap)
        return None

    def pop(self) -> str | None:
        """Remove and return the uid of the first pod, whether its backoff is over or not."""
        if self.first() is None:
            return None
        uid = heapq.heappop(self._heap)[2][2]
        del self._numbers[uid]
        return uid

    def release(self, now: float) -> Iterator[str]:
        """Remove every pod whose backoff is over."""
        while (first := self.first()) is not None and first[0] <= now:
            uid = self.pop()
            assert uid is not None, "the heap has a first pod"
            yield uid
