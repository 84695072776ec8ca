"""Quantities in CEL: bytes whose order is that of the amounts.

The functions are those of ``k8s.io/apiserver/pkg/cel/library/quantity.go``. An error of an
expression is a ValueError.
"""

from __future__ import annotations

from typing import Final

from scheduler.model.quantity import LIMIT, QuantityError, nano_value

_MARK: Final = b"q"
_ONE: Final = 10**9
#: Nano units are written with this offset, so that no amount is negative.
_OFFSET: Final = 10**45
_DIGITS: Final = 46


def quantity(text: str) -> bytes:
    """A quantity.

    >>> quantity("-1.5") < quantity("0") < quantity("100m") < quantity("1Ki")
    True
    """
    return _of(nano_value(text))


def is_quantity(text: str) -> bool:
    """Whether a text is a quantity."""
    try:
        nano_value(text)
    except QuantityError:
        return False
    return True


def add(value: bytes, other: bytes | int) -> bytes:
    """The sum of a quantity and a quantity, or a whole number."""
    return _of(_nano(value) + _amount(other))


def sub(value: bytes, other: bytes | int) -> bytes:
    """The difference of a quantity and a quantity, or a whole number."""
    return _of(_nano(value) - _amount(other))


def sign(value: bytes) -> int:
    """-1, 0 or 1."""
    amount = _nano(value)
    return (amount > 0) - (amount < 0)


def is_integer(value: bytes) -> bool:
    """Whether ``as_integer`` gives a number."""
    amount = _nano(value)
    return amount % _ONE == 0 and -LIMIT - 1 <= amount // _ONE <= LIMIT


def as_integer(value: bytes) -> int:
    """The amount as a whole number of 64 bits."""
    if not is_integer(value):
        raise ValueError("cannot convert value to integer")
    return _nano(value) // _ONE


def as_approximate_float(value: bytes) -> float:
    """The amount as a float."""
    return _nano(value) / _ONE


def _of(nano: int) -> bytes:
    if abs(nano) >= _OFFSET:
        raise ValueError("quantity out of range")
    return _MARK + b"%0*d" % (_DIGITS, nano + _OFFSET)


def _nano(value: bytes) -> int:
    if not value.startswith(_MARK):
        raise ValueError("no such overload: a quantity is expected")
    return int(value[1:]) - _OFFSET


def _amount(other: bytes | int) -> int:
    return other * _ONE if isinstance(other, int) else _nano(other)
