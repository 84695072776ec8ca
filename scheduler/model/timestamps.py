"""Timestamps of the Kubernetes API (RFC 3339) as seconds since 1970, and back. Pure."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import Final

#: ``fromisoformat`` accepts all of ISO 8601; the API writes this part of it.
_RFC3339: Final = re.compile(
    r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d{1,9})?(?:Z|[+-]\d\d:\d\d)", re.ASCII
)
#: 0001-01-01T00:00:00Z and 9999-12-31T23:59:59Z.
_FIRST, _LAST = -62_135_596_800, 253_402_300_799


def epoch(text: str) -> float | None:
    """Seconds since 1970 in UTC; None for an invalid timestamp.

    >>> epoch("1970-01-02T00:00:01Z"), epoch("2026-11-27T10:00:00.5+01:00"), epoch("soon")
    (86401.0, 1795770000.5, None)
    """
    if _RFC3339.fullmatch(text) is None:
        return None
    try:
        return datetime.fromisoformat(text).timestamp()
    except ValueError:  # a thirteenth month, a sixtieth second
        return None


def rfc3339(seconds: float) -> str:
    """The inverse, in whole seconds; within the years 1 to 9999, which the format supports.

    >>> rfc3339(1795770000.5), rfc3339(951782400)
    ('2026-11-27T09:00:00Z', '2000-02-29T00:00:00Z')
    """
    whole = min(max(int(seconds), _FIRST), _LAST)
    return datetime.fromtimestamp(whole, UTC).isoformat()[:19] + "Z"


def micro_time(moment: datetime) -> str:
    """A time (UTC) as a Kubernetes MicroTime."""
    return moment.strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def second_time(moment: datetime) -> str:
    """A time (UTC) as a Kubernetes Time."""
    return moment.strftime("%Y-%m-%dT%H:%M:%SZ")


def age(timestamp: str, now: datetime) -> str:
    """The age of a Kubernetes timestamp in kubectl's format; empty for an invalid timestamp.

    >>> age("2026-11-27T10:00:00Z", datetime.fromisoformat("2026-11-27T12:05:00Z"))
    '2h5m'
    """
    try:
        then = datetime.fromisoformat(timestamp)
    except ValueError:
        return ""
    return duration((now - then).total_seconds())


def duration(total_s: float) -> str:
    """A duration in kubectl's format (``duration.HumanDuration``).

    >>> duration(65), duration(7500), duration(200_000)
    ('65s', '2h5m', '2d')
    """
    seconds = max(0, int(total_s))
    minutes, hours, days = seconds // 60, seconds // 3600, seconds // 86400
    if seconds < 120:
        return f"{seconds}s"
    if hours < 2:
        return f"{minutes}m"
    if days < 2:
        return f"{hours}h{minutes % 60}m" if minutes % 60 else f"{hours}h"
    return f"{days}d"
