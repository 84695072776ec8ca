"""Amounts of counters and capacities: whole numbers of nano units, so that they are exact.

``resource.Quantity`` holds no finer scale, and the sums of many amounts never overflow here.
"""

from __future__ import annotations

from typing import Final

#: Nano units of one.
ONE: Final = 10**9
#: The greatest amount that Go reads as an int64 (``math.MaxInt64``).
INT64_MAX: Final = (2**63 - 1) * ONE

_BINARY: Final = ("", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei")
_FRACTIONS: Final = ((10**6, "m"), (10**3, "u"), (1, "n"))


def amount_text(nano: int) -> str:
    """An amount as a quantity of the API.

    >>> amount_text(40 * 2**30 * ONE), amount_text(7 * ONE), amount_text(ONE // 4)
    ('40Gi', '7', '250m')
    """
    if nano % ONE:
        unit, suffix = next(one for one in _FRACTIONS if nano % one[0] == 0)
        return f"{nano // unit}{suffix}"
    whole, power = nano // ONE, 0
    while whole and whole % 1024 == 0 and power + 1 < len(_BINARY):
        whole, power = whole // 1024, power + 1
    return f"{whole}{_BINARY[power]}"
