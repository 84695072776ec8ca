"""The journal on disk: one decision per line (JSON), written asynchronously.

Off unless the configuration names a file. Rotation limits its size: a full file becomes
``<file>.1``, and the former one is deleted. It never delays or ends scheduling: a failed write is
logged once, and counted in the next line that is written.
"""

from __future__ import annotations

import asyncio
from pathlib import Path

import msgspec
import structlog

from scheduler.report.decisions.journal import Journal, Record
from scheduler.report.decisions.renderer import DecisionRenderer

BYTES_MAX = 64 * 1024 * 1024
WRITE_EVERY_S = 1.0
#: Maximum number of lines rendered before other tasks run.
LINES_MAX = 200
#: Maximum number of node rejections in one line; the message counts them all.
ROWS_MAX = 100

log = structlog.get_logger("journal")


class JournalFile:
    """Writes a journal into a file."""

    def __init__(
        self, journal: Journal, renderer: DecisionRenderer, path: Path, bytes_max: int = BYTES_MAX
    ) -> None:
        self._journal = journal
        self._renderer = renderer
        self._path = path
        self._bytes_max = bytes_max
        self._written = journal.written
        self._lost = 0
        self._is_broken = False

    async def run(self) -> None:
        """Write until cancelled; the remaining decisions are written then."""
        try:
            while True:
                await asyncio.sleep(WRITE_EVERY_S)
                await self.catch_up()
        finally:
            records = self._journal.after(self._written)
            self._write(self._lines(records), len(records))

    async def catch_up(self) -> None:
        """Write every decision that is not written yet."""
        while records := self._journal.after(self._written)[:LINES_MAX]:
            await asyncio.to_thread(self._write, self._lines(records), len(records))

    def _lines(self, records: list[Record]) -> bytes:
        if not records:
            return b""
        self._lost += records[0].number - self._written - 1
        self._written = records[-1].number
        lines = [msgspec.json.encode(self._renderer.decided(r, ROWS_MAX)) for r in records]
        if self._lost:
            lines.insert(0, msgspec.json.encode({"lost": self._lost}))
        return b"\n".join(lines) + b"\n"

    def _write(self, lines: bytes, count: int) -> None:
        if not lines:
            return
        try:
            if self._path.exists() and self._path.stat().st_size + len(lines) > self._bytes_max:
                self._path.replace(self._path.with_name(self._path.name + ".1"))
            with self._path.open("ab") as file:
                file.write(lines)
        except OSError as error:
            self._lost += count
            if not self._is_broken:
                log.error("journal file not written", file=str(self._path), problem=str(error))
            self._is_broken = True
        else:
            self._lost = 0
            self._is_broken = False
