"""Reports migrations: events on the pod and its owner, log lines and a metric.

A blocker of a migration usually lasts as long as the pod, so it is reported once per pod, even if
the recorder has forgotten its event.
"""

from __future__ import annotations

from typing import Final

import structlog

from scheduler.model.actions import RecordOwnerEvent, RecordPodEvent
from scheduler.model.crd.migration import Migration, MigrationKind, profiles
from scheduler.model.crd.migration_blockers import BlockedBy, Blocker
from scheduler.model.crd.migration_result import MigrationResult
from scheduler.model.pods.pod import Pod
from scheduler.report.metrics import Metrics
from scheduler.state.migration.history import FAILURES_MAX

log = structlog.get_logger("migration")

_EVICTED: Final = {MigrationKind.RESTORE: "Restoring", MigrationKind.RESCUE: "Rescuing"}
_ARRIVED: Final = {MigrationKind.RESTORE: "Restored", MigrationKind.RESCUE: "Rescued"}


Records = tuple[RecordPodEvent | RecordOwnerEvent, ...]


class MigrationEvents:
    """Creates the events of migrations, and stores per pod which were reported."""

    def __init__(self, metrics: Metrics) -> None:
        self._metrics = metrics
        self._reported: dict[str, set[Blocker | None]] = {}
        results = [(one.value, end.label) for one in MigrationKind for end in MigrationResult]
        metrics.begin_at_zero(metrics.moves, *results)

    def is_reported(self, pod: Pod, blocker: Blocker | None) -> bool:
        """Whether the event exists; None stands for a possible migration."""
        return blocker in self._reported.get(pod.uid, ())

    def blocked(self, pod: Pod, kind: MigrationKind, change: str, problem: BlockedBy) -> Records:
        """A better tier is free, and a blocker prevents the migration of the pod."""
        if not problem.blocker.has_event or self.is_reported(pod, problem.blocker):
            return ()
        self._reported.setdefault(pod.uid, set()).add(problem.blocker)
        self._count(kind, problem.blocker.name.lower())
        log.info("migration blocked", pod=pod.key, change=change, reason=problem.text)
        text = f"{change} is possible now, but the pod is not migrated: {problem.text}"
        return (RecordPodEvent(pod, "MigrationBlocked", text, "Normal"),)

    def possible(self, pod: Pod, kind: MigrationKind, change: str) -> Records:
        """A migration is possible, and the configured mode is to report it only."""
        if self.is_reported(pod, None):
            return ()
        self._reported.setdefault(pod.uid, set()).add(None)
        self._count(kind, "reported")
        text = f"{change} is possible now; restore.mode is report, so the pod is not migrated"
        return (RecordPodEvent(pod, "MigrationPossible", text, "Normal"),)

    def evicted(self, migration: Migration, pod: Pod | None) -> Records:
        """The pod is terminating; None if the watch has shown its end already."""
        log.info(
            "pod evicted",
            migration=migration.id,
            pod=migration.pod_name,
            change=migration.change,
        )
        if pod is None:
            return ()
        has = "it runs with" if migration.move is MigrationKind.RESTORE else "it waits for"
        owner = migration.owner
        text = (
            f"evicted so that {owner.kind} {owner.name} creates it again:"
            f" {profiles(migration.target)} is free on node {migration.node_name}, {has}"
            f" {profiles(migration.source)} (PodMigration {migration.id})"
        )
        return (RecordPodEvent(pod, _EVICTED[migration.move], text, "Normal"),)

    def arrived(self, migration: Migration, pod: Pod) -> Records:
        """The replacement has the target tier of the migration."""
        text = f"has {profiles(migration.target)} in place of {profiles(migration.source)}"
        text += f" (PodMigration {migration.id}, was {migration.pod_name})"
        return (RecordPodEvent(pod, _ARRIVED[migration.move], text, "Normal"),)

    def ended(self, migration: Migration, result: MigrationResult, text: str) -> Records:
        """The migration ended."""
        self._count(migration.move, result.label)
        log.info("migration ended", migration=migration.id, result=result.label, reason=text)
        if result is MigrationResult.SUCCEEDED:
            return ()
        namespace, owner = migration.namespace, migration.event_target
        about = f"{migration.move.value} of pod {migration.pod_name} ({migration.change})"
        failed = f"{about} failed: {text}"
        events = [RecordOwnerEvent(namespace, owner, "MigrationFailed", failed)]
        if result.is_failure and migration.attempt >= FAILURES_MAX:
            suspended = (
                f"{migration.attempt} migrations in a row did not get their tier; no pod of this"
                " template is migrated any more"
            )
            events.append(RecordOwnerEvent(namespace, owner, "MigrationSuspended", suspended))
        return tuple(events)

    def forget(self, uid: str) -> None:
        """The pod was deleted."""
        self._reported.pop(uid, None)

    def _count(self, kind: MigrationKind, result: str) -> None:
        self._metrics.moves.labels(kind.value, result).inc()
