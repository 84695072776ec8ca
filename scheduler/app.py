"""Builds one scheduler process: the state, the controllers, the loop, and the I/O around them."""

from __future__ import annotations

import asyncio
import gc
import socket
import time
from collections.abc import Callable, Coroutine, Iterator
from datetime import datetime
from itertools import chain
from typing import Any, Final

import structlog

from scheduler.admission.leader_proxy import LeaderProxySettings
from scheduler.admission.services import admission_tasks
from scheduler.bind.binder import Binder
from scheduler.bind.claim_writer import ClaimWriter
from scheduler.bind.former_objects import FormerObjects
from scheduler.bind.groups.owner_reader import GroupOwnerReader
from scheduler.bind.groups.state_writer import GroupWriter
from scheduler.bind.migration_worker import MigrationWorker
from scheduler.bind.partition_writer import PartitionWriter
from scheduler.bind.pod_preemptor import PodPreemptor
from scheduler.bind.pod_recreator import PodRecreator
from scheduler.bind.volume_binder import VolumeBinder
from scheduler.config import Config
from scheduler.controllers.dispatch import ActionRunner, Shells
from scheduler.controllers.leadership.gate import LeaderGate
from scheduler.controllers.table import Controllers, settings_of
from scheduler.loop import Loop
from scheduler.report import health
from scheduler.report.capacity_metrics import CapacityMetrics
from scheduler.report.cost_metrics import CostMetrics
from scheduler.report.dashboard.service import Dashboard
from scheduler.report.decisions.capacity import CapacityReport
from scheduler.report.decisions.cost import CostReport
from scheduler.report.decisions.journal import Journal
from scheduler.report.decisions.questions import QuestionQueue
from scheduler.report.decisions.service import decision_tasks, journal_of
from scheduler.report.events.recorder import Recorder
from scheduler.report.metrics import Metrics
from scheduler.report.price_table import PriceTableReader
from scheduler.report.process import AnsweringProcess
from scheduler.report.scraped_sums import ScrapedCollector
from scheduler.sources import Sources, utc_now
from scheduler.state.breakers.recreate_budget import WebhookLiveness
from scheduler.state.scheduler_state import empty_state
from scheduler.watch.client import Client
from scheduler.watch.decode.dra.claims import read_claim

SHUTDOWN_S = 5.0
#: New objects before the youngest generation is collected, and collections of one generation before
#: the next, once the caches are filled (``__main__`` has the limit until then).
COLLECT_AFTER: Final = (50_000, 20, 20)

logger = structlog.get_logger("scheduler")


class _SourceMetrics:
    """Counts what the sources report."""

    def __init__(self, metrics: Metrics, lease: str) -> None:
        self._metrics = metrics
        self._lease = lease

    def watch_failed(self, kind: str) -> None:
        """A watch failed."""
        self._metrics.watch_failures.labels(kind).inc()

    def relisted(self, kind: str, reason: str) -> None:
        """A kind is listed again."""
        self._metrics.relists.labels(kind, reason).inc()

    def led(self, leads: bool) -> None:
        """This process leads, or does not."""
        self._metrics.leader.labels(self._lease).set(1 if leads else 0)


