"""The time that a computation in parts takes, without what runs between its parts."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from scheduler.state.parts import Parts

Result = TypeVar("Result")


class Stopwatch:
    """Sums the time that parts take, without what runs between them."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self.spent_s = 0.0

    def timed(self, parts: Parts[Result]) -> Parts[Result]:
        """The same parts, timed."""
        while True:
            started = self._clock()
            try:
                steps = next(parts)
            except StopIteration as end:
                self._add(started)
                result: Result = end.value
                return result
            self._add(started)
            yield steps

    def _add(self, started: float) -> None:
        self.spent_s += self._clock() - started
