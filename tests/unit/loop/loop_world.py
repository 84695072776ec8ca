"""The loop between test doubles: a binder that a test ends, shells that keep what they are sent."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from typing import Any, NamedTuple, cast

from scheduler.bind.binder import Binder
from scheduler.controllers.dispatch import ActionRunner, EventRoutes, Shells
from scheduler.controllers.leadership.gate import LeaderGate
from scheduler.controllers.migration.controller import NoMigration
from scheduler.controllers.table import (
    DEFAULT,
    NOT_FOR_WAITING_PODS,
    Controllers,
    ControllerSettings,
)
from scheduler.decide.schedule_one import schedule_one
from scheduler.framework.decision import Decision, Placement
from scheduler.framework.pipeline import Pipeline
from scheduler.loop import Loop
from scheduler.model.actions import Action, LookUpPod, RequestPartitions
from scheduler.model.crd.mig_partition import PartitionRequest
from scheduler.model.node import Node
from scheduler.model.pods.pod import Pod
from scheduler.report.decisions.journal import Journal
from scheduler.report.events.recorder import Recorder
from scheduler.report.metrics import Metrics
from scheduler.state import event as ev
from scheduler.state.scheduler_state import empty_state
from scheduler.watch.client import Client
from scheduler.watch.inbox import Inbox
from tests.builders import ALLOW_ALL_MAPS, as_bound
from tests.patience import PATIENCE_S

NO_CLIENT = cast(Client, None)
#: The wall clock of these tests.
WALL = 1_800_000_000.0


class Clock:
    """Time stands still until a test advances it."""

    def __init__(self) -> None:
        self.now = 1000.0
        self.readings = 0

    def __call__(self) -> float:
        self.readings += 1
        return self.now


class Leader:
    """An election without a lease: a test sets the leader."""

    def __init__(self, epoch: int | None = 1) -> None:
        self.is_leading = True
        self.is_enabled = False
        self.epoch = epoch

    def leads(self) -> bool:
        return self.is_leading

    async def next_term(self, epoch: int | None) -> float:
        await asyncio.Event().wait()
        return 0.0


class FakeBinder(Binder):
    """Sends nothing: the test sets how each Binding ended."""

    def __init__(self, inbox: Inbox) -> None:
        super().__init__(NO_CLIENT, inbox, Leader(), asyncio.Event())
        self.sent: list[Placement] = []
        self.ids: list[str] = []
        self._started: asyncio.Queue[Placement] = asyncio.Queue()

    def start(self, placement: Placement, decision_id: str) -> None:
        self.sent.append(placement)
        self.ids.append(decision_id)
        self._started.put_nowait(placement)

    async def next(self) -> Placement:
        """The next Binding that the loop starts."""
        async with asyncio.timeout(PATIENCE_S):
            return await self._started.get()

    def end(
        self, placement: Placement, outcome: ev.BindOutcome = ev.BindOutcome.BOUND, text: str = ""
    ) -> None:
        """The API server's answer."""
        self._inbox.enqueue(ev.BindEnded(placement.pod.uid, outcome, text))


class Listener(Recorder):
    """Keeps the events and conditions that would be written."""

    def __init__(self, clock: Clock, metrics: Metrics) -> None:
        super().__init__(
            NO_CLIENT,
            "gpu-scheduler",
            "test",
            clock,
            lambda: datetime(2026, 11, 27, tzinfo=UTC),
            metrics,
            asyncio.Event(),
        )
        self.said: list[tuple[str, str, str]] = []
        self.ids: list[str] = []
        self.forgotten: list[str] = []
        #: By pod: the node that stands on it as nominated.
        self.nominated: dict[str, str] = {}
        #: By pod: what its Binding waits for.
        self.waiting: dict[str, str] = {}
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
        self.waiting[pod.name] = message

    def note(
        self, pod: Pod, reason: str, text: str, kind: str = "Warning", decision_id: str = ""
    ) -> None:
        self.ids.append(decision_id)
        self._say(pod, reason, text)

    def preempted(self, pod: Pod, preemptor: Pod, node_name: str) -> None:
        self._say(pod, "Preempted", f"{preemptor.uid} {node_name}")

    def note_node(self, node: Node, reason: str, text: str) -> None:
        self.said.append((node.name, reason, text))

    def forget(self, uid: str) -> None:
        self.forgotten.append(uid)

    async def next(self) -> tuple[str, str, str]:
        """The next thing that is recorded: pod, reason, text."""
        async with asyncio.timeout(PATIENCE_S):
            return await self._heard.get()


