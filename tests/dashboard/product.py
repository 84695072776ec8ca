"""The product's loop, journal and HTTP server with the dashboard, on a loopback port.

Only what the API server would do is played: objects arrive, and Bindings succeed.
"""

from __future__ import annotations

import asyncio
import socket
import time
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from typing import Final

import aiohttp

from scheduler.config import Config, Maps
from scheduler.model.cost.prices import PriceTable, parse_prices
from scheduler.report.dashboard.service import Dashboard
from scheduler.report.decisions.capacity import CapacityReport
from scheduler.report.decisions.cost import CostReport
from scheduler.report.decisions.journal import Journal
from scheduler.report.decisions.questions import QuestionQueue
from scheduler.report.decisions.service import decision_tasks
from scheduler.report.metrics import Metrics
from scheduler.report.process import AnsweringProcess
from scheduler.state import event as ev
from tests.builders import as_bound
from tests.dashboard.example_cluster import Arrival
from tests.dashboard_world import Watched
from tests.patience import PATIENCE_S
from tests.unit.loop.loop_world import Clock, Leader, Listener, wire

#: The time of the cluster's clock when the history ends.
NOW: Final = datetime(2026, 11, 30, 12, tzinfo=UTC)
IDENTITY: Final = "gpu-scheduler-7d9c5b-x2k4q_5f0c7a31"
OTHER: Final = "gpu-scheduler-7d9c5b-q8w2z_91aa02bd"
HOUR_S: Final = 3600.0
PRICES: Final = parse_prices(
    """
currency: EUR
default: 1.10
models: {H200: 3.60, H100: 2.40, A100-80GB: 1.80, A100-40GB: 1.30}
"""
)


class RunningClock(Clock):
    """Goes on by itself; a test can put it forward."""

    def __init__(self) -> None:
        super().__init__()
        self._started = time.monotonic()

    def __call__(self) -> float:
        return self.now + time.monotonic() - self._started


class Election(Leader):
    """The election as the dashboard sees it."""

    def __init__(self, clock: Clock) -> None:
        super().__init__(epoch=218)
        self._since = clock()

    @property
    def holder(self) -> str:
        return IDENTITY if self.is_leading else OTHER

    @property
    def led_since(self) -> float | None:
        return self._since if self.is_leading else None


WATCHES: Final = tuple(
    Watched(kind)
    for kind in ("nodes", "pods", "namespaces", "resourcequotas", "podmigrations", "migpartitions")
)


class ListPrices:
    """The price table of the example cluster."""

    problem = ""

    def read(self) -> PriceTable:
        return PRICES


class Product:
    """One replica that leads; ``age_h`` is how long its clock runs before ``NOW``."""

    def __init__(self, age_h: float = 0.0) -> None:
        self.clock = RunningClock()
        self._epoch = NOW - timedelta(hours=age_h) - timedelta(seconds=self.clock())
        self.election = Election(self.clock)
        self.metrics = Metrics("gpu-scheduler")
        self.recorder = Listener(self.clock, self.metrics)
        self.journal = Journal(self.clock, "7f3a2c")
        self.loop, self.inbox, self.binder, self.gate, _, _ = wire(
            self.recorder, self.journal, self.election, self.metrics, self.clock
        )
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.address = f"127.0.0.1:{probe.getsockname()[1]}"
        config = Config(maps=Maps(allow="all"), decisions_address=self.address)
        questions = QuestionQueue()
        capacity = CapacityReport(self.loop, self.election.leads, self.clock, self.wall)
        costs = CostReport(self.loop, ListPrices(), self.election.leads, self.wall)
        process = AnsweringProcess(
            config=config,
            identity=IDENTITY,
            context=self.loop,
            journal=self.journal,
            leadership=self.election,
            metrics=self.metrics,
            capacity=capacity,
            costs=costs,
            clock=self.clock,
            wall=self.wall,
            questions=questions,
        )
        self.dashboard = Dashboard(process, WATCHES, lambda: self.gate.is_synced)
        self._tasks = decision_tasks(process, self.dashboard)

    @property
    def url(self) -> str:
        """Where the pages are."""
        return f"http://{self.address}/dashboard"

    def wall(self) -> datetime:
        """The time of the cluster."""
        return self._epoch + timedelta(seconds=self.clock())

    def see(self, *events: ev.Event) -> None:
        """Events of the watches arrive."""
        for one in events:
            self.inbox.enqueue(one)

    async def settle(self) -> None:
        """Wait until the loop has nothing to do, and let every started Binding succeed."""
        done = 0
        while True:
            self.inbox.wake()
            for _ in range(20):
                await asyncio.sleep(0)
            if done == len(self.binder.sent) and not self.loop.queue.sizes()["active"]:
                return
            for placement in self.binder.sent[done:]:
                self.binder.end(placement)
                self.see(ev.PodUpdated(as_bound(placement)))
            done = len(self.binder.sent)

    async def play(self, arrivals: Iterable[Arrival], age_h: float, step_h: float) -> None:
        """Let the events of the last hours arrive in their order, with a sample after each step."""
        left = list(arrivals)
        while True:
            due = [one.event for one in left if one.age_h >= age_h]
            left = left[len(due) :]
            self.see(*due)
            await self.settle()
            await self.dashboard.sampler.sample()
            if age_h <= 0:
                return
            step = min(step_h, age_h)
            age_h = 0.0 if age_h - step < step_h / 2 else age_h - step
            self.clock.now += step * HOUR_S

    @asynccontextmanager
    async def running(self) -> AsyncIterator[Product]:
        """The loop and the server run; a bug in one of them fails the test."""
        self.gate.sync()
        tasks = [asyncio.create_task(self.loop.run())]
        for name, work in self._tasks:
            if name == "dashboard history":  # ``play`` takes the samples
                work.close()
            else:
                tasks.append(asyncio.create_task(work))
        try:
            await self._answers()
            yield self
            assert not any(task.done() for task in tasks), tasks
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _answers(self) -> None:
        async with aiohttp.ClientSession() as session, asyncio.timeout(PATIENCE_S):
            while True:
                try:
                    async with session.get(f"http://{self.address}/leader"):
                        return
                except aiohttp.ClientConnectionError:
                    await asyncio.sleep(0.01)
