"""The API's timestamps as seconds, for whoever must count and may not read a clock. Pure."""

from __future__ import annotations

import re
from typing import Final

_RFC3339: Final = re.compile(
    r"(\d{4})-(\d\d)-(\d\d)T(\d\d):(\d\d):(\d\d)(\.\d{1,9})?(?:Z|([+-])(\d\d):(\d\d))", re.ASCII
)
DAY_S: Final = 86_400


def epoch(text: str) -> float | None:
    """Seconds since 1970 in UTC; None for what is no timestamp.

    >>> epoch("1970-01-02T00:00:01Z"), epoch("2026-11-27T10:00:00.5+01:00"), epoch("soon")
    (86401.0, 1795770000.5, None)
    """
    found = _RFC3339.fullmatch(text)
    if found is None:
        return None
    year, month, day, hour, minute, second = (int(found[at]) for at in range(1, 7))
    offset_s = 0
    if found[8]:
        offset_s = (int(found[9]) * 60 + int(found[10])) * (60 if found[8] == "+" else -60)
    whole = _days(year, month, day) * DAY_S + hour * 3600 + minute * 60 + second - offset_s
    return whole + float(found[7] or 0)


def rfc3339(seconds: float) -> str:
    """The inverse, in whole seconds.

    >>> rfc3339(1795770000.5), rfc3339(951782400)
    ('2026-11-27T09:00:00Z', '2000-02-29T00:00:00Z')
    """
    days, rest = divmod(int(seconds), DAY_S)
    year, month, day = _date(days)
    clock = f"{rest // 3600:02}:{rest % 3600 // 60:02}:{rest % 60:02}"
    return f"{year:04}-{month:02}-{day:02}T{clock}Z"


def _days(year: int, month: int, day: int) -> int:
    """Days since 1970-01-01 in the Gregorian calendar; years begin in March here."""
    shifted = year - (month <= 2)
    of_year = (153 * ((month + 9) % 12) + 2) // 5 + day - 1
    return shifted * 365 + shifted // 4 - shifted // 100 + shifted // 400 + of_year - 719_468


def _date(days: int) -> tuple[int, int, int]:
    era, of_era = divmod(days + 719_468, 146_097)
    year = (of_era - of_era // 1460 + of_era // 36_524 - of_era // 146_096) // 365
    of_year = of_era - (365 * year + year // 4 - year // 100)
    number = (5 * of_year + 2) // 153
    month = number + 3 if number < 10 else number - 9
    return era * 400 + year + (month <= 2), month, of_year - (153 * number + 2) // 5 + 1