class Sent:
    """Stands for every shell with a queue: keeps the actions that it is sent."""

    def __init__(self) -> None:
        self.actions: list[Action] = []

    def send(self, action: Action) -> None:
        self.actions.append(action)

    def look_up(self, pod: Pod) -> None:
        self.actions.append(LookUpPod(pod))


class Wiring(NamedTuple):
    """A loop and the parts that a test drives it by."""

    loop: Loop
    inbox: Inbox
    binder: FakeBinder
    gate: LeaderGate
    controllers: Controllers
    sent: Sent


def wire(
    recorder: Recorder,
    journal: Journal,
    leader: Leader,
    metrics: Metrics,
    clock: Clock,
    pipeline: Pipeline = ALLOW_ALL_MAPS,
    decider: Callable[..., Decision] = schedule_one,
    settings: ControllerSettings = DEFAULT,
) -> Wiring:
    """A loop with its inbox, controllers and a double for every shell but the recorder."""
    inbox, sent = Inbox(), Sent()
    binder, gate = FakeBinder(inbox), LeaderGate(leader, [], inbox)
    state = empty_state(pipeline.scheduler_name, pipeline.maps_allow, pipeline.reach)
    controllers = Controllers(state, binder, gate, metrics, lambda: WALL, settings)
    double = cast(Any, sent)
    shells = Shells(recorder, *[double] * 9)
    runner = ActionRunner(shells, controllers.bindings)
    loop = Loop(pipeline, state, inbox, gate, controllers, runner, journal, metrics, clock, decider)
    return Wiring(loop, inbox, binder, gate, controllers, sent)


class Stage:
    """A loop and its neighbours; ``migrations`` takes the place of the controller."""

    def __init__(
        self,
        pipeline: Pipeline = ALLOW_ALL_MAPS,
        decider: Callable[..., Decision] = schedule_one,
        settings: ControllerSettings = DEFAULT,
        migrations: NoMigration | None = None,
    ) -> None:
        self.clock = Clock()
        self.leader = Leader()
        self.metrics = Metrics("gpu-scheduler")
        self.recorder = Listener(self.clock, self.metrics)
        self.journal = Journal(self.clock, "run")
        self.loop, self.inbox, self.binder, self.gate, self.controllers, self.sent = wire(
            self.recorder,
            self.journal,
            self.leader,
            self.metrics,
            self.clock,
            pipeline,
            decider,
            settings,
        )
        if migrations is not None:
            self.replace(migrations)

    def replace(self, migrations: NoMigration) -> None:
        """Put another migration controller in its place in both tables."""
        tables = self.controllers
        tables.migrations = migrations
        tables.events = EventRoutes(
            [migrations if one.name == migrations.name else one for one in tables.events.handlers],
            NOT_FOR_WAITING_PODS,
        )
        tables.tickers = tuple(
            migrations if one.name == migrations.name else one for one in tables.tickers
        )

    @property
    def looked_up(self) -> list[Pod]:
        """The pods whose end was looked up."""
        return [one.pod for one in self.sent.actions if isinstance(one, LookUpPod)]

    @property
    def asked(self) -> dict[str, tuple[PartitionRequest, ...]]:
        """The newest request for MIG instances of each node."""
        requests = (one for one in self.sent.actions if isinstance(one, RequestPartitions))
        return {one.node_name: one.requests for one in requests}

    def see(self, *events: ev.Event) -> None:
        """Events arrive."""
        for one in events:
            self.inbox.enqueue(one)

    def sync(self) -> None:
        """Every cache is filled."""
        self.gate.sync()

    def pass_time(self, seconds: float) -> None:
        """Time passes."""
        self.clock.now += seconds
        self.inbox.wake()

    def confirm(self, placement: Placement) -> None:
        """The Binding went through, and the watch shows it."""
        self.binder.end(placement)
        self.see(ev.PodUpdated(as_bound(placement)))

    def sample(self, name: str, **labels: str) -> float:
        """The value of a metric."""
        return self.metrics.registry.get_sample_value(name, labels) or 0.0

    async def quiet(self) -> None:
        """Everything that can happen now has happened."""
        self.inbox.wake()
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
