"""Random draws that are the same on every version of Python: all of them come from ``random()``."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import TypeVar

T = TypeVar("T")


class Draws:
    """A stream of draws from one seed."""

    def __init__(self, seed: str) -> None:
        # The seed is a text: every version hashes texts in the same way.
        self._random = random.Random(seed).random

    def chance(self, probability: float) -> bool:
        """True with this probability."""
        return self._random() < probability

    def number(self, first: int, last: int) -> int:
        """A number between two numbers, which can be drawn too."""
        return first + int(self._random() * (last - first + 1))

    def one(self, values: Sequence[T]) -> T:
        """One of these."""
        return values[self.number(0, len(values) - 1)]

    def some(self, values: Sequence[T], count: int) -> list[T]:
        """So many different ones of these, in their order."""
        left = list(range(len(values)))
        drawn = sorted(left.pop(self.number(0, len(left) - 1)) for _ in range(count))
        return [values[index] for index in drawn]
