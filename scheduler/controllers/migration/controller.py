"""One scheduler's moves: what it hears, what it does once a second, what admissions ask of it.

Who is chosen is ``scheduler/controllers/migration/planner``'s to say, and what becomes of a chosen
one is the matter of ``scheduler/controllers/migration/executor``. Every replica hears everything;
only who leads acts."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from scheduler.containment import Contain, uncontained
from scheduler.controllers.migration.executor import MigrationExecutor
from scheduler.controllers.migration.finished import ended_at
from scheduler.controllers.migration.planner import (
    MigrationInputs,
    MigrationPlanner,
    PlannerSettings,
)
from scheduler.model import well_known
from scheduler.model.crd.migration import Migration
from scheduler.model.crd.migration_actions import Errand
from scheduler.model.pod import Pod
from scheduler.report.events.migration_events import MigrationEvents
from scheduler.state import event as ev
from scheduler.state.migration.history import MigrationHistory


class MigrationHooks(Protocol):
    """What a loop and its admissions ask of moves."""

    def handle(self, event: ev.Event, acts: Callable[[], bool]) -> list[ev.Change]:
        """An event that is about to be folded; ``acts`` is whether this process leads."""

    def tick(self) -> list[ev.Change]:
        """A second has passed; asked only of who leads."""

    def ticket_for(self, pod: Pod) -> Migration | None:
        """The ticket that a pod under review takes, if one waits for it."""

    def shunned(self, pod: Pod) -> frozenset[str]:
        """Tiers on which pods like this one crashed."""


class MigrationController:
    """One scheduler's moves; ``wall`` is seconds since 1970, ``fresh`` a new random word.

    How a pod ended that ``look_up`` was asked about is heard as a pod in its last state.
    """

    def __init__(
        self,
        state: MigrationInputs,
        settings: PlannerSettings,
        moved: MigrationEvents,
        send: Callable[[Errand], None],
        look_up: Callable[[Pod], None],
        wall: Callable[[], float],
        fresh: Callable[[], str],
        contain: Contain = uncontained,
    ) -> None:
        self._contain = contain
        self._state = state
        self._settings = settings
        self._moved = moved
        self._look_up = look_up
        self._wall = wall
        self._history = MigrationHistory(settings.timings, state.cluster.scheduler_name)
        self._course = MigrationExecutor(state.cluster, self._history, moved, send, fresh)
        self.tickets = self._course.tickets
        self._scout = MigrationPlanner(
            state, settings, self._history, self.tickets, moved, send, contain
        )
        self._is_recalled = False

    # --- for admissions ----------------------------------------------------------------------

    def ticket_for(self, pod: Pod) -> Migration | None:
        """The ticket that a pod under review takes, if one waits for it."""
        return self.tickets.for_newcomer(pod, self._state.cluster.pods, self._course.evicted())

    def shunned(self, pod: Pod) -> frozenset[str]:
        """Tiers on which pods like this one crashed."""
        return self._history.crashed_on(pod)

    # --- what happens ------------------------------------------------------------------------

    def handle(self, event: ev.Event, acts: Callable[[], bool]) -> list[ev.Change]:
        """An event that is about to be folded; ``acts`` is whether this process leads."""
        self._scout.news()
        now = self._wall()
        match event:
            case ev.PodUpdated(pod):
                return self._pod_seen(pod, now, acts)
            case ev.PodDeleted(uid):
                self._pod_vanished(uid)
            case ev.PodsReplaced(pods):
                self._pods_listed(pods)
            case ev.OwnerRead(ticket_id=""):
                wish = self._scout.owner_read(event, now)
                if wish is not None and event.facts is not None:
                    self._course.begin(wish, event.facts, now)
            case _ if isinstance(event, ev.MoveNews):
                return self._ticket_news(event, now, acts)
        return []

    def _ticket_news(
        self, event: ev.MoveNews, now: float, acts: Callable[[], bool]
    ) -> list[ev.Change]:
        match event:
            case ev.MigrationUpdated(ticket):
                changes = self._ticket_seen(ticket, now)
                is_open = ticket.end is None
                return self._course.step(ticket, now) if is_open and acts() else changes
            case ev.MigrationDeleted(ticket_id):
                return self._gone(ticket_id, now)
            case ev.MigrationsReplaced(tickets):
                return self._tickets_listed(tickets, now)
            case ev.MigrationWriteFailed(ticket_id, message):
                return self._course.write_failed(ticket_id, message, now)
            case ev.OwnerRead():
                return self._course.owner_read(event, now)
            case ev.EvictionEnded():
                return self._course.eviction_ended(event, now)

    def _gone(self, ticket_id: str, now: float) -> list[ev.Change]:
        """A move is over, however we learned it: what was promised for it waits for nobody."""
        self._state.promises.cancel(ticket_id)
        return self._course.pod_deleted(ticket_id, now)

    def _ticket_seen(self, ticket: Migration, now: float) -> list[ev.Change]:
        if ticket.end is None:
            self._course.pod_updated(ticket, now)
            return []
        self._state.promises.cancel(ticket.id)
        return self._course.over(ticket)

    def _tickets_listed(self, tickets: tuple[Migration, ...], now: float) -> list[ev.Change]:
        listed = {ticket.id for ticket in tickets}
        gone = [one.id for one in self.tickets if one.id not in listed]
        changes = [
            change
            for ticket_id in gone
            if self.tickets.is_seen(ticket_id)
            for change in self._gone(ticket_id, now)
        ]
        self._course.endings.replace(listed)
        for ticket in sorted(tickets, key=ended_at):
            changes += self._ticket_seen(ticket, now)
        return changes

    def _pod_seen(self, pod: Pod, now: float, acts: Callable[[], bool]) -> list[ev.Change]:
        if pod.is_terminal:
            self._scout.record_final_state(pod)
            return []
        self._note(pod)
        ticket = self.tickets.get(pod.annotations.get(well_known.MOVE, ""))
        return self._course.step(ticket, now) if ticket is not None and acts() else []

    def _note(self, pod: Pod) -> None:
        self.tickets.upsert_pod(pod)
        self._scout.note(pod)

    def _pod_vanished(self, uid: str) -> None:
        pod = self._state.cluster.pods.get(uid)
        if pod is not None and self._scout.needs_final_state(pod):
            self._look_up(pod)
        self.tickets.delete_pod(uid)
        self._moved.forget(uid)
        self._scout.forget(uid)

    def _pods_listed(self, pods: tuple[Pod, ...]) -> None:
        listed = {pod.uid for pod in pods}
        for uid in [uid for uid in self._state.cluster.pods if uid not in listed]:
            self._pod_vanished(uid)
        for pod in pods:
            with self._contain("move", pod.key):
                self._note(pod)
                if not self._is_recalled:
                    self._history.recall(pod)
        self._is_recalled = True

    def tick(self) -> list[ev.Change]:
        """Take every move further, and look for new ones; asked only of who leads."""
        now = self._wall()
        changes: list[ev.Change] = []
        for one in tuple(self.tickets):
            with self._contain("move", one.id):
                changes += self._course.step(one, now)
        self._course.endings.tick(now)
        if self._settings.mode != "off":
            self._scout.plan(now)
        return changes


class NoMigration:
    """Moves where there are none: a scheduler without an API server to ask."""

    def handle(self, event: ev.Event, acts: Callable[[], bool]) -> list[ev.Change]:
        """Nothing follows."""
        return []

    def tick(self) -> list[ev.Change]:
        """Nothing is done."""
        return []

    def ticket_for(self, pod: Pod) -> Migration | None:
        """Nobody is waited for."""
        return None

    def shunned(self, pod: Pod) -> frozenset[str]:
        """Nothing is known."""
        return frozenset()
