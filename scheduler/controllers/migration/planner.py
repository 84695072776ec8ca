"""Who would be better off with another tier, and may be moved: the choice before a ticket.

Once a second degraded pods and pods that wait for long are looked at (``decide/migration/restore``,
``decide/migration/rescue``). Whoever could have a better tier for a while without a break, and has
nothing against it that can be told from here, has its owner asked. A look costs no request and no
write; where nothing happened since the last one, its answer still holds."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

import msgspec

from scheduler.containment import Contain, uncontained
from scheduler.decide.admission.admit import Rules
from scheduler.decide.admission.fallback_policy import TermsError, terms_of
from scheduler.decide.admission.tier_selection import is_degradable
from scheduler.decide.migration import preconditions, rescue, restore
from scheduler.decide.migration.restore import MigrationCandidate
from scheduler.model.crd.migration import MigrationKind, match_of
from scheduler.model.crd.migration_actions import Errand, ask_about
from scheduler.model.crd.migration_blockers import BlockedBy, Blocker
from scheduler.model.original_request import is_degraded
from scheduler.model.pod import Pod
from scheduler.report.events.migration_events import MigrationEvents
from scheduler.state import event as ev
from scheduler.state.cache.cluster import Cluster
from scheduler.state.migration.history import MigrationHistory, Timings
from scheduler.state.migration.tickets import OpenMigrations
from scheduler.state.queue.scheduling_queue import SchedulingQueue
from scheduler.state.reservations import Reservations

OPEN_MAX: Final = 8
LOOKS_MAX: Final = 16
OF_A_GROUP: Final = 4
REST_S: Final = 30.0
REST_MAX_S: Final = 600.0
RESTING_MAX: Final = 10_000
SILENCE_S: Final = 30.0


class PlannerSettings(msgspec.Struct, frozen=True, kw_only=True):
    """The configuration's part: whether anything is done, and how often."""

    mode: str = "on"
    timings: Timings = Timings()
    rules: Rules = Rules()


class MigrationInputs(msgspec.Struct, frozen=True):
    """What a move is decided on."""

    cluster: Cluster
    queue: SchedulingQueue
    promises: Reservations


