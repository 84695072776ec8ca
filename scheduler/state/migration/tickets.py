"""The open migrations in the watched objects, and the phase of each. Pure.

The phase is derived from API objects, so a crash at any point loses nothing::

    WRITTEN   its pod runs                                             next: evict it
    LEAVING   its pod is being deleted                                 next: wait
    AWAITED   its pod is deleted, and no pod names the migration yet   next: wait
    ADMITTED  a pod that names the migration waits for its node        next: wait
    ARRIVED   that pod has a node                                      next: write the result

A migration whose object was just sent counts before the watch shows it, like an assumed placement,
so that no other pod gets its capacity. The executor acts on it after the watch has shown it.
"""

from __future__ import annotations

import enum
from collections.abc import Collection, Iterator, Mapping

from scheduler.model import well_known
from scheduler.model.crd.migration import Migration, WorkloadMatch, match_of
from scheduler.model.pods.pod import Pod


class MigrationPhase(enum.Enum):
    """How far a migration has come."""

    WRITTEN = "written"
    LEAVING = "leaving"
    AWAITED = "awaited"
    ADMITTED = "admitted"
    ARRIVED = "arrived"


class OpenMigrations:
    """Every open migration; only pods of ``scheduler_name`` are replacements."""

    def __init__(self, scheduler_name: str = well_known.SCHEDULER_NAME) -> None:
        self._scheduler_name = scheduler_name
        self._open: dict[str, Migration] = {}
        self._assumed: set[str] = set()
        #: By the migration that a pod names and the workload that it matches; the migration object
        #: has the final say.
        self._takers: dict[tuple[str, WorkloadMatch], Pod] = {}
        #: By pod: the migration that it names, and its workload.
        self.claims: dict[str, tuple[str, WorkloadMatch]] = {}

    def __len__(self) -> int:
        return len(self._open)

    def __iter__(self) -> Iterator[Migration]:
        """Oldest first."""
        return iter(sorted(self._open.values(), key=lambda one: (one.made_at, one.id)))

    def get(self, migration_id: str) -> Migration | None:
        """One open migration."""
        return self._open.get(migration_id)

    def is_seen(self, migration_id: str) -> bool:
        """Whether the watch of this process has shown the object."""
        return migration_id in self._open and migration_id not in self._assumed

    # --- objects -----------------------------------------------------------------------------

    def assume(self, migration: Migration) -> None:
        """Count a migration whose object is being created."""
        self._open[migration.id] = migration
        self._assumed.add(migration.id)

    def upsert(self, migration: Migration) -> bool:
        """Fold the newest state of an object; returns whether it is new to this process."""
        is_new = not self.is_seen(migration.id)
        self._open[migration.id] = migration
        self._assumed.discard(migration.id)
        return is_new

    def delete(self, migration_id: str) -> Migration | None:
        """The migration ended, or its object was never stored."""
        self._assumed.discard(migration_id)
        return self._open.pop(migration_id, None)

    # --- replacements ----------------------------------------------------------------------

    def upsert_pod(self, pod: Pod) -> None:
        """Fold a pod: the first one that names a migration is its replacement."""
        self.delete_pod(pod.uid)
        migration_id = pod.annotations.get(well_known.MIGRATION)
        if migration_id is None or pod.scheduler_name != self._scheduler_name:
            return
        match = match_of(pod)
        if match is not None and (migration_id, match) not in self._takers:
            self._takers[migration_id, match] = pod
            self.claims[pod.uid] = migration_id, match

    def delete_pod(self, uid: str) -> None:
        """A replacement was deleted: another pod may become the replacement."""
        claim = self.claims.pop(uid, None)
        if claim is not None:
            del self._takers[claim]

    def taker(self, migration: Migration) -> Pod | None:
        """The replacement. A pod that names the migration without matching its workload is none."""
        pod = self._takers.get((migration.id, migration.match))
        return None if pod is None or pod.uid == migration.pod_uid else pod

    # --- reading -----------------------------------------------------------------------------

    def phase(self, migration: Migration, pods: Mapping[str, Pod]) -> MigrationPhase:
        """The phase of a migration, as the watches show it."""
        taker = self.taker(migration)
        if taker is not None and not taker.is_deleting:
            return MigrationPhase.ARRIVED if taker.node_name else MigrationPhase.ADMITTED
        pod = pods.get(migration.pod_uid)
        if pod is None:
            return MigrationPhase.AWAITED
        return MigrationPhase.LEAVING if pod.is_deleting else MigrationPhase.WRITTEN

    def for_newcomer(
        self, pod: Pod, pods: Mapping[str, Pod], evicted: Collection[str]
    ) -> Migration | None:
        """The oldest migration whose replacement a pod under admission may be.

        ``evicted`` are migrations whose eviction was sent, which the watch may not show yet. A
        migration has its replacement once the watch shows that pod. Until then a quota may have
        rejected the pod, and its controller retries within milliseconds.
        """
        match = match_of(pod)
        for migration in self:
            phase = self.phase(migration, pods)
            is_due = phase in (MigrationPhase.LEAVING, MigrationPhase.AWAITED) or (
                phase is MigrationPhase.WRITTEN and migration.id in evicted
            )
            if is_due and migration.match == match:
                return migration
        return None

    def of_workload(self, workload: str) -> Migration | None:
        """The open migration of a workload, if there is one."""
        return next((one for one in self._open.values() if one.workload == workload), None)
