"""Migrations of pods to another MIG tier: reads events, plans and executes, serves admissions.

::

    loop --events--> MigrationController --actions--> MigrationWorker --> the API server
      ^--------------- responses, and the watch of migration objects -----------'

``planner`` chooses the pods, ``executor`` executes a chosen migration to its result. Every replica
reads every event; only the leader sends.
"""

from __future__ import annotations

from collections.abc import Callable

from scheduler.controllers.leadership.gate import LeaderGate
from scheduler.controllers.migration.executor import MigrationExecutor
from scheduler.controllers.migration.finished import ended_at
from scheduler.controllers.migration.planner import MigrationPlanner, PlannerSettings
from scheduler.model import well_known
from scheduler.model.actions import LookUpPod
from scheduler.model.crd.migration import Migration
from scheduler.model.pods.pod import Pod
from scheduler.report.containment import Containment
from scheduler.report.events.migration_events import MigrationEvents
from scheduler.state import event as ev
from scheduler.state.effects import NOTHING, Effects
from scheduler.state.migration.history import MigrationHistory
from scheduler.state.scheduler_state import SchedulerState


class NoMigration:
    """A scheduler without migrations, as in a simulation; the controller overrides all of it."""

    name = "migrations"
    handles: tuple[type, ...] = ()

    def handle(self, event: ev.Event, now: float) -> Effects:
        """Handle an event that is about to be folded into the cluster state."""
        return NOTHING

    def tick(self, now: float, *, leads: bool) -> Effects:
        """A second has passed."""
        return NOTHING

    def migration_for(self, pod: Pod) -> Migration | None:
        """The migration whose replacement a pod under admission is, if there is one."""
        return None

    def avoided_tiers(self, pod: Pod) -> frozenset[str]:
        """Tiers on which pods like this one crashed."""
        return frozenset()


