"""The course of every open move, from its ticket to its end.

::

    begin --write--> WRITTEN --evict--> LEAVING, AWAITED --> ADMITTED --> ARRIVED --> end
                        |                      |                |
                        '---- owner says no ---'-- deadline ----'--> end without effect

What is done next follows from API objects alone (``state/migration/tickets``); what is remembered
here only spares a question or a repetition. So whoever leads after a crash goes on where it finds a
ticket."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import msgspec
import structlog

from scheduler.controllers.migration.finished import REPEAT_AFTER_S, FinishedMigrations
from scheduler.decide.migration import preconditions
from scheduler.decide.migration.restore import MigrationCandidate, ticket_of
from scheduler.model.crd.migration import Migration, MigrationKind, holder, profiles
from scheduler.model.crd.migration_actions import (
    CreateMigration,
    Errand,
    EvictPod,
    ask_about,
    ask_for,
)
from scheduler.model.crd.migration_blockers import OwnerFacts
from scheduler.model.crd.migration_result import MigrationEnd, MigrationResult
from scheduler.model.pod import Pod
from scheduler.report.events.migration_events import MigrationEvents
from scheduler.state import event as ev
from scheduler.state.cache.cluster import Cluster
from scheduler.state.migration.history import MigrationHistory
from scheduler.state.migration.tickets import MigrationPhase, OpenMigrations

ASK_EVERY_S: Final = 5.0
TRIES_MAX: Final = 3

log = structlog.get_logger("moves")


class MigrationProgress(msgspec.Struct):
    """What this process did for a ticket."""

    facts: OwnerFacts | None = None
    asked_at: float = float("-inf")
    sent_at: float = float("-inf")
    tries: int = 0
    is_evicted: bool = False
    victim: Pod | None = None


class MigrationExecutor:
    """Takes every open move as far as it can go."""

    def __init__(
        self,
        cluster: Cluster,
        history: MigrationHistory,
        moved: MigrationEvents,
        send: Callable[[Errand], None],
        fresh: Callable[[], str],
    ) -> None:
        self.tickets = OpenMigrations(cluster.scheduler_name)
        self._cluster = cluster
        self._history = history
        self._moved = moved
        self._send = send
        self._fresh = fresh
        self.endings = FinishedMigrations(history, send)
        self._progress: dict[str, MigrationProgress] = {}

    def begin(self, wish: MigrationCandidate, facts: OwnerFacts, now: float) -> None:
        """Write the ticket of a move that is safe."""
        pod = wish.pod
        attempt = self._history.attempt(pod.workload, pod.revision)
        ticket = ticket_of(wish, facts, attempt, self._fresh(), now)
        self.tickets.assume(ticket)
        self._progress[ticket.id] = MigrationProgress(facts=facts, sent_at=now)
        self._cluster.nominations.hold(holder(ticket))
        log.info("move begins", ticket=ticket.id, pod=pod.key, change=ticket.change)
        self._send(CreateMigration(ticket))

    def evicted(self) -> frozenset[str]:
        """Tickets whose eviction was sent, whatever the watch shows."""
        return frozenset(name for name, one in self._progress.items() if one.tries)

    # --- what happens ------------------------------------------------------------------------

    def pod_updated(self, ticket: Migration, now: float) -> None:
        """The watch shows a ticket."""
        if self.tickets.upsert(ticket):
            self._history.began(ticket, now)
        self._hold(ticket)

    def pod_deleted(self, ticket_id: str, now: float) -> list[ev.Change]:
        """The ticket is gone: what came of it is remembered on every replica."""
        ticket = self.tickets.get(ticket_id)
        if ticket is None:
            self.endings.delete(ticket_id)
            return []
        end = self.endings.recorded(ticket_id)
        failure = end.result.is_failure if end is not None else self._is_failure(ticket)
        self._history.ended(ticket, now, is_failure=failure)
        return self._lose(ticket)

    def over(self, ticket: Migration) -> list[ev.Change]:
        """The watch shows a ticket that says how it ended."""
        return self._lose(ticket) if self.endings.upsert(ticket) else []

    def _lose(self, ticket: Migration) -> list[ev.Change]:
        self._progress.pop(ticket.id, None)
        self.tickets.delete(ticket.id)
        return self._release(ticket)

    def write_failed(self, ticket_id: str, message: str, now: float) -> list[ev.Change]:
        """The API server refused the ticket."""
        ticket = self.tickets.get(ticket_id)
        if ticket is None or self.tickets.is_seen(ticket_id):
            return []
        self._moved.ended(ticket, MigrationResult.UNWRITTEN, message)
        return self.pod_deleted(ticket_id, now)

    def owner_read(self, news: ev.OwnerRead, now: float) -> list[ev.Change]:
        """What the owner of an open ticket says now."""
        ticket = self.tickets.get(news.ticket_id)
        if ticket is None or news.facts is None:
            return []
        stage = self.tickets.stage(ticket, self._cluster.pods)
        if stage in (MigrationPhase.LEAVING, MigrationPhase.AWAITED):
            problem = preconditions.not_made_again(ticket, news.facts)
            return self._end(ticket, MigrationResult.HINDERED, problem.text, now) if problem else []
        pod = self._cluster.pods.get(ticket.pod_uid)
        if stage is MigrationPhase.WRITTEN and pod is not None:
            problem = preconditions.verdict(pod, ticket.move, news.facts)
            if problem is not None:
                return self._end(ticket, MigrationResult.HINDERED, problem.text, now)
            self._at(ticket).facts = news.facts
        return self.step(ticket, now)

    def eviction_ended(self, news: ev.EvictionEnded, now: float) -> list[ev.Change]:
        """The API server's answer to an eviction."""
        ticket = self.tickets.get(news.ticket_id)
        if ticket is None:
            return []
        progress = self._at(ticket)
        pod = self._cluster.pods.get(ticket.pod_uid)
        match news.result:
            case ev.Eviction.EVICTED:
                progress.is_evicted = True
                # By its answer the watch may have shown the end of the pod.
                self._moved.evicted(ticket, pod or progress.victim)
            case ev.Eviction.FORBIDDEN:
                progress.tries = 0
                return self._end(ticket, MigrationResult.FORBIDDEN, news.message, now)
            case ev.Eviction.GONE:
                progress.tries = 0
                if pod is not None and not pod.is_deleting:
                    return self._end(
                        ticket, MigrationResult.POD_CHANGED, "the pod changed meanwhile", now
                    )
            case ev.Eviction.FAILED:
                log.warning("eviction failed", ticket=ticket.id, problem=news.message)
                progress.facts = None  # by the next try they are old
                if progress.tries >= TRIES_MAX:
                    return self._end(ticket, MigrationResult.REFUSED, news.message, now)
        return []

    # --- what is done ------------------------------------------------------------------------

    def step(self, ticket: Migration, now: float) -> list[ev.Change]:
        """Do what comes next for one ticket, if anything does."""
        progress = self._at(ticket)
        self._hold(ticket)
        if self.endings.recorded(ticket.id) is not None:
            self.endings.repeat(ticket, now)
            return []
        stage = self.tickets.stage(ticket, self._cluster.pods)
        if stage is MigrationPhase.ARRIVED:
            return self._arrived(ticket, now)
        if now >= ticket.deadline:
            return self._end(
                ticket, MigrationResult.EXPIRED, "its replacement was not placed in time", now
            )
        if stage is MigrationPhase.WRITTEN:
            return self._before_eviction(ticket, progress, now)
        if stage is not MigrationPhase.ADMITTED and now - progress.asked_at >= ASK_EVERY_S:
            progress.asked_at = now
            self._send(ask_for(ticket))
        return []

    def _before_eviction(
        self, ticket: Migration, progress: MigrationProgress, now: float
    ) -> list[ev.Change]:
        pod = self._cluster.pods[ticket.pod_uid]
        if not self.tickets.is_seen(ticket.id):
            is_lost = now - progress.sent_at >= REPEAT_AFTER_S
            return self.write_failed(ticket.id, "no answer", now) if is_lost else []
        if ticket.move is MigrationKind.RESCUE and (
            pod.node_name or pod.uid in self._cluster.assumed
        ):
            return self._end(
                ticket, MigrationResult.POD_CHANGED, "the pod found a node by itself", now
            )
        if progress.is_evicted or (progress.tries and now - progress.sent_at < REPEAT_AFTER_S):
            return []
        if progress.facts is None:
            if now - progress.asked_at >= ASK_EVERY_S:
                progress.asked_at = now
                self._send(ask_about(pod, ticket.revision, ticket.index, ticket.id))
            return []
        progress.victim = pod
        progress.tries += 1
        progress.sent_at = now
        version = progress.facts.version if ticket.move is MigrationKind.RESCUE else ""
        self._send(EvictPod(ticket, version))
        return []

    def _arrived(self, ticket: Migration, now: float) -> list[ev.Change]:
        pod = self.tickets.taker(ticket)
        assert pod is not None, "somebody arrived"
        if pod.gpu_requests != ticket.target:
            got = f"its replacement has {profiles(pod.gpu_requests)}"
            return self._end(ticket, MigrationResult.WITHOUT_TIER, got, now)
        self._moved.arrived(ticket, pod)
        return self._end(ticket, MigrationResult.DONE, "", now)

    def _end(
        self, ticket: Migration, result: MigrationResult, text: str, now: float
    ) -> list[ev.Change]:
        self._moved.ended(ticket, result, text)
        self.endings.record(ticket, MigrationEnd(result, now, text))
        return self._release(ticket)

    def _is_failure(self, ticket: Migration) -> bool | None:
        """What another replica's move came to, as far as can be seen."""
        stage = self.tickets.stage(ticket, self._cluster.pods)
        if stage is MigrationPhase.ARRIVED:
            pod = self.tickets.taker(ticket)
            return pod is not None and pod.gpu_requests != ticket.target
        return True if stage is MigrationPhase.ADMITTED else None

    # --- what is held ------------------------------------------------------------------------

    def _hold(self, ticket: Migration) -> None:
        taker = self.tickets.taker(ticket)
        is_bound = taker is not None and bool(taker.node_name)
        if is_bound or self.endings.recorded(ticket.id) is not None:
            self._cluster.nominations.release(ticket.id)
        elif taker is None or taker.uid not in self._cluster.assumed:
            self._cluster.nominations.hold(holder(ticket))

    def _release(self, ticket: Migration) -> list[ev.Change]:
        if not self._cluster.nominations.release(ticket.id):
            return []
        return [self._cluster.freed(ticket.node_name, frozenset(ticket.requests))]

    def _at(self, ticket: Migration) -> MigrationProgress:
        return self._progress.setdefault(ticket.id, MigrationProgress())
