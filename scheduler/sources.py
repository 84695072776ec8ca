"""What a process reads first: the watches, the lease, and how pods ended before it began. The
events wait in the inbox.

It starts before the rest of the program is imported and built, so the API server answers meanwhile.
It must not import the plugins or the controllers.
"""

from __future__ import annotations

import asyncio
import random
import signal
import socket
import time
import uuid
from collections.abc import Callable
from datetime import UTC, datetime
from functools import partial
from typing import Final, Protocol

import structlog

from scheduler.config import Config
from scheduler.controllers.leadership.elector import LeaderElector, Timings
from scheduler.state.event import Event
from scheduler.supervisor import TaskSupervisor
from scheduler.watch.client import Client
from scheduler.watch.inbox import Inbox
from scheduler.watch.informers import every
from scheduler.watch.reflector import Limits, Reflector
from scheduler.watch.terminated_pods import TerminatedPodLookup

logger = structlog.get_logger("scheduler")

#: The wall clock, for timestamps; never for measuring.
utc_now: Final[Callable[[], datetime]] = partial(datetime.now, UTC)


class SourceMetrics(Protocol):
    """The metrics of the watches and the election."""

    def watch_failed(self, kind: str) -> None:
        """A watch failed."""

    def relisted(self, kind: str, reason: str) -> None:
        """A kind is listed again."""

    def led(self, leads: bool) -> None:
        """This process leads, or does not."""


class Sources:
    """The inbox, what fills it, and the leader election."""

    def __init__(self, config: Config, client: Client, address: str = "") -> None:
        """``address`` is where other replicas reach this one, if they do."""
        self.identity = f"{socket.gethostname()}_{uuid.uuid4()}"
        self.inbox = Inbox()
        self.rng = random.Random()
        self.tasks = TaskSupervisor()
        #: Set by SIGTERM.
        self.stop = asyncio.Event()
        self._config = config
        self._metrics: SourceMetrics | None = None
        #: What happened before there were metrics.
        self._uncounted: list[Callable[[SourceMetrics], None]] = []
        self.reflectors = self._watches(client)
        self.terminated_pods = TerminatedPodLookup(
            client, config.scheduler_name, self.inbox, utc_now
        )
        self.elector = self._election(client, address)
        self._election_task: asyncio.Task[None] | None = None

    def start(self) -> asyncio.Task[None]:
        """Start the election and the watches, once. Returns the task of the election, which ends
        before the others.
        """
        if self._election_task is None:
            for number in (signal.SIGTERM, signal.SIGINT):
                asyncio.get_running_loop().add_signal_handler(number, self.stop.set)
            self._election_task = self.tasks.start("election", self.elector.run())
            self.tasks.start_all((f"watch {one.kind}", self._watch(one)) for one in self.reflectors)
            self.tasks.start("terminated pods", self.terminated_pods.run())
        return self._election_task

    def attach(self, metrics: SourceMetrics) -> None:
        """Count from now on, and what happened until now."""
        self._metrics = metrics
        for happened in self._uncounted:
            happened(metrics)
        self._uncounted.clear()

    def _count(self, happened: Callable[[SourceMetrics], None]) -> None:
        if self._metrics is None:
            self._uncounted.append(happened)
        else:
            happened(self._metrics)

    # --- watches -----------------------------------------------------------------------------

    def _watches(self, client: Client) -> list[Reflector[Event]]:
        own_namespace = self._config.leader_election.resource_namespace
        has_migrations = self._config.restore.mode_word() != "off"
        limits = Limits(silence_max_s=self._config.watch.silence_max_s)
        return [
            Reflector(
                *(client, source, self.inbox.enqueue, self._watch_failed, self.rng, limits),
                relists=self._relists,
                busy=self._watch_busy,
                opened=self.inbox.wake,
            )
            for source in every(
                own_namespace,
                migrations=has_migrations,
                preemption=self._config.preemption.enabled,
                teams_in=self._config.teams.watched,
                group_sources=self._config.gang.sources,
            )
        ]

    async def _watch(self, reflector: Reflector[Event]) -> None:
        # The first lists wait for the first read of the lease. A process that acquires the lease
        # needs lists newer than the lease, and would have to list twice.
        if self.elector.is_enabled:
            await self.elector.round_ended()
        await reflector.run()

    def _watch_failed(self, kind: str, problem: str) -> None:
        self._count(lambda metrics: metrics.watch_failed(kind))
        logger.warning("watch failed", kind=kind, problem=problem)

    def _watch_busy(self, kind: str, problem: str) -> None:
        logger.debug("watch refused at start", kind=kind, problem=problem)

    def _relists(self, kind: str, reason: str) -> None:
        self._count(lambda metrics: metrics.relisted(kind, reason))

    # --- leadership --------------------------------------------------------------------------

    def _election(self, client: Client, address: str) -> LeaderElector:
        election = self._config.leader_election
        return LeaderElector(
            client,
            name=election.resource_name,
            namespace=election.resource_namespace,
            identity=self.identity,
            timings=Timings(
                election.lease_duration_s, election.renew_deadline_s, election.retry_period_s
            ),
            clock=time.monotonic,
            wall=utc_now,
            rng=self.rng,
            on_change=self._leadership_changed,
            enabled=election.leader_elect,
            address=address,
        )

    def _leadership_changed(self, leads: bool) -> None:
        self._count(lambda metrics: metrics.led(leads))
        self.inbox.wake()
