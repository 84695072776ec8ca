"""Reads the price table of the installation, again whenever its file has changed.

An invalid table never stops the scheduler: there are no prices then, the log has one line, and
``GET /cost`` has the problem.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

import structlog

from scheduler.model.cost.prices import NO_PRICES, PriceTable, PriceTableError, parse_prices

#: A ConfigMap is not larger.
BYTES_MAX: Final = 1024 * 1024

log = structlog.get_logger("costs")


class PriceTableReader:
    """The table in a file; without a path there are no prices."""

    def __init__(self, path: str) -> None:
        self._path = Path(path) if path else None
        self._content: bytes | None = None
        self._table = NO_PRICES
        self.problem = ""

    def read(self) -> PriceTable:
        """The table as the file has it now; the kubelet writes a changed ConfigMap in a minute."""
        if self._path is None:
            return NO_PRICES
        try:
            with self._path.open("rb") as file:
                content = file.read(BYTES_MAX)
        except FileNotFoundError:
            content = b""
        except OSError as error:
            self._content = None
            self._fail(error.strerror or str(error))
            return self._table
        if content != self._content:
            self._content = content
            self._parse(content)
        return self._table

    def _parse(self, content: bytes) -> None:
        try:
            self._table = parse_prices(content)
        except PriceTableError as error:
            self._fail(str(error))
            return
        self.problem = ""
        if content:
            log.info("price table read", currency=self._table.currency)

    def _fail(self, problem: str) -> None:
        if problem != self.problem:
            log.error("price table invalid", path=str(self._path), problem=problem)
        self._table = NO_PRICES
        self.problem = problem