class App:
    """One scheduler process; all its components exist before the first task starts."""

    def __init__(
        self,
        config: Config,
        client: Client,
        replicas: LeaderProxySettings | None,
        sources: Sources | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """``sources`` may have started already."""
        sources = sources or Sources(config, client, replicas.address if replicas else "")
        identity = sources.identity
        self._config = config
        self._metrics = Metrics(config.scheduler_name)
        self._sources, self._inbox = sources, sources.inbox
        sources.attach(_SourceMetrics(self._metrics, config.leader_election.resource_name))

        # The state.
        pipeline = config.pipeline()
        state = empty_state(
            *(pipeline.scheduler_name, pipeline.maps_allow, pipeline.reach),
            node_labels=pipeline.node_labels,
            equivalence_of=pipeline.equivalence_class,
            index_attributes=config.dra.index_attributes,
            teams_of_namespaces=config.teams.source == "namespace",
        )
        journal = journal_of(config, identity, clock)

        # The gate needs the watches and the lease.
        self._reflectors, self._elector = sources.reflectors, sources.elector
        former = FormerObjects(
            *(client, config.leader_election.resource_namespace, self._elector, clock),
            has_migrations=config.restore.mode_word() != "off",
        )
        self._gate = LeaderGate(self._elector, self._reflectors, self._inbox, adopt=former.adopt)

        # The I/O shells that send requests. All except the binder wait until the Bindings are sent.
        binder_idle = asyncio.Event()
        binder = Binder(client, self._inbox, self._elector, binder_idle)
        self._shells = self._senders(client, binder_idle, clock)

        # The controllers, and the loop that calls them.
        webhook = (
            WebhookLiveness(config.webhook.recreate_after_s) if config.expects_webhook else None
        )
        controllers = Controllers(
            *(state, binder, self._gate, self._metrics, time.time),
            settings=settings_of(config),
            webhook=webhook,
        )
        runner = ActionRunner(self._shells, controllers.bindings)
        self._loop = Loop(
            *(pipeline, state, self._inbox, self._gate, controllers, runner, journal),
            metrics=self._metrics,
            clock=clock,
        )

        # The servers beside the loop; they start with the other tasks.
        both = (clock, utc_now, QuestionQueue())
        self._scraped, answers = self._answers(identity, journal, *both)
        common = (client, config, replicas, self._loop, self._elector, self._metrics)
        self._services = chain(answers, admission_tasks(*common, webhook, *both))
        self._tasks = sources.tasks
        self._sync_task: asyncio.Task[None] | None = None

    async def run(self) -> int:
        """Run until a signal or a failure, then stop in order; returns the exit status."""
        election = self._start()
        name = self._config.scheduler_name
        ready = health.application(
            *(name, self._metrics, self._tasks.are_alive, self._not_ready), *self._scraped
        )
        async with health.serving(ready, self._config.health_address, self._metrics):
            is_failed = await self._tasks.until(self._sources.stop)
            await self._stop(election)
        logger.info("gpu-scheduler stopped")
        return 1 if is_failed else 0

    def _start(self) -> asyncio.Task[None]:
        """Start every task. Returns the task of the leader election, which ends before the
        others.
        """
        shells = self._shells
        election = self._sources.start()
        self._tasks.start_all(
            [
                ("leader gate", self._gate.run()),
                ("recorder", shells.recorder.run()),
                ("migrations", shells.migrations.run()),
                ("mig partitions", shells.partitions.run()),
                ("pod recreation", shells.recreator.run()),
                ("preemption", shells.preemptor.run()),
                ("volumes", shells.volumes.run()),
                ("claims", shells.claims.run()),
                ("pod groups", shells.groups.run()),
                ("group owners", shells.group_owners.run()),
                ("loop", self._loop.run()),
                *self._services,
            ]
        )
        # This task ends once the caches are filled, so it is not supervised.
        self._sync_task = asyncio.create_task(self._sync(), name="sync")
        return election

    async def _stop(self, election: asyncio.Task[None]) -> None:
        # The order matters: stop deciding, wait for requests in flight, release the lease. The next
        # leader must not decide before it sees the writes of this one.
        self._elector.stop_leading()
        is_settled = await self._loop.drain_bindings(SHUTDOWN_S)
        election.cancel()
        await asyncio.gather(election, return_exceptions=True)
        if is_settled:
            await self._elector.release()
        await self._shells.recorder.drain(SHUTDOWN_S)
        await self._tasks.end()

    # --- servers -----------------------------------------------------------------------------

    def _answers(
        self,
        identity: str,
        journal: Journal,
        clock: Callable[[], float],
        wall: Callable[[], datetime],
        questions: QuestionQueue,
    ) -> tuple[tuple[ScrapedCollector, ...], Iterator[tuple[str, Coroutine[Any, Any, None]]]]:
        """What a scrape adds to the metrics, and the tasks of the decisions API and dashboard."""
        config, loop, elector = self._config, self._loop, self._elector
        capacity = CapacityReport(loop, elector.leads, clock, wall)
        costs = CostReport(loop, PriceTableReader(config.costs.prices), elector.leads, wall)
        process = AnsweringProcess(
            config=config,
            identity=identity,
            context=loop,
            journal=journal,
            leadership=elector,
            metrics=self._metrics,
            capacity=capacity,
            costs=costs,
            clock=clock,
            wall=wall,
            questions=questions,
        )
        pages = (
            Dashboard(process, self._reflectors, lambda: self._gate.is_synced)
            if config.dashboard.enabled
            else None
        )
        scraped = (
            CapacityMetrics(capacity, elector.leads, clock),
            CostMetrics(costs, elector.leads, clock),
        )
        return scraped, decision_tasks(process, pages)

    # --- senders -----------------------------------------------------------------------------

    def _senders(
        self, client: Client, binder_idle: asyncio.Event, clock: Callable[[], float]
    ) -> Shells:
        name, inbox, gate = self._config.scheduler_name, self._inbox, self._gate
        own_namespace = self._config.leader_election.resource_namespace
        return Shells(
            recorder=Recorder(
                *(client, name, f"{name}-{socket.gethostname()}", clock, utc_now),
                metrics=self._metrics,
                idle=binder_idle,
            ),
            terminated_pods=self._sources.terminated_pods,
            migrations=MigrationWorker(client, own_namespace, inbox, gate),
            partitions=PartitionWriter(client, own_namespace, inbox, gate),
            recreator=PodRecreator(client, inbox, gate),
            preemptor=PodPreemptor(client, name, inbox, gate, utc_now),
            volumes=VolumeBinder(client, inbox, gate),
            claims=ClaimWriter(client, inbox, gate, read_claim),
            groups=GroupWriter(client, gate),
            group_owners=GroupOwnerReader(client, inbox),
        )

    # --- readiness ---------------------------------------------------------------------------

    async def _sync(self) -> None:
        for reflector in self._reflectors:
            await reflector.is_synced.wait()
        await self._shells.terminated_pods.past.publish()
        # The listed objects live long. A garbage collection that visits all of them pauses the
        # process, in a large cluster for a tenth of a second each time.
        gc.freeze()
        gc.set_threshold(*COLLECT_AFTER)
        self._gate.sync()
        logger.info("caches synced", scheduler=self._config.scheduler_name)

    def _not_ready(self) -> str | None:
        for reflector in self._reflectors:
            if not reflector.is_synced.is_set():
                return f"{reflector.kind} are not listed yet"
            if not reflector.is_healthy:
                return f"the watch of {reflector.kind} is broken"
        return None