class MigrationController(NoMigration):
    """The migrations of one scheduler; ``wall`` is Unix time, ``new_id`` returns a random word."""

    #: Any event may make a migration possible that was not.
    handles = ev.EVERY

    def __init__(
        self,
        state: SchedulerState,
        settings: PlannerSettings,
        events: MigrationEvents,
        gate: LeaderGate,
        contain: Containment,
        wall: Callable[[], float],
        new_id: Callable[[], str],
    ) -> None:
        self._state = state
        self._settings = settings
        self._events = events
        self._gate = gate
        self._contain = contain
        self._wall = wall
        self._history = MigrationHistory(settings.timings, state.cluster.scheduler_name)
        self._executor = MigrationExecutor(state.cluster, self._history, events, new_id)
        self.open = self._executor.open
        self._planner = MigrationPlanner(state, settings, self._history, self.open, events, contain)
        self._is_recalled = False

    # --- for admissions ----------------------------------------------------------------------

    def migration_for(self, pod: Pod) -> Migration | None:
        """The migration whose replacement a pod under admission is, if there is one."""
        if not self.open:
            return None
        pods = self._state.cluster.pods
        return self.open.for_newcomer(pod, pods, self._executor.evicted())

    def avoided_tiers(self, pod: Pod) -> frozenset[str]:
        """Tiers on which pods like this one crashed."""
        return self._history.crashed_on(pod)

    # --- events ------------------------------------------------------------------------------

    def handle(self, event: ev.Event, now: float) -> Effects:
        """Handle an event that is about to be folded into the cluster state."""
        self._planner.infeasible.clear()
        now = self._wall()
        match event:
            case ev.PodUpdated(pod):
                return self._upsert_pod(pod, now)
            case ev.PodDeleted(uid):
                return self._delete_pod(uid)
            case ev.PodsReplaced(pods):
                return self._replace_pods(pods)
            case ev.OwnerRead(migration_id=""):
                candidate, effects = self._planner.owner_read(event, now)
                if candidate is not None and event.facts is not None:
                    effects += self._executor.begin(candidate, event.facts, now)
                return effects
            case _ if isinstance(event, ev.MigrationEvent):
                return self._handle_migration(event, now)
        return NOTHING

    def _handle_migration(self, event: ev.MigrationEvent, now: float) -> Effects:
        match event:
            case ev.MigrationUpdated(migration):
                effects = self._upsert(migration, now)
                if migration.end is None and self._gate.is_open():
                    effects += self._executor.step(migration, now)
                return effects
            case ev.MigrationDeleted(migration_id):
                return self._delete(migration_id, now)
            case ev.MigrationsReplaced(migrations):
                return self._replace(migrations, now)
            case ev.MigrationWriteFailed(migration_id, message):
                return self._executor.write_failed(migration_id, message, now)
            case ev.OwnerRead():
                return self._executor.owner_read(event, now)
            case ev.EvictionEnded():
                return self._executor.eviction_ended(event, now)

    def _upsert(self, migration: Migration, now: float) -> Effects:
        if migration.end is not None:
            self._state.reservations.cancel(migration.id)
        return self._executor.upsert(migration, now)

    def _delete(self, migration_id: str, now: float) -> Effects:
        """A migration ended, with any result: the reservation of its replacement ends."""
        self._state.reservations.cancel(migration_id)
        return self._executor.delete(migration_id, now)

    def _replace(self, migrations: tuple[Migration, ...], now: float) -> Effects:
        listed = {migration.id for migration in migrations}
        effects: Effects = ()
        for migration_id in [one.id for one in self.open if one.id not in listed]:
            if self.open.is_seen(migration_id):
                effects += self._delete(migration_id, now)
        self._executor.finished.replace(listed)
        for migration in sorted(migrations, key=ended_at):
            effects += self._upsert(migration, now)
        return effects

    # --- pods --------------------------------------------------------------------------------

    def _upsert_pod(self, pod: Pod, now: float) -> Effects:
        if pod.is_terminal:
            self._planner.record_final_state(pod)
            return NOTHING
        self._note(pod)
        name = pod.annotations.get(well_known.MIGRATION)
        migration = self.open.get(name) if name else None
        if migration is None or not self._gate.is_open():
            return NOTHING
        return self._executor.step(migration, now)

    def _note(self, pod: Pod) -> None:
        # Nearly no pod names a migration, or has another tier than it asked for.
        if well_known.MIGRATION in pod.annotations or pod.uid in self.open.claims:
            self.open.upsert_pod(pod)
        if pod.is_degraded:
            self._planner.upsert_pod(pod)

    def _delete_pod(self, uid: str) -> Effects:
        pod = self._state.cluster.pods.get(uid)
        is_looked_up = pod is not None and self._planner.needs_final_state(pod)
        self.open.delete_pod(uid)
        self._events.forget(uid)
        self._planner.delete_pod(uid)
        # The result arrives as the pod in its final state.
        return (LookUpPod(pod),) if pod is not None and is_looked_up else NOTHING

    def _replace_pods(self, pods: tuple[Pod, ...]) -> Effects:
        listed = {pod.uid for pod in pods}
        missing = [uid for uid in self._state.cluster.pods if uid not in listed]
        effects = tuple(effect for uid in missing for effect in self._delete_pod(uid))
        for pod in pods:
            if not pod.annotations and pod.uid not in self.open.claims:
                continue  # most pods: no migration, and the tier that they asked for
            with self._contain("move", pod.key):
                self._note(pod)
                if not self._is_recalled:
                    self._history.recall(pod)
        self._is_recalled = True
        return effects

    def tick(self, now: float, *, leads: bool) -> Effects:
        """Take the next step of every migration, and plan new ones."""
        if not leads:
            return NOTHING
        now = self._wall()
        effects: Effects = ()
        for migration in tuple(self.open):
            with self._contain("move", migration.id):
                effects += self._executor.step(migration, now)
        effects += self._executor.finished.tick(now)
        if self._settings.mode != "off":
            effects += self._planner.plan(now)
        return effects
