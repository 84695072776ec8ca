"""The migrations of each workload, to limit their number. Pure.

Every replica folds it from the watches. After a restart the PodMigration objects of the last hour
restore it. Older migrations are restored from pods: the migration name on a pod has the number of
the attempt, and the record of its tier shows whether it succeeded.
"""

from __future__ import annotations

from typing import Final

import msgspec

from scheduler.model import well_known
from scheduler.model.crd.migration import Migration, attempt_of, is_name
from scheduler.model.crd.migration_blockers import BlockedBy, Blocker
from scheduler.model.crd.migration_result import MigrationEnd
from scheduler.model.pods.pod import Pod
from scheduler.model.timestamps import epoch

HOUR_S: Final = 3600.0
FAILURES_MAX: Final = 3
WORKLOADS_MAX: Final = 10_000


class Timings(msgspec.Struct, frozen=True, kw_only=True):
    """Seconds and counts that limit migrations; the configuration's ``restore`` section."""

    steady_s: float = 1.0
    min_age_s: float = 60.0
    rescue_after_s: float = 60.0
    cooldown_s: float = 60.0
    migrations_per_hour: int = 20


class WorkloadHistory(msgspec.Struct):
    """One workload: its migrations, the end of the last one, and the number of failures in a row.

    ``moves`` has the end of each migration or, while it is open, its start.
    """

    moves: dict[str, float]
    revision: str = ""
    ended_at: float = 0.0
    failures: int = 0


class MigrationHistory:
    """The migrations of the last hour, and the tiers that must not be retried."""

    def __init__(self, timings: Timings, scheduler_name: str = well_known.SCHEDULER_NAME) -> None:
        self._timings = timings
        self._scheduler_name = scheduler_name
        self._past: dict[str, WorkloadHistory] = {}
        self._crashed: dict[tuple[str, str], frozenset[str]] = {}

    # --- folding -----------------------------------------------------------------------------

    def began(self, migration: Migration, now: float) -> None:
        """A migration object was created."""
        past = self._of(migration.workload, migration.revision)
        past.moves = {name: at for name, at in past.moves.items() if now - at < HOUR_S}
        past.moves[migration.id] = now

    def ended(self, migration: Migration, now: float, *, is_failure: bool | None) -> None:
        """A migration ended; ``is_failure`` is None if no pod was evicted for it."""
        past = self._of(migration.workload, migration.revision)
        past.ended_at = max(past.ended_at, now)
        if migration.id in past.moves:
            past.moves[migration.id] = now
        # The object contains the number of earlier failures, which this process may not have seen.
        before = max(past.failures, migration.attempt - 1)
        past.failures = before if is_failure is None else migration.attempt if is_failure else 0

    def remember(self, migration: Migration, end: MigrationEnd) -> None:
        """Fold an ended migration that this process may not have seen while it was open."""
        past = self._of(migration.workload, migration.revision)
        past.moves[migration.id] = end.at
        self.ended(migration, end.at, is_failure=end.result.is_failure)

    def recall(self, pod: Pod) -> None:
        """Restore a deleted migration from the pod that it created.

        Only our webhook writes such a name, and only on pods of this scheduler. On another pod, or
        in another form, the pod's author wrote it.
        """
        name = pod.annotations.get(well_known.MIGRATION, "")
        at = epoch(pod.created)
        is_ours = pod.scheduler_name == self._scheduler_name
        if at is None or not is_ours or not is_name(name):
            return
        past = self._of(pod.workload, pod.revision)
        if name in past.moves:
            return
        past.moves[name] = at
        past.ended_at = max(past.ended_at, at)
        if pod.is_degraded:
            past.failures = max(past.failures, attempt_of(name))

    def note_crashes(self, pod: Pod) -> None:
        """A pod crashes on another tier than requested: exclude that tier for its workload."""
        if not pod.crashes or not pod.is_degraded:
            return
        key = (pod.workload, pod.revision)
        known = self._crashed.pop(key, frozenset())
        if len(self._crashed) >= WORKLOADS_MAX:
            del self._crashed[next(iter(self._crashed))]
        self._crashed[key] = known | frozenset(r for r in pod.gpu_requests if well_known.is_mig(r))

    def _of(self, workload: str, revision: str) -> WorkloadHistory:
        past = self._past.pop(workload, None) or WorkloadHistory({}, revision)
        if past.revision != revision:  # a new revision has no recorded crashes
            past.revision, past.failures = revision, 0
        if len(self._past) >= WORKLOADS_MAX:
            del self._past[next(iter(self._past))]
        self._past[workload] = past
        return past

    # --- reading -----------------------------------------------------------------------------

    def attempt(self, workload: str, revision: str) -> int:
        """The number of the next migration of this workload, counted from its last success."""
        past = self._past.get(workload)
        return past.failures + 1 if past is not None and past.revision == revision else 1

    def crashed_on(self, pod: Pod) -> frozenset[str]:
        """Resources on which migrated pods of this revision crashed."""
        return self._crashed.get((pod.workload, pod.revision), frozenset())

    def blocker(self, pod: Pod, now: float) -> BlockedBy | None:
        """The reason why this pod's workload is not migrated now."""
        past = self._past.get(pod.workload)
        if past is None:
            return None
        timings = self._timings
        failures = past.failures if past.revision == pod.revision else 0
        if failures >= FAILURES_MAX:
            return BlockedBy(
                Blocker.MIGRATION_SUSPENDED,
                f"{failures} migrations in a row did not get their tier; no more until the"
                " workload's template changes",
            )
        cooldown_s = timings.cooldown_s * 2**failures
        last = max(past.ended_at, *past.moves.values())
        if now - last < cooldown_s:
            return BlockedBy(Blocker.COOLDOWN, f"the last migration was {now - last:.0f} s ago")
        recent = sum(1 for at in past.moves.values() if now - at < HOUR_S)
        if recent >= timings.migrations_per_hour:
            return BlockedBy(
                Blocker.HOURLY_LIMIT,
                f"{recent} migrations within an hour; at most"
                f" {timings.migrations_per_hour} are allowed",
            )
        return None
