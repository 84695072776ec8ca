"""Executes every open migration from its object to its result.

::

    begin --create--> WRITTEN --evict--> LEAVING, AWAITED --> ADMITTED --> ARRIVED --> result
                        |                     |                  |
                        '-- owner blocks -----'---- deadline ----'--> result without effect

The next step depends on API objects alone (``state/migration/tickets``); the progress in memory
only avoids a repeated request. So a new leader resumes every migration from its object.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import msgspec
import structlog

from scheduler.controllers.migration.finished import REPEAT_AFTER_S, FinishedMigrations
from scheduler.decide.migration import preconditions
from scheduler.decide.migration.claims import has_subrequests, subrequests_of
from scheduler.decide.migration.restore import MigrationCandidate, migration_of
from scheduler.model.crd.migration import (
    Migration,
    MigrationKind,
    held_devices,
    holder,
    is_subrequest,
    profiles,
)
from scheduler.model.crd.migration_actions import (
    CreateMigration,
    EvictPod,
    read_owner_for,
    read_owner_of,
)
from scheduler.model.crd.migration_blockers import OwnerFacts
from scheduler.model.crd.migration_result import MigrationEnd, MigrationResult
from scheduler.model.pods.pod import Pod
from scheduler.report.events.migration_events import MigrationEvents
from scheduler.state import event as ev
from scheduler.state.cache.cluster import Cluster
from scheduler.state.effects import NOTHING, Effects
from scheduler.state.migration.history import MigrationHistory
from scheduler.state.migration.tickets import MigrationPhase, OpenMigrations

ASK_EVERY_S: Final = 5.0
TRIES_MAX: Final = 3

log = structlog.get_logger("migration")


class MigrationProgress(msgspec.Struct):
    """The requests of this process for a migration."""

    facts: OwnerFacts | None = None
    asked_at: float = float("-inf")
    sent_at: float = float("-inf")
    tries: int = 0
    is_evicted: bool = False
    victim: Pod | None = None


class MigrationExecutor:
    """Executes every open migration as far as possible; ``new_id`` returns a random word."""

    def __init__(
        self,
        cluster: Cluster,
        history: MigrationHistory,
        events: MigrationEvents,
        new_id: Callable[[], str],
    ) -> None:
        self.open = OpenMigrations(cluster.scheduler_name)
        self.finished = FinishedMigrations(history)
        self._cluster = cluster
        self._history = history
        self._events = events
        self._new_id = new_id
        self._progress: dict[str, MigrationProgress] = {}

    def begin(self, candidate: MigrationCandidate, facts: OwnerFacts, now: float) -> Effects:
        """Create the object of a migration that is safe."""
        pod = candidate.pod
        attempt = self._history.attempt(pod.workload, pod.revision)
        migration = migration_of(candidate, facts, attempt, self._new_id(), now)
        self.open.assume(migration)
        self._progress[migration.id] = MigrationProgress(facts=facts, sent_at=now)
        self._cluster.nominations.hold(holder(migration), held_devices(migration))
        log.info("migration started", migration=migration.id, pod=pod.key, change=migration.change)
        return (CreateMigration(migration),)

    def evicted(self) -> frozenset[str]:
        """Migrations whose eviction was sent, independent of the watch."""
        return frozenset(name for name, progress in self._progress.items() if progress.tries)

    # --- events ------------------------------------------------------------------------------

    def upsert(self, migration: Migration, now: float) -> Effects:
        """The watch shows a migration."""
        if migration.end is not None:
            return self._forget(migration) if self.finished.upsert(migration) else NOTHING
        if self.open.upsert(migration):
            self._history.began(migration, now)
        return self._hold(migration)

    def delete(self, migration_id: str, now: float) -> Effects:
        """The object was deleted: every replica stores the result."""
        migration = self.open.get(migration_id)
        if migration is None:
            self.finished.delete(migration_id)
            return NOTHING
        end = self.finished.result_of(migration_id)
        failure = end.result.is_failure if end is not None else self._is_failure(migration)
        self._history.ended(migration, now, is_failure=failure)
        return self._forget(migration)

    def _forget(self, migration: Migration) -> Effects:
        self._progress.pop(migration.id, None)
        self.open.delete(migration.id)
        return self._release(migration)

    def write_failed(self, migration_id: str, message: str, now: float) -> Effects:
        """The API server rejected the object."""
        migration = self.open.get(migration_id)
        if migration is None or self.open.is_seen(migration_id):
            return NOTHING
        events = self._events.ended(migration, MigrationResult.NOT_CREATED, message)
        return (*events, *self.delete(migration_id, now))

    def owner_read(self, event: ev.OwnerRead, now: float) -> Effects:
        """The owner of an open migration was read."""
        migration = self.open.get(event.migration_id)
        if migration is None or event.facts is None:
            return NOTHING
        phase = self.open.phase(migration, self._cluster.pods)
        if phase in (MigrationPhase.LEAVING, MigrationPhase.AWAITED):
            problem = preconditions.replacement_blocker(migration, event.facts)
            if problem is None:
                return NOTHING
            return self._end(migration, MigrationResult.BLOCKED, problem.text, now)
        pod = self._cluster.pods.get(migration.pod_uid)
        if phase is MigrationPhase.WRITTEN and pod is not None:
            problem = preconditions.owner_blocker(pod, migration.move, event.facts)
            if problem is not None:
                return self._end(migration, MigrationResult.BLOCKED, problem.text, now)
            self._progress_of(migration).facts = event.facts
        return self.step(migration, now)

    def eviction_ended(self, event: ev.EvictionEnded, now: float) -> Effects:
        """The API server responded to an eviction."""
        migration = self.open.get(event.migration_id)
        if migration is None:
            return NOTHING
        progress = self._progress_of(migration)
        pod = self._cluster.pods.get(migration.pod_uid)
        match event.result:
            case ev.Eviction.EVICTED:
                progress.is_evicted = True
                # The watch may have shown the end of the pod before this response.
                return self._events.evicted(migration, pod or progress.victim)
            case ev.Eviction.FORBIDDEN:
                progress.tries = 0
                return self._end(migration, MigrationResult.FORBIDDEN, event.message, now)
            case ev.Eviction.GONE:
                progress.tries = 0
                if pod is not None and not pod.is_deleting:
                    text = "the pod changed during the migration"
                    return self._pod_changed(migration, text, now)
            case ev.Eviction.FAILED:
                log.warning("eviction failed", migration=migration.id, problem=event.message)
                progress.facts = None  # the next attempt needs new ones
                if progress.tries >= TRIES_MAX:
                    return self._end(
                        migration, MigrationResult.EVICTION_REFUSED, event.message, now
                    )
        return NOTHING

    # --- steps -------------------------------------------------------------------------------

    def step(self, migration: Migration, now: float) -> Effects:
        """Take the next step of one migration, if there is one."""
        return self._hold(migration) + self._step(migration, now)

    def _step(self, migration: Migration, now: float) -> Effects:
        progress = self._progress_of(migration)
        if self.finished.result_of(migration.id) is not None:
            return self.finished.repeat(migration, now)
        phase = self.open.phase(migration, self._cluster.pods)
        if phase is MigrationPhase.ARRIVED and (ended := self._arrived(migration, now)):
            return ended
        if now >= migration.deadline:
            text = "its replacement was not placed in time"
            return self._end(migration, MigrationResult.DEADLINE_EXCEEDED, text, now)
        if phase is MigrationPhase.WRITTEN:
            return self._before_eviction(migration, progress, now)
        is_awaited = phase in (MigrationPhase.LEAVING, MigrationPhase.AWAITED)
        if is_awaited and now - progress.asked_at >= ASK_EVERY_S:
            progress.asked_at = now
            return (read_owner_for(migration),)
        return NOTHING

    def _before_eviction(
        self, migration: Migration, progress: MigrationProgress, now: float
    ) -> Effects:
        pod = self._cluster.pods[migration.pod_uid]
        if not self.open.is_seen(migration.id):
            is_lost = now - progress.sent_at >= REPEAT_AFTER_S
            return self.write_failed(migration.id, "no answer", now) if is_lost else NOTHING
        is_rescue = migration.move is MigrationKind.RESCUE
        if is_rescue and (pod.node_name or pod.uid in self._cluster.assumed):
            return self._pod_changed(migration, "the pod was scheduled without the migration", now)
        if progress.is_evicted or (progress.tries and now - progress.sent_at < REPEAT_AFTER_S):
            return NOTHING
        if progress.facts is None:
            if now - progress.asked_at < ASK_EVERY_S:
                return NOTHING
            progress.asked_at = now
            return (read_owner_of(pod, migration.revision, migration.index, migration.id),)
        progress.victim = pod
        progress.tries += 1
        progress.sent_at = now
        return (EvictPod(migration, progress.facts.version if is_rescue else ""),)

    def _arrived(self, migration: Migration, now: float) -> Effects:
        pod = self.open.taker(migration)
        assert pod is not None, "a replacement arrived"
        has_target = self._has_target(migration, pod)
        if has_target is None:
            return NOTHING  # the watch of claims is behind that of pods
        if not has_target:
            has = {**pod.gpu_requests, **subrequests_of(self._cluster.dra, pod)}
            text = f"its replacement has {profiles(has)}"
            return self._end(migration, MigrationResult.TIER_NOT_GRANTED, text, now)
        events = self._events.arrived(migration, pod)
        return (*events, *self._end(migration, MigrationResult.SUCCEEDED, "", now))

    def _pod_changed(self, migration: Migration, text: str, now: float) -> Effects:
        return self._end(migration, MigrationResult.POD_CHANGED, text, now)

    def _end(self, migration: Migration, result: MigrationResult, text: str, now: float) -> Effects:
        events = self._events.ended(migration, result, text)
        complete = self.finished.complete(migration, MigrationEnd(result, now, text))
        return (*events, complete, *self._release(migration))

    def _is_failure(self, migration: Migration) -> bool | None:
        """Whether another replica's migration failed, as far as the watches show."""
        phase = self.open.phase(migration, self._cluster.pods)
        if phase is MigrationPhase.ARRIVED:
            pod = self.open.taker(migration)
            return pod is not None and self._has_target(migration, pod) is False
        return True if phase is MigrationPhase.ADMITTED else None

    def _has_target(self, migration: Migration, pod: Pod) -> bool | None:
        """Whether a replacement has the tier; None while its claims are not seen allocated."""
        subrequests = {name: 1 for name in migration.target if is_subrequest(name)}
        devices = {r: n for r, n in migration.target.items() if r not in subrequests}
        if pod.gpu_requests != devices:
            return False
        return not subrequests or has_subrequests(self._cluster.dra, pod, subrequests)

    # --- capacity for the replacement --------------------------------------------------------

    def _hold(self, migration: Migration) -> Effects:
        taker = self.open.taker(migration)
        is_bound = taker is not None and bool(taker.node_name)
        if is_bound or self.finished.result_of(migration.id) is not None:
            return self._release(migration)
        if taker is None or taker.uid not in self._cluster.assumed:
            self._cluster.nominations.hold(holder(migration), held_devices(migration))
        return NOTHING

    def _release(self, migration: Migration) -> Effects:
        return tuple(self._cluster.release_migration(migration.id))

    def _progress_of(self, migration: Migration) -> MigrationProgress:
        return self._progress.setdefault(migration.id, MigrationProgress())
