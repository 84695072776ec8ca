"""Computations in parts, between which the caller may do something else.

A part ends where the computation yields the number of steps that it took (``framework/budget``).
The state may change between two parts, so a part keeps nothing that a change makes invalid.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import TypeAlias, TypeVar

Result = TypeVar("Result")

Parts: TypeAlias = Generator[int, None, Result]


def finish(parts: Parts[Result]) -> Result:
    """Do all parts without a pause."""
    while True:
        try:
            next(parts)
        except StopIteration as end:
            result: Result = end.value
            return result
