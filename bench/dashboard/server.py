"""The server's part: time, size and hold of each page, in memory and without HTTP.

For each page the processor time of one computation, the size of its JSON, and the longest time of
the processor in which the event loop ran nothing else: a decision would have waited for so long.
The cluster is that of ``bench/cluster_fixture``: half of its devices are held by one pod each.
Medians.
"""

from __future__ import annotations

import asyncio
import gc
import random
import statistics
import time
from typing import Any, Final

import msgspec

from bench.cluster_fixture import ClusterFixture, misfit, pod
from scheduler.config import Config
from scheduler.decide.schedule_one import schedule_one
from scheduler.framework.decision import Rejection
from scheduler.framework.pipeline import Pipeline
from scheduler.plugins import default_pipeline
from scheduler.report.dashboard.contents import PAGES, POD, PageKey
from scheduler.report.dashboard.feed import REST, DashboardFeed
from scheduler.report.dashboard.service import Dashboard
from scheduler.report.decisions.capacity import CapacityReport
from scheduler.report.decisions.cost import CostReport
from scheduler.report.decisions.journal import Journal
from scheduler.report.decisions.questions import QuestionQueue
from scheduler.report.metrics import Metrics
from scheduler.report.price_table import PriceTableReader
from scheduler.report.process import AnsweringProcess
from scheduler.sources import utc_now
from scheduler.state.cache.cluster import Cluster
from scheduler.state.queue.requeue_conditions import requeue_condition
from scheduler.state.queue.scheduling_queue import SchedulingQueue
from scheduler.state.reservations import Reservations
from scheduler.state.snapshot import ClusterSnapshot, take

IDENTITY: Final = "gpu-scheduler-0_0"


class Leading:
    """The election: this process leads."""

    epoch: int | None = 1
    holder = IDENTITY
    led_since: float | None = 0.0

    def leads(self) -> bool:
        """Whether this process leads."""
        return True


class World:
    """The state of a scheduler whose pods wait after one decision each."""

    def __init__(self, nodes: int, waiting: int) -> None:
        fixture = ClusterFixture(nodes, random.Random(f"{nodes}"))
        self.cluster: Cluster = fixture.cluster
        self.pipeline: Pipeline = default_pipeline()
        self.queue = SchedulingQueue()
        self.journal = Journal(time.monotonic, "bench")
        self._changes = 0
        for _ in range(waiting):
            newcomer = fixture.next(lambda rng, number: pod(number, misfit(rng)))
            self.cluster.upsert_pod(newcomer)
            self.queue.add(newcomer, time.monotonic())
            self._decide()

    @property
    def generation(self) -> int:
        """Every reading is a change, so that no page counts as unchanged."""
        self._changes += 1
        return self._changes

    def state(self) -> ClusterSnapshot:
        """The whole state as one value."""
        return take(self.cluster, self.queue, Reservations(), self._changes, time.monotonic())

    def _decide(self) -> None:
        now = time.monotonic()
        entry = self.queue.pop(now)
        assert entry is not None, "it was added"
        decision = schedule_one(self.cluster, entry.pod, self.pipeline)
        assert isinstance(decision, Rejection), "no node fits"
        record = self.journal.record(entry, decision, self, now)
        main = decision.diagnosis.summary.main
        entry.code, entry.message = main.name if main is not None else "", record.message
        self.queue.add_unschedulable(entry, requeue_condition(decision.diagnosis, ""), now)


class Figures(msgspec.Struct, frozen=True):
    """One computation of a page."""

    took_ms: float
    held_ms: float
    kib: float


async def measure(feed: DashboardFeed, key: PageKey) -> Figures:
    """Compute a page once, beside a task that runs whenever it may."""
    gaps: list[float] = []

    async def run_always() -> None:
        while True:
            # Processor time: other programs of a shared machine do not count.
            started = time.thread_time()
            await asyncio.sleep(0)
            gaps.append(time.thread_time() - started)

    other = asyncio.create_task(run_always())
    await asyncio.sleep(0)
    used = time.process_time()
    body = await feed.answer(key)
    used = time.process_time() - used
    await asyncio.sleep(0)
    other.cancel()
    return Figures(used * 1e3, max(gaps) * 1e3, len(body) / 1024)


def dashboard(world: World) -> Dashboard:
    """The dashboard of a process that leads."""
    clock, term = time.monotonic, Leading()
    capacity = CapacityReport(world, term.leads, clock, utc_now)
    costs = CostReport(world, PriceTableReader(""), term.leads, utc_now)
    process = AnsweringProcess(
        config=Config(),
        identity=IDENTITY,
        context=world,
        journal=world.journal,
        leadership=term,
        metrics=Metrics("gpu-scheduler"),
        capacity=capacity,
        costs=costs,
        clock=clock,
        wall=utc_now,
        questions=QuestionQueue(),
    )
    return Dashboard(process, (), lambda: True)


async def rounds(world: World, count: int) -> dict[str, dict[str, float]]:
    """The medians of each page."""
    feed = dashboard(world).feed
    waits = next(iter(world.queue.entries())).pod
    found: dict[str, dict[str, float]] = {}
    for page in PAGES:
        key = PageKey(page, waits.namespace, waits.name) if page == POD else PageKey(page)
        await measure(feed, key)
        figures = [await measure(feed, key) for _ in range(count)]
        found[page] = {
            name: round(statistics.median(getattr(one, name) for one in figures), 2)
            for name in Figures.__struct_fields__
        }
    return found


def server_part(nodes: int, waiting: int, count: int) -> dict[str, Any]:
    """Measure, print a table, and return the figures."""
    world = World(nodes, waiting)
    gc.freeze()
    pages = asyncio.run(rounds(world, count))
    for page, one in pages.items():
        print(
            f"{page:9} {one['took_ms']:8.1f} ms   held {one['held_ms']:6.2f} ms"
            f"   {one['kib']:8.1f} KiB"
        )
    return {
        "nodes": nodes,
        "pods": len(world.cluster.pods),
        "waiting": waiting,
        "share_max": round(1 / (1 + REST), 3),
        "pages": pages,
    }
