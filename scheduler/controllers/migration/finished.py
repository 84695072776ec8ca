"""Tickets that are over: how each ended is written into it, and it is kept for an hour.

::

    open --say--> told, asked again until the watch shows it --see--> ended --an hour--> deleted

What moves did to a workload must not be forgotten by a restart, and its pods may be gone by then.
So whoever begins reads it here. Where the kind has no status yet, ``bind/migration_worker`` deletes
tickets at once, and a restart forgets what pods do not tell."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final

import msgspec

from scheduler.model.crd.migration import Migration
from scheduler.model.crd.migration_actions import CompleteMigration, DeleteMigration, Errand
from scheduler.model.crd.migration_result import MigrationEnd
from scheduler.state.migration.history import HOUR_S, MigrationHistory

REPEAT_AFTER_S: Final = 10.0
#: More than a cluster makes in an hour, unless something is very wrong; the oldest go first.
KEPT_MAX: Final = 2000


class WrittenResult(msgspec.Struct):
    """An end that the watch does not show yet."""

    end: MigrationEnd
    sent_at: float


class FinishedMigrations:
    """Writes ends down, and lets go of them in time."""

    def __init__(self, history: MigrationHistory, send: Callable[[Errand], None]) -> None:
        self._history = history
        self._send = send
        self._said: dict[str, WrittenResult] = {}
        self._ended: dict[str, Migration] = {}
        self._erased_at: dict[str, float] = {}

    def recorded(self, ticket_id: str) -> MigrationEnd | None:
        """The end that this process gave an open ticket."""
        said = self._said.get(ticket_id)
        return None if said is None else said.end

    def record(self, ticket: Migration, end: MigrationEnd) -> None:
        """A move is over."""
        self._said[ticket.id] = WrittenResult(end, end.at)
        self._send(CompleteMigration(ticket, end))

    def repeat(self, ticket: Migration, now: float) -> None:
        """Say it again where nobody seems to have heard."""
        said = self._said[ticket.id]
        if now - said.sent_at >= REPEAT_AFTER_S:
            said.sent_at = now
            self._send(CompleteMigration(ticket, said.end))

    def upsert(self, ticket: Migration) -> bool:
        """The watch shows a ticket that ended; whether that is news."""
        assert ticket.end is not None, "open ones are the course's"
        is_news = ticket.id not in self._ended
        self._ended[ticket.id] = ticket
        self._said.pop(ticket.id, None)
        if is_news:
            self._history.remember(ticket, ticket.end)
        return is_news

    def delete(self, ticket_id: str) -> None:
        """A ticket is not there any more."""
        for known in (self._said, self._ended, self._erased_at):
            known.pop(ticket_id, None)

    def replace(self, ticket_ids: Iterable[str]) -> None:
        """The list of all tickets: what is not among them is gone."""
        for ticket_id in self._ended.keys() - set(ticket_ids):
            self.delete(ticket_id)

    def tick(self, now: float) -> None:
        """Delete what was kept for long enough; asked only of who leads."""
        oldest = sorted(self._ended.values(), key=ended_at)
        spare = len(oldest) - KEPT_MAX
        for place, ticket in enumerate(oldest):
            if place >= spare and now - ended_at(ticket) < HOUR_S:
                return
            if now - self._erased_at.get(ticket.id, float("-inf")) >= REPEAT_AFTER_S:
                self._erased_at[ticket.id] = now
                self._send(DeleteMigration(ticket))


def ended_at(ticket: Migration) -> float:
    """When its move ended; an open one comes after all that are over."""
    return ticket.end.at if ticket.end is not None else float("inf")
