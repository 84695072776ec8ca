"""Progress of long steps: title, elapsed time and estimated rest.

On a terminal one line is rewritten a few times per second. Elsewhere a line is written at the
start, every twenty seconds, and at the end. A closed stream does not fail a step.
"""

from __future__ import annotations

import contextlib
import shutil
import sys
import time
from collections.abc import Callable, Iterator
from typing import TextIO

REFRESH_S = 0.2
LINE_EVERY_S = 20.0
#: Below this share of the work the estimate comes from the table instead of the pace.
PACE_FROM = 0.05


class Step:
    """One long step."""

    def __init__(self, progress: Progress, title: str, expected_s: float | None) -> None:
        self._progress = progress
        self._title = title
        self._expected_s = expected_s
        self._started = self._shown = progress.now()
        self.done = 0
        self.total = 0

    def tick(self) -> None:
        """Show the progress if the interval has passed."""
        now = self._progress.now()
        every = REFRESH_S if self._progress.is_terminal else LINE_EVERY_S
        if now - self._shown >= every:
            self._shown = now
            self._progress.show(self.line())

    def line(self) -> str:
        """The progress as a line."""
        elapsed = self.elapsed_s()
        words = [self._title, duration(elapsed)]
        left = self.left_s(elapsed)
        if left is not None:
            words.append(f"about {duration(left)} left" if left >= 1 else "nearly done")
        # At the end, because a narrow terminal truncates the line.
        if self.total:
            words.append(f"{min(self.done, self.total)} of {self.total} packages")
        return ", ".join(words)

    def elapsed_s(self) -> float:
        """The elapsed time."""
        return self._progress.now() - self._started

    def left_s(self, elapsed: float) -> float | None:
        """The estimated rest: by the pace if known, else by the table."""
        share = min(self.done / self.total, 1.0) if self.total else 0.0
        if share >= PACE_FROM:
            return elapsed * (1 - share) / share
        if self._expected_s is None:
            return None
        return max(self._expected_s - elapsed, 0.0)


class Progress:
    """Writes the steps to a stream."""

    def __init__(
        self, stream: TextIO | None = None, now: Callable[[], float] = time.monotonic
    ) -> None:
        self._stream = stream if stream is not None else sys.stderr
        self.now = now
        self.is_terminal = self._stream.isatty()

    def begin(self, title: str, expected_s: float | None = None) -> Step:
        """Announce a step without a line at its end."""
        step = Step(self, title, expected_s)
        self.show(step.line())
        return step

    @contextlib.contextmanager
    def step(self, title: str, expected_s: float | None = None) -> Iterator[Step]:
        """Announce a step, and print its duration at the end."""
        step = self.begin(title, expected_s)
        word = "failed"
        try:
            yield step
            word = "done"
        finally:
            self.say(f"{title}: {word} after {duration(step.elapsed_s())}")

    def show(self, line: str) -> None:
        """Show a line that a later one may replace."""
        if self.is_terminal:
            width = shutil.get_terminal_size().columns - 1
            self._write(f"\r\x1b[2K{line[:width]}")
        else:
            self._write(f"{line}\n")

    def say(self, line: str) -> None:
        """Write a line that stays."""
        self._write(f"\r\x1b[2K{line}\n" if self.is_terminal else f"{line}\n")

    def _write(self, text: str) -> None:
        with contextlib.suppress(OSError, ValueError):
            self._stream.write(text)
            self._stream.flush()


def duration(seconds: float) -> str:
    """Return a duration in words.

    >>> duration(42.4), duration(135)
    ('42 s', '2 min 15 s')
    """
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest} s" if minutes else f"{rest} s"


class Patience:
    """Reports that this run waits for another run's build."""

    def __init__(self, progress: Progress) -> None:
        self._progress = progress
        self._step: Step | None = None

    def __call__(self) -> None:
        if self._step is None:
            self._step = self._progress.begin("waiting for another run that builds the programs")
        time.sleep(REFRESH_S)
        self._step.tick()
