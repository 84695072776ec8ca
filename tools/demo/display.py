"""Prints the demo: a live table on a terminal, lines elsewhere."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from typing import Final

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.text import Text

from gpuctl.output import table
from tools.demo.expectations import Line
from tools.demo.observer import Observer

REFRESHES_PER_S: Final = 4


class Display:
    """The output of the demo."""

    def __init__(self, console: Console | None = None) -> None:
        self._console = console or Console(highlight=False)
        self._live: Live | None = None
        self._started = time.monotonic()
        self._printed: list[Line] = []

    def __enter__(self) -> Display:
        return self

    def __exit__(self, *_: object) -> None:
        self.freeze()

    def elapsed_s(self) -> float:
        """Seconds since the start of the demo."""
        return time.monotonic() - self._started

    def say(self, text: str) -> None:
        """Print a line above the live table."""
        line = f"[{self.elapsed_s():5.1f} s] {text}"
        if self._console.is_terminal:
            self._console.print(Text(line))
        else:
            print(line, flush=True)

    def print(self, answer: RenderableType) -> None:
        """Print a table above the live table."""
        if self._console.is_terminal:
            self._console.print(answer)
        else:
            table.show(answer)

    def show(self, lines: Sequence[Line], seen: Observer) -> None:
        """Update the live table, if there is one."""
        if self._console.is_terminal:
            if self._live is None:
                self._live = Live(
                    console=self._console, refresh_per_second=REFRESHES_PER_S, transient=True
                )
                self._live.start()
            self._live.update(picture(lines, seen))

    def settled(self, lines: Sequence[Line]) -> None:
        """Print the new lines of a finished step, if there is no live table."""
        if not self._console.is_terminal:
            for line in lines:
                if line not in self._printed:
                    print(f"          {_in_words(line)}", flush=True)
        self._printed = list(lines)

    def freeze(self) -> None:
        """End the live table."""
        if self._live is not None:
            self._live.stop()
            self._live = None


def picture(lines: Iterable[Line], seen: Observer) -> RenderableType:
    """The demo's table: pods, reasons of pending pods, nodes."""
    waiting = [row for row in seen.rows if row.node is None]
    return Group(pods(lines), *table.waiting(waiting), "", table.nodes(seen.usage))


def pods(lines: Iterable[Line]) -> RenderableType:
    """A row per group of equal pods."""
    rows = table.headed("PODS", "NODE", "TIER", "DEVICES", table.CUDA_HEADER)
    for line in lines:
        name = line.pods if line.count == 1 else f"{line.pods} x {line.count}"
        node = Text(line.node) if line.node else Text("waits", style="bold")
        cells = (line.tier, line.devices, line.cuda)
        rows.add_row(name, node, *(cell or table.NOTHING for cell in cells))
    return rows


def _in_words(line: Line) -> str:
    pods = line.pods if line.count == 1 else f"{line.pods}: {line.count} pods"
    if line.node is None:
        return f"{pods} wait: {line.reason or 'no decision yet'}"
    parts = [f"{pods} on {line.node}", line.tier, line.devices and f"devices {line.devices}"]
    parts.append(line.cuda and f"CUDA_VISIBLE_DEVICES={line.cuda}")
    return ", ".join(filter(None, parts))
