"""Chooses the pods that a migration would give a better tier, before a migration object exists.

Once a second it checks degraded pods (``decide/migration/restore``) and long-pending pods
(``decide/migration/rescue``). If a better tier is free for a while without interruption, and
nothing known locally blocks the migration, the owner is read. A check costs no request and no
write; without an event since the last check, its result still holds.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain
from typing import Final

import msgspec

from scheduler.decide.admission.admit import Rules
from scheduler.decide.admission.fallback_policy import PolicyError, policy_of
from scheduler.decide.admission.tier_selection import is_degradable
from scheduler.decide.migration import preconditions, rescue, restore
from scheduler.decide.migration.claims import degraded_pods
from scheduler.decide.migration.restore import MigrationCandidate
from scheduler.model.crd.migration import MigrationKind, match_of
from scheduler.model.crd.migration_actions import ReadOwner, read_owner_of
from scheduler.model.crd.migration_blockers import BlockedBy, Blocker
from scheduler.model.pods.pod import Pod
from scheduler.report.containment import Containment
from scheduler.report.events.migration_events import MigrationEvents
from scheduler.state import event as ev
from scheduler.state.effects import NOTHING, Effects
from scheduler.state.migration.history import MigrationHistory, Timings
from scheduler.state.migration.tickets import OpenMigrations
from scheduler.state.scheduler_state import SchedulerState

OPEN_MAX: Final = 8
LOOKS_MAX: Final = 16
PER_GROUP_MAX: Final = 4
#: The first and the longest pause of an owner that blocks a migration or cannot be read.
BLOCKED_S: Final = (30.0, 600.0)
#: The same of an owner whose read failed because the API server was busy or unreachable.
BUSY_S: Final = (1.0, 30.0)
BACKOFFS_MAX: Final = 10_000
ANSWER_MAX_S: Final = 30.0


class PlannerSettings(msgspec.Struct, frozen=True, kw_only=True):
    """The configuration: whether pods are migrated, and how often."""

    mode: str = "on"
    timings: Timings = Timings()
    rules: Rules = Rules()


class MigrationPlanner:
    """Plans migrations, within limits; ``owner_read`` receives the owner."""

    def __init__(
        self,
        state: SchedulerState,
        settings: PlannerSettings,
        history: MigrationHistory,
        open_migrations: OpenMigrations,
        events: MigrationEvents,
        contain: Containment,
    ) -> None:
        self._contain = contain
        self._state = state
        self._settings = settings
        self._history = history
        self._open = open_migrations
        self._events = events
        self._degraded: dict[str, Pod] = {}
        #: By pod: the candidate whose owner is being read, and the start of the read.
        self._asking: dict[str, tuple[MigrationCandidate, float]] = {}
        #: By pod: the possible migration, and since when it is possible.
        self._steady: dict[str, tuple[object, float]] = {}
        #: By workload: when its backoff ends, and how long it is.
        self._backoff: dict[str, tuple[float, float]] = {}
        #: What could not be migrated at the last look; any event may change that.
        self.infeasible: set[object] = set()

    def upsert_pod(self, pod: Pod) -> None:
        """A pod's newest state."""
        if not self._is_degraded(pod):
            return
        self._history.note_crashes(pod)
        if pod.node_name:
            self._degraded[pod.uid] = pod

    def needs_final_state(self, pod: Pod) -> bool:
        """Whether the final state of a deleted pod matters: its controller may create another
        one.
        """
        is_replaced = pod.owner is not None and pod.node_name and not pod.is_deleting
        return bool(is_replaced) and self._is_degraded(pod)

    def record_final_state(self, pod: Pod) -> None:
        """The last state of a deleted pod."""
        if self._is_degraded(pod):
            self._history.note_crashes(pod)

    def _is_degraded(self, pod: Pod) -> bool:
        return pod.scheduler_name == self._state.cluster.scheduler_name and pod.is_degraded

    def delete_pod(self, uid: str) -> None:
        """A pod was deleted."""
        for known in (self._degraded, self._asking, self._steady):
            known.pop(uid, None)

    def plan(self, now: float) -> Effects:
        """Look for pods to migrate."""
        for uid in [u for u, (_, at) in self._asking.items() if now - at >= ANSWER_MAX_S]:
            del self._asking[uid]
        effects: Effects = ()
        looks = LOOKS_MAX
        for kind, pod in self._candidates():
            if looks <= 0 or len(self._open) + len(self._asking) >= OPEN_MAX:
                break
            cost: int | None = None
            with self._contain("move", pod.key):
                cost, found = self._consider(kind, pod, now)
                effects += found
            if cost is None:
                # after an internal error this pod backs off, others are planned
                self._back_off(pod, now)
            looks -= 1 if cost is None else cost
        return effects

    def owner_read(
        self, event: ev.OwnerRead, now: float
    ) -> tuple[MigrationCandidate | None, Effects]:
        """The owner of a pod was read; the candidate whose migration may begin now."""
        candidate, _ = self._asking.pop(event.pod_uid, (None, 0.0))
        pod = self._state.cluster.pods.get(event.pod_uid)
        if candidate is None or pod is None or not event.is_sent:
            return None, NOTHING
        if event.facts is None:
            limits_s = BUSY_S if event.is_busy else BLOCKED_S
            self._back_off(pod, now, limits_s)
            return None, NOTHING
        kind, change = candidate.move, candidate.change
        problem = preconditions.owner_blocker(pod, kind, event.facts)
        problem = problem or self._group_blocker(pod)
        if problem is not None:
            self._back_off(pod, now)
            return None, self._events.blocked(pod, kind, change, problem)
        if self._settings.mode == "report":
            self._back_off(pod, now)
            return None, self._events.possible(pod, kind, change)
        self._backoff.pop(pod.workload, None)
        newest = self._look(kind, pod)
        is_same = newest is not None and newest.key == candidate.key
        return (newest if is_same else None), NOTHING

    def _back_off(self, pod: Pod, now: float, limits_s: tuple[float, float] = BLOCKED_S) -> None:
        """An owner that blocks a migration is read at growing intervals."""
        first_s, longest_s = limits_s
        _, pause_s = self._backoff.pop(pod.workload, (0.0, 0.0))
        if len(self._backoff) >= BACKOFFS_MAX:
            del self._backoff[next(iter(self._backoff))]
        pause_s = min(longest_s, max(first_s, pause_s * 2))
        self._backoff[pod.workload] = (now + pause_s, pause_s)

    def _candidates(self) -> Iterator[tuple[MigrationKind, Pod]]:
        cluster, queue = self._state.cluster, self._state.queue
        degraded = (*self._degraded.values(), *degraded_pods(cluster))
        for pod in restore.candidates(degraded, cluster.scheduler_name):
            yield MigrationKind.RESTORE, pod
        for pod in rescue.candidates(queue.lacking_one(), PER_GROUP_MAX):
            newest = cluster.pods.get(pod.uid)
            if newest is not None:
                yield MigrationKind.RESCUE, newest

    def _consider(self, kind: MigrationKind, pod: Pod, now: float) -> tuple[int, Effects]:
        """Check one pod; returns the cost of the check, and its effects."""
        problem = self._blocker(kind, pod, now)
        if self._is_reported(pod) or (problem is not None and self._is_silent(pod, problem)):
            return 0, NOTHING
        if kind is MigrationKind.RESCUE and not is_degradable(pod):
            return 0, NOTHING
        equivalence_class = (kind, restore.group_key(self._state.cluster.topology, pod))
        if equivalence_class in self.infeasible:
            self._steady.pop(pod.uid, None)
            return 0, NOTHING
        candidate = self._look(kind, pod)
        if candidate is None:
            self.infeasible.add(equivalence_class)
            self._steady.pop(pod.uid, None)
        elif self._is_steady(candidate, now):
            problem = problem or preconditions.claim_blocker(candidate)
            if problem is not None:
                return 1, self._events.blocked(pod, kind, candidate.change, problem)
            return 1, (self._ask(candidate, now),)
        return 1, NOTHING

    def _is_silent(self, pod: Pod, problem: BlockedBy) -> bool:
        return not problem.blocker.has_event or self._events.is_reported(pod, problem.blocker)

    def _is_reported(self, pod: Pod) -> bool:
        """Whether all that can be done for the pod is done."""
        if self._settings.mode == "report" and self._events.is_reported(pod, None):
            return True
        return self._events.is_reported(pod, Blocker.NAMED_CLAIM)

    def _blocker(self, kind: MigrationKind, pod: Pod, now: float) -> BlockedBy | None:
        workload = pod.workload
        if now < self._backoff.get(workload, (0.0, 0.0))[0]:
            return BlockedBy(Blocker.COOLDOWN, "its owner was read a moment ago")
        is_moving = self._open.of_workload(workload) is not None
        if is_moving or any(asked.pod.workload == workload for asked, _ in self._asking.values()):
            return BlockedBy(
                Blocker.MIGRATION_IN_PROGRESS,
                "a migration of another pod of the workload is in progress",
            )
        timings = self._settings.timings
        problem = preconditions.pod_blocker(pod, kind, now, timings)
        return problem or self._history.blocker(pod, now) or self._group_blocker(pod)

    def _group_blocker(self, pod: Pod) -> BlockedBy | None:
        return preconditions.group_blocker(self._state.cluster.gangs, pod)

    def _look(self, kind: MigrationKind, pod: Pod) -> MigrationCandidate | None:
        cluster, reservations = self._state.cluster, self._state.reservations
        waiting, pipeline = self._state.queue.lacking_one(), self._settings.rules.pipeline
        if kind is MigrationKind.RESTORE:
            if pod.resource_claims:
                waiting = chain(waiting, self._state.queue.lacking_devices())
            return restore.restorable(cluster, reservations, waiting, pod, pipeline)
        avoided, ladders = self._history.crashed_on(pod), self._settings.rules.ladders
        try:
            asked = rescue.as_recreated(pod)
            policy, _ = policy_of(cluster, asked, ladders, reservations.pending(), avoided)
        except PolicyError:
            return None
        return rescue.rescuable(cluster, reservations, waiting, pod, policy, pipeline)

    def _is_steady(self, candidate: MigrationCandidate, now: float) -> bool:
        """Whether the migration has been possible without interruption long enough."""
        key, since = self._steady.get(candidate.pod.uid, (None, now))
        if key != candidate.key:
            self._steady[candidate.pod.uid] = (candidate.key, now)
            since = now
        return now - since >= self._settings.timings.steady_s

    def _ask(self, candidate: MigrationCandidate, now: float) -> ReadOwner:
        match = match_of(candidate.pod)
        assert match is not None, "it has an owner"
        self._asking[candidate.pod.uid] = (candidate, now)
        return read_owner_of(candidate.pod, match.revision, match.index)
