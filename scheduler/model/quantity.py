"""Kubernetes quantities: ``500m``, ``1.5Gi``, ``1e3``, as whole or milli units.

The grammar is that of ``k8s.io/apimachinery/pkg/api/resource`` and nothing else: what the API
server accepts is accepted here, what it refuses is refused. ``tests/golden/quantity.json`` holds
the answers of the real parser.

Readings round away from zero, as Go's ``Value()`` and ``MilliValue()`` are documented to do.
They never overflow: an amount beyond 64 bits reads as ``LIMIT`` (2**63 - 1), or ``-LIMIT``. Go caps
only binary suffixes (``16Ei``) and wraps around for the rest (``20E`` reads 0 there), so that is
the one place where we differ, on purpose.

Must never: use a float for arithmetic, or take time or memory that grows with an exponent.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from decimal import MAX_EMAX, MIN_EMIN, ROUND_UP, Context, Decimal
from functools import lru_cache
from typing import Final

from scheduler.model.limits import QUANTITY_LENGTH_MAX

#: The largest amount a reading returns; the smallest is its negative.
LIMIT: Final = 2**63 - 1

_NUMBER: Final = re.compile(r"[+-]?[0-9]*\.?[0-9]*")
_EXPONENT: Final = re.compile(r"[eE]([+-]?)([0-9]+)")
_DECIMAL: Final = {
    "": 0, "n": -9, "u": -6, "m": -3, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18,
}  # fmt: skip
_MULTIPLES: Final = tuple("kMGTPE")
_BINARY: Final = {"Ki": 10, "Mi": 20, "Gi": 30, "Ti": 40, "Pi": 50, "Ei": 60}

# 200 digits hold every amount below LIMIT down to a nano with room to spare. Digits beyond are
# rounded up, which changes nothing, because every later step rounds up on a coarser grid.
_EXACT: Final = Context(prec=200, rounding=ROUND_UP, Emin=MIN_EMIN, Emax=MAX_EMAX, traps=[])
_NANO: Final = 10**9
_FAR_DIGITS: Final = 40
_FAR: Final[int] = 10**40
_INT64_DIGITS: Final = 19
_CACHE_SIZE: Final = 8192
_SHOWN: Final = 60


class QuantityError(ValueError):
    """A text that is not a quantity, with the reason in one line."""

    def __init__(self, text: object, problem: str) -> None:
        """Store the rejected text and the problem."""
        shown = repr(text)
        if len(shown) > _SHOWN:
            shown = shown[:_SHOWN] + "..."
        super().__init__(f"{shown} is not a quantity: {problem}")
        self.text = text
        self.problem = problem


@lru_cache(maxsize=_CACHE_SIZE, typed=True)
def value(text: str | int | float) -> int:
    """Whole units, rounded away from zero.

    >>> value("1.5Gi"), value("100m"), value("-1.5"), value(3), value("20E") == LIMIT
    (1610612736, 1, -2, 3, True)
    """
    return _reading(_nano(text), _NANO)


@lru_cache(maxsize=_CACHE_SIZE, typed=True)
def milli_value(text: str | int | float) -> int:
    """Thousandths, rounded away from zero.

    >>> milli_value("2"), milli_value("0.1"), milli_value("1500u")
    (2000, 100, 2)
    """
    return _reading(_nano(text), _NANO // 1000)


@lru_cache(maxsize=_CACHE_SIZE, typed=True)
def nano_value(text: str | int | float) -> int:
    """Nano units, the finest of a quantity, rounded away from zero; at most 10**40.

    >>> nano_value("2"), nano_value("0.1"), nano_value("1500u")
    (2000000000, 100000000, 1500000)
    """
    return _nano(text)


def format_value(resource: str, amount: int) -> str:
    """An amount as text for messages: cpu in milli, bytes in the unit with the shortest text.

    >>> format_value("cpu", 1500), format_value("cpu", 2000), format_value("memory", 3 * 2**30)
    ('1500m', '2', '3Gi')
    >>> format_value("memory", 200 * 10**9)
    '200G'
    """
    if resource.removeprefix("requests.").removeprefix("limits.") == "cpu":
        return f"{amount}m" if amount % 1000 else str(amount // 1000)
    if not _is_bytes(resource) or amount == 0:
        return str(amount)
    texts = _in_units(amount, 1024, _BINARY), _in_units(amount, 1000, _MULTIPLES)
    return min(texts, key=len)


def _in_units(amount: int, step: int, units: Iterable[str]) -> str:
    unit = ""
    for unit_above in units:
        if amount % step:
            break
        amount, unit = amount // step, unit_above
    return f"{amount}{unit}"


def _is_bytes(resource: str) -> bool:
    name = resource.removeprefix("requests.").removeprefix("limits.")
    return name in ("memory", "ephemeral-storage", "storage") or name.startswith("hugepages-")


def _reading(nano: int, unit: int) -> int:
    """Nano units in coarser ones, rounded away from zero and clamped."""
    magnitude = min(-(-abs(nano) // unit), LIMIT)
    return magnitude if nano >= 0 else -magnitude


def _nano(text: str | int | float) -> int:
    """The amount in nano units, rounded away from zero, far beyond LIMIT at most."""
    if isinstance(text, bool) or not isinstance(text, str | int | float):
        raise QuantityError(text, "it must be a text or a number")
    # A number without quotes (cpu: 0.5) reaches the real parser as its shortest text too. A whole
    # number with thousands of digits cannot be printed.
    if isinstance(text, int):
        text = max(-_FAR, min(text, _FAR))
    written = text if isinstance(text, str) else repr(text)
    if len(written) > QUANTITY_LENGTH_MAX:
        raise QuantityError(
            written[: 2 * _SHOWN], f"it has more than {QUANTITY_LENGTH_MAX} characters"
        )
    number, suffix = _split(written)
    power = _power(suffix)
    if power is None:
        number, power = _EXACT.multiply(number, Decimal(2 ** _BINARY[suffix])), 0
    return _whole(_EXACT.scaleb(number, Decimal(power + 9)))


def _whole(amount: Decimal) -> int:
    """Round away from zero without printing a huge or a tiny number."""
    if not amount:
        return 0
    sign = -1 if amount.is_signed() else 1
    if amount.adjusted() < 0:
        return sign
    if amount.adjusted() > _FAR_DIGITS:
        return sign * _FAR
    return int(amount.to_integral_value(rounding=ROUND_UP))


def _split(text: str) -> tuple[Decimal, str]:
    """Number and suffix of a well-formed quantity."""
    if not text:
        raise QuantityError(text, "it is empty; write a number such as 2, 500m or 16Gi")
    match = _NUMBER.match(text)
    digits = match[0] if match else ""
    suffix = text[len(digits) :]
    power = _power(suffix)
    if power is None and suffix not in _BINARY:
        raise QuantityError(text, _problem(digits, suffix))
    if digits.strip("+-."):
        return Decimal(digits), suffix
    # The real parser reads "." and even "k" as 0, but only on its fast path.
    if suffix in ("Pi", "Ei") or (power is not None and power < _DECIMAL["n"]):
        raise QuantityError(text, "it has no digits")
    return Decimal(0), suffix


def _power(suffix: str) -> int | None:
    """Power of ten of a decimal suffix or an exponent; None for any other suffix."""
    match = _EXPONENT.fullmatch(suffix)
    if match is None:
        return _DECIMAL.get(suffix)
    digits = match[2].lstrip("0")
    if len(digits) > _INT64_DIGITS:
        return None
    power = int(match[1] + (digits or "0"))
    # The real parser reads 64 bits, then keeps 32 of them.
    return (power + 2**31) % 2**32 - 2**31 if -LIMIT - 1 <= power <= LIMIT else None


def _problem(digits: str, suffix: str) -> str:
    if any(char.isspace() for char in suffix):
        return "blanks are not allowed"
    if suffix == "K":
        return "the suffix 'K' does not exist; write 'k' (1000) or 'Ki' (1024)"
    if not digits:
        return "it must start with a number, such as 2, 500m or 16Gi"
    known = " ".join(name for name in (*_DECIMAL, *_BINARY) if name)
    return f"unknown suffix {suffix[:_SHOWN]!r}; write one of {known}, or an exponent such as e3"
