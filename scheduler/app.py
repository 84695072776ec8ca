"""Wires the stages together; the only place that knows them all."""

from __future__ import annotations

import asyncio
import gc
import random
import signal
import socket
import time
import uuid
from collections.abc import Callable
from datetime import UTC, datetime

import structlog
from aiohttp import web

from scheduler import config as configuration
from scheduler.admission import leader_proxy
from scheduler.admission.services import AdmissionServices
from scheduler.bind.binder import Binder
from scheduler.bind.migration_worker import MigrationWorker
from scheduler.bind.partition_writer import PartitionWriter
from scheduler.controllers.mig_partition import maker
from scheduler.controllers.migration.wiring import Moving
from scheduler.leadership.elector import LeaderElector, Timings
from scheduler.leadership.gate import LeaderGate
from scheduler.loop import Loop
from scheduler.report import health
from scheduler.report.decisions.service import DecisionService
from scheduler.report.events.recorder import Recorder
from scheduler.report.metrics import Metrics
from scheduler.state.event import Event
from scheduler.supervisor import TaskSupervisor
from scheduler.watch.client import Client
from scheduler.watch.informers import every
from scheduler.watch.reflector import Limits, Reflector
from scheduler.watch.terminated_pods import TerminatedPodLookup

SHUTDOWN_S = 5.0

logger = structlog.get_logger("scheduler")


def utc_now() -> datetime:
    """The wall clock, for what people read; never for measuring."""
    return datetime.now(UTC)


