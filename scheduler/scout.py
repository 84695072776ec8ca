"""Who would be better off with another tier, and may be moved: the choice before a ticket.

Once a second degraded pods and pods that wait for long are looked at (``decide/restore``,
``decide/rescue``). Whoever could have a better tier for a while without a break, and has nothing
against it that can be told from here, has its owner asked. A look costs no request and no write;
where nothing happened since the last one, its answer still holds.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

import msgspec

from scheduler.containment import Contain, uncontained
from scheduler.decide import rescue, restore, safety
from scheduler.decide.admit import Rules
from scheduler.decide.fallback import is_degradable
from scheduler.decide.restore import Wish
from scheduler.decide.terms import TermsError, terms_of
from scheduler.model.errand import Errand, ask_about
from scheduler.model.obstacle import Hindrance, Obstacle
from scheduler.model.original import is_degraded
from scheduler.model.pod import Pod
from scheduler.model.ticket import Move, match_of
from scheduler.report.moved import Moved
from scheduler.state import event as ev
from scheduler.state.cluster import Cluster
from scheduler.state.history import History, Timings
from scheduler.state.promise import Promises
from scheduler.state.queue import Queue
from scheduler.state.tickets import Tickets

OPEN_MAX: Final = 8
LOOKS_MAX: Final = 16
OF_A_GROUP: Final = 4
REST_S: Final = 30.0
REST_MAX_S: Final = 600.0
RESTING_MAX: Final = 10_000
SILENCE_S: Final = 30.0


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """The configuration's part: whether anything is done, and how often."""

    mode: str = "on"
    timings: Timings = Timings()
    rules: Rules = Rules()


class State(msgspec.Struct, frozen=True):
    """What a move is decided on."""

    cluster: Cluster
    queue: Queue
    promises: Promises


class Scout:
    """Looks for moves; ``send`` asks for an owner, whose answer comes to ``owner_told``."""

    def __init__(
        self,
        state: State,
        settings: Settings,
        history: History,
        tickets: Tickets,
        moved: Moved,
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
        self._asking: dict[str, tuple[Wish, float]] = {}
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

    def wants_end(self, pod: Pod) -> bool:
        """Whether it matters how a pod ended that is gone: its controller may make another one."""
        is_replaced = pod.owner is not None and pod.node_name and not pod.is_deleting
        return bool(is_replaced) and self._is_degraded(pod)

    def note_end(self, pod: Pod) -> None:
        """The last state of a pod that is gone."""
        if self._is_degraded(pod):
            self._history.note_crashes(pod)

    def _is_degraded(self, pod: Pod) -> bool:
        return pod.scheduler_name == self._state.cluster.scheduler_name and is_degraded(pod)

    def forget(self, uid: str) -> None:
        """A pod is gone."""
        for known in (self._degraded, self._asking, self._steady):
            known.pop(uid, None)

    def look_around(self, now: float) -> None:
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

    def owner_told(self, news: ev.OwnerTold, now: float) -> Wish | None:
        """What a pod's owner says; the wish whose move may begin now."""
        wish, _ = self._asking.pop(news.pod_uid, (None, 0.0))
        pod = self._state.cluster.pods.get(news.pod_uid)
        if wish is None or pod is None:
            return None
        if news.facts is None:
            self._rest(pod, now)
            return None
        problem = safety.verdict(pod, wish.move, news.facts)
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

    def _candidates(self) -> Iterator[tuple[Move, Pod]]:
        name = self._state.cluster.scheduler_name
        for pod in restore.candidates(self._degraded.values(), name):
            yield Move.RESTORE, pod
        for pod in rescue.candidates(self._state.queue.lacking_one(), OF_A_GROUP):
            newest = self._state.cluster.pods.get(pod.uid)
            if newest is not None:
                yield Move.RESCUE, newest

    def _consider(self, move: Move, pod: Pod, now: float) -> int:
        """Look at one pod; returns what it cost."""
        problem = self._hindrance(move, pod, now)
        if self._is_reported(pod) or (problem is not None and self._is_silent(pod, problem)):
            return 0
        if move is Move.RESCUE and not is_degradable(pod):
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

    def _is_silent(self, pod: Pod, problem: Hindrance) -> bool:
        return not problem.obstacle.is_told or self._moved.knows(pod, problem.obstacle)

    def _is_reported(self, pod: Pod) -> bool:
        return self._settings.mode == "report" and self._moved.knows(pod, None)

    def _hindrance(self, move: Move, pod: Pod, now: float) -> Hindrance | None:
        workload = pod.workload
        if now < self._resting.get(workload, (0.0, 0.0))[0]:
            return Hindrance(Obstacle.COOLDOWN, "its owner was asked a moment ago")
        is_moving = self._tickets.of_workload(workload) is not None
        if is_moving or any(wish.pod.workload == workload for wish, _ in self._asking.values()):
            return Hindrance(Obstacle.ANOTHER_MOVE, "another pod of the workload is being moved")
        timings = self._settings.timings
        return safety.hindrance(pod, move, now, timings) or self._history.hindrance(pod, now)

    def _look(self, move: Move, pod: Pod) -> Wish | None:
        cluster, queue, promises = self._state.cluster, self._state.queue, self._state.promises
        profile = self._settings.rules.profile
        if move is Move.RESTORE:
            return restore.restorable(cluster, promises, queue.lacking_one(), pod, profile)
        shunned, ladders = self._history.crashed_on(pod), self._settings.rules.ladders
        try:
            terms, _ = terms_of(cluster, rescue.asked(pod), ladders, promises.unmet(), shunned)
        except TermsError:
            return None
        return rescue.rescuable(cluster, promises, queue.lacking_one(), pod, terms, profile)

    def _is_steady(self, wish: Wish, now: float) -> bool:
        """Whether the move has been possible without a break for long enough."""
        key, since = self._steady.get(wish.pod.uid, (None, now))
        if key != wish.key:
            self._steady[wish.pod.uid] = (wish.key, now)
            since = now
        return now - since >= self._settings.timings.steady_s

    def _ask(self, wish: Wish, now: float) -> None:
        match = match_of(wish.pod)
        assert match is not None, "it has an owner"
        self._asking[wish.pod.uid] = (wish, now)
        self._send(ask_about(wish.pod, match.revision, match.index))
