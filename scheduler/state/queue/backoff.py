"""The backoff of a pod after a failed attempt (``pkg/scheduler/backend/queue``)."""

from __future__ import annotations

BACKOFF_FIRST_S = 1.0
BACKOFF_MAX_S = 10.0


def backoff_s(attempts: int, longest_s: float = BACKOFF_MAX_S) -> float:
    """Seconds until the next try: 1, 2, 4, 8, 10, 10 ...

    >>> [backoff_s(n) for n in (1, 2, 3, 4, 5, 50)]
    [1.0, 2.0, 4.0, 8.0, 10.0, 10.0]
    """
    return float(min(longest_s, BACKOFF_FIRST_S * 2 ** min(attempts - 1, 10)))
