"""A progress bar for input that takes longer than a second, on terminals only."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING, TextIO

if TYPE_CHECKING:
    from rich.progress import Progress

QUIET_S = 1.0


class ProgressBar:
    """Shows the progress of reading and deciding; hidden for a second, and without a terminal."""

    def __init__(self, stream: TextIO, clock: Callable[[], float] = time.monotonic) -> None:
        self._stream = stream
        self._clock = clock
        self._started = clock()
        self._progress: Progress | None = None
        self._documents = 0
        self._pods = 0

    def __enter__(self) -> ProgressBar:
        return self

    def __exit__(self, *_: object) -> None:
        if self._progress is not None:
            self._progress.stop()

    def read(self) -> None:
        """Count a document that was read."""
        self._documents += 1
        self._show(f"reading, {self._documents} documents", None)

    def decided(self, total: int) -> None:
        """Count a decided pod, of ``total``."""
        self._pods += 1
        self._show("deciding", total)

    def _show(self, what: str, total: int | None) -> None:
        if not self._stream.isatty() or self._clock() - self._started < QUIET_S:
            return
        if self._progress is None:
            self._progress = _progress(self._stream)
            self._progress.start()
            self._progress.add_task(what)
        task = self._progress.task_ids[0]
        self._progress.update(task, description=what, total=total, completed=self._pods)


def _progress(stream: TextIO) -> Progress:
    # A late import, because most runs show no bar and rich.progress is slow to import.
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

    return Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        console=Console(file=stream),
        transient=True,
    )