class MigrationPlanner:
    """Looks for moves; ``send`` asks for an owner, whose answer comes to ``owner_told``."""

    def __init__(
        self,
        state: MigrationInputs,
        settings: PlannerSettings,
        history: MigrationHistory,
        tickets: OpenMigrations,
        moved: MigrationEvents,
        send: Callable[[Errand], None],
        contain: Contain = uncontained,
    ) -> None:
        self._contain = contain
        self._state = state
        self._settings = settings
        self._history = history
        self._tickets = tickets
        self._moved = moved
        self._send = send
        self._degraded: dict[str, Pod] = {}
        self._asking: dict[str, tuple[MigrationCandidate, float]] = {}
        self._steady: dict[str, tuple[object, float]] = {}
        self._resting: dict[str, tuple[float, float]] = {}
        self._hopeless: set[object] = set()

    def news(self) -> None:
        """Something happened: what was impossible may be possible."""
        self._hopeless.clear()

    def note(self, pod: Pod) -> None:
        """A pod's newest state."""
        if not self._is_degraded(pod):
            return
        self._history.note_crashes(pod)
        if pod.node_name:
            self._degraded[pod.uid] = pod

    def needs_final_state(self, pod: Pod) -> bool:
        """Whether it matters how a pod ended that is gone: its controller may make another one."""
        is_replaced = pod.owner is not None and pod.node_name and not pod.is_deleting
        return bool(is_replaced) and self._is_degraded(pod)

    def record_final_state(self, pod: Pod) -> None:
        """The last state of a pod that is gone."""
        if self._is_degraded(pod):
            self._history.note_crashes(pod)

    def _is_degraded(self, pod: Pod) -> bool:
        return pod.scheduler_name == self._state.cluster.scheduler_name and is_degraded(pod)

    def forget(self, uid: str) -> None:
        """A pod is gone."""
        for known in (self._degraded, self._asking, self._steady):
            known.pop(uid, None)

    def plan(self, now: float) -> None:
        """Look for moves, within limits."""
        for uid in [u for u, (_, at) in self._asking.items() if now - at >= SILENCE_S]:
            del self._asking[uid]
        looks = LOOKS_MAX
        for move, pod in self._candidates():
            if looks <= 0 or len(self._tickets) + len(self._asking) >= OPEN_MAX:
                break
            cost: int | None = None
            with self._contain("move", pod.key):
                cost = self._consider(move, pod, now)
            if cost is None:
                self._rest(pod, now)  # we failed at it: it is set aside, and the others go on
            looks -= 1 if cost is None else cost

    def owner_read(self, news: ev.OwnerRead, now: float) -> MigrationCandidate | None:
        """What a pod's owner says; the wish whose move may begin now."""
        wish, _ = self._asking.pop(news.pod_uid, (None, 0.0))
        pod = self._state.cluster.pods.get(news.pod_uid)
        if wish is None or pod is None:
            return None
        if news.facts is None:
            self._rest(pod, now)
            return None
        problem = preconditions.verdict(pod, wish.move, news.facts)
        if problem is not None:
            self._moved.hindered(pod, wish.move, wish.change, problem)
            self._rest(pod, now)
        elif self._settings.mode == "report":
            self._moved.possible(pod, wish.move, wish.change)
            self._rest(pod, now)
        else:
            self._resting.pop(pod.workload, None)
            again = self._look(wish.move, pod)
            return again if again is not None and again.key == wish.key else None
        return None

    def _rest(self, pod: Pod, now: float) -> None:
        """An owner that said no is asked again ever more rarely."""
        _, rest_s = self._resting.pop(pod.workload, (0.0, REST_S / 2))
        if len(self._resting) >= RESTING_MAX:
            del self._resting[next(iter(self._resting))]
        rest_s = min(REST_MAX_S, rest_s * 2)
        self._resting[pod.workload] = (now + rest_s, rest_s)

    def _candidates(self) -> Iterator[tuple[MigrationKind, Pod]]:
        name = self._state.cluster.scheduler_name
        for pod in restore.candidates(self._degraded.values(), name):
            yield MigrationKind.RESTORE, pod
        for pod in rescue.candidates(self._state.queue.lacking_one(), OF_A_GROUP):
            newest = self._state.cluster.pods.get(pod.uid)
            if newest is not None:
                yield MigrationKind.RESCUE, newest

    def _consider(self, move: MigrationKind, pod: Pod, now: float) -> int:
        """Look at one pod; returns what it cost."""
        problem = self._hindrance(move, pod, now)
        if self._is_reported(pod) or (problem is not None and self._is_silent(pod, problem)):
            return 0
        if move is MigrationKind.RESCUE and not is_degradable(pod):
            return 0
        kind = (move, restore.kind_of(pod))
        if kind in self._hopeless:
            self._steady.pop(pod.uid, None)
            return 0
        wish = self._look(move, pod)
        if wish is None:
            self._hopeless.add(kind)
            self._steady.pop(pod.uid, None)
        elif self._is_steady(wish, now):
            if problem is not None:
                self._moved.hindered(pod, move, wish.change, problem)
            else:
                self._ask(wish, now)
        return 1

    def _is_silent(self, pod: Pod, problem: BlockedBy) -> bool:
        return not problem.obstacle.is_told or self._moved.knows(pod, problem.obstacle)

    def _is_reported(self, pod: Pod) -> bool:
        return self._settings.mode == "report" and self._moved.knows(pod, None)

    def _hindrance(self, move: MigrationKind, pod: Pod, now: float) -> BlockedBy | None:
        workload = pod.workload
        if now < self._resting.get(workload, (0.0, 0.0))[0]:
            return BlockedBy(Blocker.COOLDOWN, "its owner was asked a moment ago")
        is_moving = self._tickets.of_workload(workload) is not None
        if is_moving or any(wish.pod.workload == workload for wish, _ in self._asking.values()):
            return BlockedBy(Blocker.ANOTHER_MOVE, "another pod of the workload is being moved")
        timings = self._settings.timings
        return preconditions.hindrance(pod, move, now, timings) or self._history.hindrance(pod, now)

    def _look(self, move: MigrationKind, pod: Pod) -> MigrationCandidate | None:
        cluster, queue, promises = self._state.cluster, self._state.queue, self._state.promises
        pipeline = self._settings.rules.pipeline
        if move is MigrationKind.RESTORE:
            return restore.restorable(cluster, promises, queue.lacking_one(), pod, pipeline)
        shunned, ladders = self._history.crashed_on(pod), self._settings.rules.ladders
        try:
            terms, _ = terms_of(cluster, rescue.asked(pod), ladders, promises.pending(), shunned)
        except TermsError:
            return None
        return rescue.rescuable(cluster, promises, queue.lacking_one(), pod, terms, pipeline)

    def _is_steady(self, wish: MigrationCandidate, now: float) -> bool:
        """Whether the move has been possible without a break for long enough."""
        key, since = self._steady.get(wish.pod.uid, (None, now))
        if key != wish.key:
            self._steady[wish.pod.uid] = (wish.key, now)
            since = now
        return now - since >= self._settings.timings.steady_s

    def _ask(self, wish: MigrationCandidate, now: float) -> None:
        match = match_of(wish.pod)
        assert match is not None, "it has an owner"
        self._asking[wish.pod.uid] = (wish, now)
        self._send(ask_about(wish.pod, match.revision, match.index))
