"""The dashboard of one process: its parts, its routes, and its tasks."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Iterator, Sequence
from typing import Any

from aiohttp import web

from scheduler.report.dashboard.contents import PageContents
from scheduler.report.dashboard.feed import DashboardFeed
from scheduler.report.dashboard.pages.history import History
from scheduler.report.dashboard.process_facts import Cache, ProcessFacts
from scheduler.report.dashboard.routes import DashboardRoutes
from scheduler.report.dashboard.sampler import Sampler
from scheduler.report.decisions.pod_answers import PodAnswers
from scheduler.report.decisions.renderer import DecisionRenderer
from scheduler.report.process import AnsweringProcess


class Dashboard:
    """The dashboard of one process, with the caches of its watches."""

    def __init__(
        self, process: AnsweringProcess, caches: Sequence[Cache], is_synced: Callable[[], bool]
    ) -> None:
        clock, wall, questions = process.clock, process.wall, process.questions
        history = History()
        contents = PageContents(
            process,
            PodAnswers(
                process.context,
                process.journal,
                DecisionRenderer(clock, wall),
                process.leadership.leads,
            ),
            ProcessFacts(process, caches, started=wall()),
            history,
            is_synced,
        )
        self.feed = DashboardFeed(contents, questions, process.config.scheduler_name, clock, wall)
        self._routes = DashboardRoutes(self.feed)
        self.sampler = Sampler(process.capacity, history, contents, questions, wall)

    def add_to(self, app: web.Application) -> None:
        """Add its routes to the application of the decisions API."""
        self._routes.add_to(app)

    def tasks(self) -> Iterator[tuple[str, Coroutine[Any, Any, None]]]:
        """The tasks that run beside the loop, by name."""
        yield "dashboard", self.feed.run()
        yield "dashboard history", self.sampler.run()
