"""The dashboard of one process: its parts, its routes, and its tasks."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Iterator, Sequence
from datetime import datetime
from typing import Any

from aiohttp import web

from scheduler.config import Config
from scheduler.report.dashboard.contents import PageContents
from scheduler.report.dashboard.feed import DashboardFeed
from scheduler.report.dashboard.leadership import Leadership
from scheduler.report.dashboard.pages.history import History
from scheduler.report.dashboard.process_facts import Cache, ProcessFacts
from scheduler.report.dashboard.routes import DashboardRoutes
from scheduler.report.dashboard.sampler import Sampler
from scheduler.report.decisions.capacity import CapacityReport
from scheduler.report.decisions.cost import CostReport
from scheduler.report.decisions.journal import DecisionContext, Journal
from scheduler.report.decisions.pod_answers import PodAnswers
from scheduler.report.decisions.questions import QuestionQueue
from scheduler.report.decisions.renderer import DecisionRenderer
from scheduler.report.metrics import Metrics


class Dashboard:
    """The dashboard of one process; ``clock`` is the loop's, ``wall`` the wall clock."""

    def __init__(
        self,
        config: Config,
        identity: str,
        context: DecisionContext,
        journal: Journal,
        leadership: Leadership,
        metrics: Metrics,
        capacity: CapacityReport,
        costs: CostReport,
        caches: Sequence[Cache],
        is_synced: Callable[[], bool],
        clock: Callable[[], float],
        wall: Callable[[], datetime],
        questions: QuestionQueue,
    ) -> None:
        renderer = DecisionRenderer(clock, wall)
        history = History()
        contents = PageContents(
            context,
            capacity,
            costs,
            PodAnswers(context, journal, renderer, leadership.leads),
            ProcessFacts(
                *(config, identity, context, journal, leadership, caches, metrics, clock),
                started=wall(),
            ),
            history,
            leadership,
            is_synced,
            clock,
            wall,
        )
        self.feed = DashboardFeed(contents, questions, config.scheduler_name, clock, wall)
        self._routes = DashboardRoutes(self.feed)
        self.sampler = Sampler(capacity, history, contents, questions, wall)

    def add_to(self, app: web.Application) -> None:
        """Add its routes to the application of the decisions API."""
        self._routes.add_to(app)

    def tasks(self) -> Iterator[tuple[str, Coroutine[Any, Any, None]]]:
        """The tasks that run beside the loop, by name."""
        yield "dashboard", self.feed.run()
        yield "dashboard history", self.sampler.run()
