"""Finished migrations: the result is written into the object, which is kept for an hour.

::

    open --complete--> written, repeated until the watch shows it --> ended --an hour--> deleted

A new process needs the results of earlier migrations of a workload, and its pods may be deleted
then. So it reads them from these objects. If the kind has no status yet, ``bind/migration_worker``
deletes objects at once, and a new process knows only what pods show.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import msgspec

from scheduler.model.crd.migration import Migration
from scheduler.model.crd.migration_actions import CompleteMigration, DeleteMigration
from scheduler.model.crd.migration_result import MigrationEnd
from scheduler.state.effects import NOTHING, Effects
from scheduler.state.migration.history import HOUR_S, MigrationHistory

REPEAT_AFTER_S: Final = 10.0
#: Above the normal number of an hour; the oldest are deleted first.
KEPT_MAX: Final = 2000


class WrittenResult(msgspec.Struct):
    """A result that the watch does not show yet."""

    end: MigrationEnd
    sent_at: float


class FinishedMigrations:
    """Ended migrations, until their objects are deleted."""

    def __init__(self, history: MigrationHistory) -> None:
        self._history = history
        self._written: dict[str, WrittenResult] = {}
        self._ended: dict[str, Migration] = {}
        self._deleted_at: dict[str, float] = {}

    def result_of(self, migration_id: str) -> MigrationEnd | None:
        """The result that this process wrote for an open migration."""
        written = self._written.get(migration_id)
        return None if written is None else written.end

    def complete(self, migration: Migration, end: MigrationEnd) -> CompleteMigration:
        """A migration ended: write its result."""
        self._written[migration.id] = WrittenResult(end, end.at)
        return CompleteMigration(migration, end)

    def repeat(self, migration: Migration, now: float) -> Effects:
        """Write the result again if the watch does not show it in time."""
        written = self._written[migration.id]
        if now - written.sent_at < REPEAT_AFTER_S:
            return NOTHING
        written.sent_at = now
        return (CompleteMigration(migration, written.end),)

    def upsert(self, migration: Migration) -> bool:
        """The watch shows a migration with a result; returns whether it is new."""
        assert migration.end is not None, "the executor has the open ones"
        is_news = migration.id not in self._ended
        self._ended[migration.id] = migration
        self._written.pop(migration.id, None)
        if is_news:
            self._history.remember(migration, migration.end)
        return is_news

    def delete(self, migration_id: str) -> None:
        """The object was deleted."""
        for known in (self._written, self._ended, self._deleted_at):
            known.pop(migration_id, None)

    def replace(self, migration_ids: Iterable[str]) -> None:
        """The list of all objects: any other one was deleted."""
        for migration_id in self._ended.keys() - set(migration_ids):
            self.delete(migration_id)

    def tick(self, now: float) -> Effects:
        """Delete the objects that were kept long enough; called by the leader only."""
        due: list[DeleteMigration] = []
        oldest = sorted(self._ended.values(), key=ended_at)
        excess = len(oldest) - KEPT_MAX
        for position, migration in enumerate(oldest):
            if position >= excess and now - ended_at(migration) < HOUR_S:
                break
            if now - self._deleted_at.get(migration.id, float("-inf")) >= REPEAT_AFTER_S:
                self._deleted_at[migration.id] = now
                due.append(DeleteMigration(migration))
        return tuple(due)


def ended_at(migration: Migration) -> float:
    """The end time of a migration; open ones sort last."""
    return migration.end.at if migration.end is not None else float("inf")
