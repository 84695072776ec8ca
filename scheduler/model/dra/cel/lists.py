"""Functions of lists in CEL, as in ``k8s.io/apiserver/pkg/cel/library/lists.go``.

An error of an expression is a ValueError, or the TypeError of a comparison.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any


def includes(target: Any, item: Any) -> bool:
    """Whether a list has the element; whether another value is equal to it."""
    return _index(target if isinstance(target, list) else [target], item) >= 0


def index_of(values: Sequence[Any], item: Any) -> int:
    """The first index of an element, or -1."""
    return _index(values, item)


def last_index_of(values: Sequence[Any], item: Any) -> int:
    """The last index of an element, or -1."""
    behind = _index(values[::-1], item)
    return -1 if behind < 0 else len(values) - 1 - behind


def is_sorted(values: Sequence[Any]) -> bool:
    """Whether no element is above the next one."""
    return all(one <= following for one, following in pairwise(values))


def total(values: Sequence[Any]) -> Any:
    """The sum of numbers; 0 without elements."""
    if any(isinstance(one, bool) or not isinstance(one, int | float) for one in values):
        raise ValueError("no such overload: only numbers have a sum")
    return sum(values)


def minimum(values: Sequence[Any]) -> Any:
    """The least element."""
    return min(_filled(values, "min"))


def maximum(values: Sequence[Any]) -> Any:
    """The greatest element."""
    return max(_filled(values, "max"))


def _filled(values: Sequence[Any], function: str) -> Sequence[Any]:
    if not values:
        raise ValueError(f"{function} called on empty list")
    return values


def _index(values: Sequence[Any], item: Any) -> int:
    """As CEL compares: 1 is equal to 1.0, but not to true."""
    is_bool = isinstance(item, bool)
    return next(
        (
            index
            for index, one in enumerate(values)
            if isinstance(one, bool) == is_bool and one == item
        ),
        -1,
    )
