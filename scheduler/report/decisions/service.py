"""Everything that explains decisions, put together: journal, its file, and the decisions API.

None of it may end the scheduler: a port or a file that cannot be had is said in the log.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterator
from datetime import datetime
from importlib import metadata
from pathlib import Path
from typing import Any, Final, Protocol

import structlog
from aiohttp import web

from scheduler.config import Config
from scheduler.httpserver import web_app
from scheduler.httpserver.connection_metrics import ConnectionMetrics, uncounted
from scheduler.httpserver.limits import DECISIONS
from scheduler.httpserver.sockets import listen
from scheduler.report.decisions.api import DecisionsHandler
from scheduler.report.decisions.api_types import API_VERSION, Leader
from scheduler.report.decisions.journal import DecisionContext, Journal
from scheduler.report.decisions.journal_file import JournalFile
from scheduler.report.decisions.renderer import DecisionRenderer
from scheduler.report.decisions.state_capture import StateCapture

#: Enough to tell one process's decisions from another's.
RUN_LENGTH = 6
#: Whoever waits for a decision does not hold up the end.
SHUTDOWN_S = 0.5

_UNCOUNTED: Final = uncounted("decisions")

log = structlog.get_logger("decisions")


class Term(Protocol):
    """What is asked of the election."""

    epoch: int | None

    def leads(self) -> bool:
        """Whether this process leads now."""


class DecisionService:
    """One process's journal and whoever reads it."""

    def __init__(
        self,
        config: Config,
        identity: str,
        clock: Callable[[], float],
        wall: Callable[[], datetime],
        tally: ConnectionMetrics = _UNCOUNTED,
    ) -> None:
        self._config = config
        self._identity = identity
        self._clock = clock
        self._wall = wall
        self._tally = tally
        self._retelling = DecisionRenderer(clock, wall)
        run = identity[-RUN_LENGTH:]
        self.journal = Journal(clock, run, config.journal.entries)

    def stages(
        self, world: DecisionContext, term: Term
    ) -> Iterator[tuple[str, Coroutine[Any, Any, None]]]:
        """What has to run beside the loop, by name."""
        config = self._config
        if config.decisions_address:
            desk = DecisionsHandler(
                world,
                self.journal,
                StateCapture(world, self.journal, config, program(), self._clock, self._wall),
                self._retelling,
                lambda: self._leader(term),
            )
            yield "decisions", serve(desk.application(), config.decisions_address, self._tally)
        if config.journal.path:
            file = JournalFile(self.journal, self._retelling, Path(config.journal.path))
            yield "journal", file.run()

    def _leader(self, term: Term) -> Leader:
        return Leader(
            api_version=API_VERSION,
            identity=self._identity,
            leads=term.leads(),
            epoch=term.epoch,
        )


async def serve(app: web.Application, address: str, tally: ConnectionMetrics = _UNCOUNTED) -> None:
    """Listen until cancelled; a port that is taken is no reason to stop scheduling."""
    try:
        listener = listen(address)
    except OSError as error:
        log.error("the decisions API is off", address=address, problem=error.strerror or str(error))
        await asyncio.Event().wait()
        return
    async with web_app.serving(app, listener, DECISIONS, tally, SHUTDOWN_S):
        await asyncio.Event().wait()


def program() -> str:
    """Name and version of what runs."""
    try:
        return f"gpu-scheduler {metadata.version('gpu-scheduler')}"
    except metadata.PackageNotFoundError:
        return "gpu-scheduler"