class App:
    """One scheduler process."""

    def __init__(
        self,
        config: configuration.Config,
        kubeconfig: str | None,
        replicas: leader_proxy.LeaderProxySettings | None,
    ) -> None:
        self._config = config
        self._kubeconfig = kubeconfig
        self._replicas = replicas
        self._identity = f"{socket.gethostname()}_{uuid.uuid4()}"
        self._metrics = Metrics(config.scheduler_name)
        tally = self._metrics.connections.of("decisions")
        self._explaining = DecisionService(config, self._identity, time.monotonic, utc_now, tally)
        self._admitting = AdmissionServices(config, replicas, self._metrics, time.monotonic)
        self._rng = random.Random()
        has_moves = config.restore.mode_word() != "off"
        self._sources = every(config.leader_election.resource_namespace, moves=has_moves)
        self._reflectors: list[Reflector[Event]] = []
        self._stages = TaskSupervisor()
        self._synced_task: asyncio.Task[None] | None = None
        self._on_lead: Callable[[bool], None] = lambda leads: None
        self._on_term: Callable[[], None] = lambda: None

    async def run(self) -> int:
        """Start every stage, wait for a signal or a failure, stop in order."""
        name = self._config.scheduler_name
        client = await Client.connect(self._kubeconfig, f"{name}/scheduler")
        stop = asyncio.Event()
        for number in (signal.SIGTERM, signal.SIGINT):
            asyncio.get_running_loop().add_signal_handler(number, stop.set)
        try:
            return await self._serve(client, stop)
        finally:
            await client.close()

    async def _serve(self, client: Client, stop: asyncio.Event) -> int:
        name, calm = self._config.scheduler_name, asyncio.Event()
        instance = f"{name}-{socket.gethostname()}"
        recorder = Recorder(
            client, name, instance, time.monotonic, utc_now, self._count_report, calm
        )
        elector = self._elector(client)
        mandate = LeaderGate(elector, self._reflectors, lambda: self._on_term())
        inquest = TerminatedPodLookup(client, name, lambda event: loop.enqueue(event), utc_now)
        own = self._config.leader_election.resource_namespace
        errands = MigrationWorker(client, own, lambda event: loop.enqueue(event), mandate.leads)
        moving = Moving(
            self._config, recorder, self._metrics, errands.send, inquest.look_up, utc_now
        )
        cutter = PartitionWriter(
            client, own, lambda event: loop.enqueue(event), mandate.leads, lambda: elector.epoch
        )
        loop = Loop(
            self._config.pipeline(),
            lambda emit: Binder(client, emit, lambda: elector.epoch, elector.leads, calm),
            recorder,
            self._metrics,
            mandate,
            time.monotonic,
            self._explaining.journal,
            inquest.look_up,
            moving.moves,
            maker(self._config, recorder, cutter, utc_now, self._metrics),
            self._config.avoidance,
            wall=lambda: utc_now().timestamp(),
        )
        self._on_lead = lambda leads: self._led(leads, loop)
        self._on_term = loop.wake
        for stage, work in (("mandate", mandate), ("errands", errands), ("cutter", cutter)):
            self._stages.start(stage, work.run())
        election = self._start_stages(client, recorder, loop, elector, inquest)
        async with health.serving(self._health(), self._config.health_address, self._metrics):
            failed = await self._stages.until(stop)
            await self._stop(loop, elector, election, recorder)
        logger.info("gpu-scheduler stopped")
        return 1 if failed else 0

    async def _stop(
        self, loop: Loop, elector: LeaderElector, election: asyncio.Task[None], recorder: Recorder
    ) -> None:
        # In this order: decide no more, let what was sent end, give the lease back. The next
        # leader must not decide before it can see what we did.
        elector.stop_leading()
        is_settled = await loop.drain_bindings(SHUTDOWN_S)
        election.cancel()
        await asyncio.gather(election, return_exceptions=True)
        if is_settled:
            await elector.release()
        await recorder.drain(SHUTDOWN_S)
        await self._stages.end()

    def _start_stages(
        self,
        client: Client,
        recorder: Recorder,
        loop: Loop,
        elector: LeaderElector,
        inquest: TerminatedPodLookup,
    ) -> asyncio.Task[None]:
        """Start every stage; the election's task is returned, it ends first."""
        self._stages.start("recorder", recorder.run())
        self._stages.start("inquest", inquest.run())
        election = self._stages.start("election", elector.run())
        limits = Limits(silence_max_s=self._config.watch.silence_max_s)
        for source in self._sources:
            reflector = Reflector(
                *(client, source, loop.enqueue, self._watch_broke, self._rng, limits),
                relists=self._relists,
            )
            self._reflectors.append(reflector)
            self._stages.start(f"watch {source.kind}", self._watch(reflector, elector))
        self._synced_task = asyncio.create_task(self._synced(loop, inquest), name="sync")
        self._stages.start("loop", loop.run())
        for stage, work in self._explaining.stages(loop, elector):
            self._stages.start(stage, work)
        for stage, work in self._admitting.stages(client, loop, elector, recorder):
            self._stages.start(stage, work)
        return election

    async def _watch(self, reflector: Reflector[Event], elector: LeaderElector) -> None:
        # The first lists wait for the first look at the lease: whoever takes it needs lists
        # that are newer than the lease, and would have to make them twice.
        if elector.is_enabled:
            await elector.round_ended()
        await reflector.run()

    async def _synced(self, loop: Loop, inquest: TerminatedPodLookup) -> None:
        for reflector in self._reflectors:
            await reflector.is_synced.wait()
        await inquest.past.tell()
        # What was listed lives on: going through it again and again for garbage would stop
        # everything, in a large cluster for a tenth of a second each time.
        gc.collect()
        gc.freeze()
        loop.is_synced = True
        loop.wake()
        logger.info("caches filled", scheduler=self._config.scheduler_name)

    def _elector(self, client: Client) -> LeaderElector:
        election = self._config.leader_election
        return LeaderElector(
            client,
            name=election.resource_name,
            namespace=election.resource_namespace,
            identity=self._identity,
            timings=Timings(
                election.lease_duration_s, election.renew_deadline_s, election.retry_period_s
            ),
            clock=time.monotonic,
            wall=utc_now,
            rng=self._rng,
            on_change=lambda leads: self._on_lead(leads),
            enabled=election.leader_elect,
            address=self._replicas.address if self._replicas else "",
        )

    def _led(self, leads: bool, loop: Loop) -> None:
        gauge = self._metrics.leader.labels(self._config.leader_election.resource_name)
        gauge.set(1 if leads else 0)
        loop.wake()

    def _not_ready(self) -> str | None:
        for reflector, source in zip(self._reflectors, self._sources, strict=True):
            if not reflector.is_synced.is_set():
                return f"{source.kind} are not listed yet"
            if not reflector.is_healthy:
                return f"the watch of {source.kind} is broken"
        return None

    def _health(self) -> web.Application:
        name = self._config.scheduler_name
        return health.application(name, self._metrics, self._stages.are_alive, self._not_ready)

    def _watch_broke(self, kind: str, problem: str) -> None:
        self._metrics.watch_failures.labels(kind).inc()
        logger.warning("watch broke", kind=kind, problem=problem)

    def _relists(self, kind: str, reason: str) -> None:
        self._metrics.relists.labels(kind, reason).inc()

    def _count_report(self, what: str, result: str) -> None:
        self._metrics.reports.labels(what, result).inc()
