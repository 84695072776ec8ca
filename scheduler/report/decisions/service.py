"""The tasks that explain decisions: the decisions API and the journal file.

Neither may end the scheduler: a port or a file that is not available is logged.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterator
from pathlib import Path
from typing import Any, Final

import structlog
from aiohttp import web

from scheduler.config import Config
from scheduler.httpserver import web_app
from scheduler.httpserver.build_info import program
from scheduler.httpserver.connection_metrics import ConnectionMetrics, uncounted
from scheduler.httpserver.limits import DECISIONS
from scheduler.httpserver.sockets import listen
from scheduler.report.dashboard.service import Dashboard
from scheduler.report.decisions.api import DecisionsHandler
from scheduler.report.decisions.api_types import API_VERSION, Leader
from scheduler.report.decisions.journal import Journal
from scheduler.report.decisions.journal_file import JournalFile
from scheduler.report.decisions.renderer import DecisionRenderer
from scheduler.report.decisions.state_capture import StateCapture
from scheduler.report.process import AnsweringProcess

#: Number of characters of the identity in the decision ids of this process.
RUN_LENGTH = 6
#: A client that waits for a decision does not delay the end of the process.
SHUTDOWN_S = 0.5

_UNCOUNTED: Final = uncounted("decisions")

log = structlog.get_logger("decisions")


def decision_tasks(
    process: AnsweringProcess, dashboard: Dashboard | None = None
) -> Iterator[tuple[str, Coroutine[Any, Any, None]]]:
    """The tasks that run beside the loop, by name."""
    config, journal, leadership = process.config, process.journal, process.leadership
    clock, wall = process.clock, process.wall
    renderer = DecisionRenderer(clock, wall)
    if config.decisions_address:
        handler = DecisionsHandler(
            process.context,
            journal,
            StateCapture(process.context, journal, config, program(), clock, wall),
            process.capacity,
            process.costs,
            renderer,
            lambda: Leader(
                api_version=API_VERSION,
                identity=process.identity,
                leads=leadership.leads(),
                epoch=leadership.epoch,
                scheduler=config.scheduler_name,
            ),
            process.questions,
        )
        connections = process.metrics.connections.of("decisions")
        app = handler.application()
        if dashboard is not None:
            dashboard.add_to(app)
            yield from dashboard.tasks()
        yield "decisions", serve(app, config.decisions_address, connections)
    if config.journal.path:
        file = JournalFile(journal, renderer, Path(config.journal.path))
        yield "journal", file.run()


def journal_of(config: Config, identity: str, clock: Callable[[], float]) -> Journal:
    """The journal of one process, with decision ids of its own."""
    return Journal(clock, identity[-RUN_LENGTH:], config.journal.entries)


async def serve(app: web.Application, address: str, tally: ConnectionMetrics = _UNCOUNTED) -> None:
    """Listen until cancelled; scheduling continues if the port is not available."""
    try:
        listener = listen(address)
    except OSError as error:
        log.error(
            "decisions API not available", address=address, problem=error.strerror or str(error)
        )
        await asyncio.Event().wait()
        return
    async with web_app.serving(app, listener, DECISIONS, tally, SHUTDOWN_S):
        await asyncio.Event().wait()
