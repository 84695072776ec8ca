"""The loop between hand-written neighbours: a binder that a test ends, a recorder that listens."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from typing import cast

from scheduler.bind.binder import Binder
from scheduler.controllers.mig_config import NodeGate
from scheduler.controllers.mig_partition import PartitionController
from scheduler.controllers.migration.controller import MigrationHooks, NoMigration
from scheduler.controllers.node_avoidance import NodeAvoidance
from scheduler.decide.schedule_one import schedule_one
from scheduler.framework.budget import Budget
from scheduler.framework.decision import Decision, Placement
from scheduler.framework.pipeline import Pipeline
from scheduler.loop import Loop
from scheduler.model.crd.mig_partition import PartitionRequest
from scheduler.model.node import Node
from scheduler.model.pod import Pod
from scheduler.report.decisions.journal import Journal
from scheduler.report.events.recorder import Recorder
from scheduler.report.metrics import Metrics
from scheduler.state import event as ev
from scheduler.state.cache.cluster import Cluster
from scheduler.state.queue.scheduling_queue import SchedulingQueue
from scheduler.state.reservations import Reservations
from scheduler.watch.client import Client
from tests.builders import ANYBODY, as_bound

NOBODY = cast(Client, None)


class Clock:
    """Time stands still until a test moves it."""

    def __init__(self) -> None:
        self.now = 1000.0
        self.readings = 0

    def __call__(self) -> float:
        self.readings += 1
        return self.now


class Leader:
    """Leads as long as a test says so."""

    def __init__(self) -> None:
        self.is_leading = True

    def leads(self) -> bool:
        return self.is_leading


class FakeBinder(Binder):
    """Sends nothing: the test says how each Binding ended."""

    def __init__(self, emit: Callable[[ev.BindEnded], None]) -> None:
        super().__init__(NOBODY, emit, lambda: 1, lambda: True, asyncio.Event())
        self.sent: list[Placement] = []
        self.ids: list[str] = []
        self._started: asyncio.Queue[Placement] = asyncio.Queue()
        self._report = emit

    def start(self, placement: Placement, decision_id: str) -> None:
        self.sent.append(placement)
        self.ids.append(decision_id)
        self._started.put_nowait(placement)

    async def next(self) -> Placement:
        """The next Binding that the loop starts."""
        async with asyncio.timeout(10):
            return await self._started.get()

    def end(
        self, placement: Placement, outcome: ev.BindOutcome = ev.BindOutcome.BOUND, text: str = ""
    ) -> None:
        """The API server's answer."""
        self._report(ev.BindEnded(placement.pod.uid, outcome, text))


class Listener(Recorder):
    """Remembers what would be said to the pods' authors."""

    def __init__(self, clock: Clock) -> None:
        super().__init__(
            NOBODY,
            "gpu-scheduler",
            "test",
            clock,
            lambda: datetime(2026, 11, 27, tzinfo=UTC),
            lambda *_: None,
            asyncio.Event(),
        )
        self.said: list[tuple[str, str, str]] = []
        self.ids: list[str] = []
        self.forgotten: list[str] = []
        #: By pod: the node that stands on it as nominated.
        self.nominated: dict[str, str] = {}
        self._heard: asyncio.Queue[tuple[str, str, str]] = asyncio.Queue()

    def _say(self, pod: Pod, what: str, text: str) -> None:
        self.said.append((pod.name, what, text))
        self._heard.put_nowait((pod.name, what, text))

    def scheduled(self, pod: Pod, node_name: str, decision_id: str = "") -> None:
        self.ids.append(decision_id)
        self._say(pod, "Scheduled", node_name)

    def failed(
        self,
        pod: Pod,
        message: str,
        reason: str = "Unschedulable",
        decision_id: str = "",
        waits_for: str = "",
    ) -> None:
        self.ids.append(decision_id)
        self.nominated[pod.name] = waits_for
        self._say(pod, reason, message)

    def waits(self, pod: Pod, message: str, node_name: str) -> None:
        self.nominated[pod.name] = node_name

    def note(
        self, pod: Pod, reason: str, text: str, kind: str = "Warning", decision_id: str = ""
    ) -> None:
        self.ids.append(decision_id)
        self._say(pod, reason, text)

    def note_node(self, node: Node, reason: str, text: str) -> None:
        self.said.append((node.name, reason, text))

    def forget(self, uid: str) -> None:
        self.forgotten.append(uid)

    async def next(self) -> tuple[str, str, str]:
        """The next thing that is said: pod, reason, text."""
        async with asyncio.timeout(10):
            return await self._heard.get()


class Stage:
    """A loop and its neighbours."""

    def __init__(
        self,
        pipeline: Pipeline = ANYBODY,
        carving: Callable[[Cluster, SchedulingQueue, NodeAvoidance], PartitionController]
        | None = None,
        decider: Callable[[Cluster, Pod, Pipeline, Budget], Decision] = schedule_one,
        moves: Callable[[Cluster, SchedulingQueue, Reservations], MigrationHooks] = lambda *_: (
            NoMigration()
        ),
    ) -> None:
        self.clock = Clock()
        self.leader = Leader()
        self.recorder = Listener(self.clock)
        self.metrics = Metrics("gpu-scheduler")
        binders: list[FakeBinder] = []

        def make(emit: Callable[[ev.BindEnded], None]) -> FakeBinder:
            binders.append(FakeBinder(emit))
            return binders[0]

        self.journal = Journal(self.clock, "run")
        self.looked_up: list[Pod] = []
        self.loop = Loop(
            pipeline,
            make,
            self.recorder,
            self.metrics,
            self.leader,
            self.clock,
            self.journal,
            self.looked_up.append,
            moves=moves,
            carving=carving,
            decider=decider,
        )
        [self.binder] = binders

    def see(self, *events: ev.Event) -> None:
        """Events arrive."""
        for one in events:
            self.loop.enqueue(one)

    def sync(self) -> None:
        """Every cache is filled."""
        self.loop.is_synced = True
        self.loop.wake()

    def pass_time(self, seconds: float) -> None:
        """Time passes."""
        self.clock.now += seconds
        self.loop.wake()

    def confirm(self, placement: Placement) -> None:
        """The Binding went through, and the watch shows it."""
        self.binder.end(placement)
        self.see(ev.PodUpdated(as_bound(placement)))

    def sample(self, name: str, **labels: str) -> float:
        """The value of a metric."""
        return self.metrics.registry.get_sample_value(name, labels) or 0.0

    async def quiet(self) -> None:
        """Everything that can happen now has happened."""
        self.loop.wake()
        for _ in range(20):
            await asyncio.sleep(0)


@asynccontextmanager
async def playing(stage: Stage) -> AsyncIterator[Stage]:
    """The loop runs; a bug in it fails the test."""
    task = asyncio.create_task(stage.loop.run())
    try:
        yield stage
        assert not task.done(), task
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


class CutStage(Stage):
    """A loop with an operator that a test plays; ``asked`` is the newest word for each node."""

    def __init__(self) -> None:
        self.asked: dict[str, tuple[PartitionRequest, ...]] = {}
        super().__init__(carving=self._carving)

    def _carving(
        self, cluster: Cluster, queue: SchedulingQueue, doors: NodeGate
    ) -> PartitionController:
        return PartitionController(
            cluster, self.recorder, self.asked.__setitem__, lambda: 1_800_000_000.0
        )
