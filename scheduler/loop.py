"""The one loop: inbox -> cluster state -> decide -> bind -> report.

Watches, Bindings and timers only put events into the inbox; this loop is the one writer of
the state and decides at its own pace. It yields to the event loop between batches, so that
answers of Bindings and the webhook's questions are never kept waiting for long.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from itertools import zip_longest

import structlog

from scheduler.avoidance import Avoidance, Leadership
from scheduler.bind.binder import Binder
from scheduler.carving import Carving, Steps
from scheduler.containment import Containment
from scheduler.decide.batch import as_a_whole, due
from scheduler.decide.cycle import decide
from scheduler.decide.decision import Carve, Decision, Placement, Rejection
from scheduler.decide.internal import failure
from scheduler.decide.view import Profile
from scheduler.decide.wake import still_refuses
from scheduler.decide.work import Work
from scheduler.folding import Folding
from scheduler.model.pod import Pod
from scheduler.moves import Companion, Still
from scheduler.report import outcome
from scheduler.report.devicenotes import DeviceNotes
from scheduler.report.gauges import Gauges
from scheduler.report.journal import Journal, Record
from scheduler.report.metrics import Metrics
from scheduler.report.recorder import Recorder
from scheduler.state import event as ev
from scheduler.state.broken import BrokenBooks
from scheduler.state.circuit import Timings
from scheduler.state.cluster import Assumption, Cluster
from scheduler.state.fold import pass_on
from scheduler.state.promise import Promises
from scheduler.state.queue import Entry, Queue
from scheduler.state.snapshot import State, take
from scheduler.state.why import Why, why

BATCH_MAX = 64
TICK_S = 1.0

log = structlog.get_logger("scheduler")


class Loop:
    """State and its only writer; ``wall`` is Unix time, by which new nodes grow older."""

    def __init__(
        self,
        profile: Profile,
        binder: Callable[[Callable[[ev.BindEnded], None]], Binder],
        recorder: Recorder,
        metrics: Metrics,
        leadership: Leadership,
        clock: Callable[[], float],
        journal: Journal | None = None,
        look_up: Callable[[Pod], None] = lambda pod: None,
        moves: Callable[[Cluster, Queue, Promises], Companion] = lambda *_: Still(),
        carving: Callable[[Cluster, Queue, Avoidance], Carving] | None = None,
        timings: Timings | None = None,
        decider: Callable[[Cluster, Pod, Profile, Work], Decision] = decide,
        wall: Callable[[], float] = lambda: 0.0,
    ) -> None:
        self._contain = Containment(metrics.count_internal_error)
        self.cluster = Cluster(profile.scheduler_name, profile.maps_allow)
        self.queue = Queue()
        self.promises = Promises(profile.reach, self.cluster.namespace)
        self.profile = profile
        self.moves = moves(self.cluster, self.queue, self.promises)
        self.is_synced = False
        self.generation = 0
        self._inbox: deque[ev.Event] = deque()
        self._news = asyncio.Event()
        self._binder = binder(self.emit)
        self._recorder = recorder
        self._metrics = metrics
        self._leadership = leadership
        self._clock = clock
        self._wall = wall
        self.journal = Journal(clock) if journal is None else journal
        self._sent: dict[str, tuple[Placement, Entry, Record]] = {}
        self._decider = decider
        self._fold = Folding(self.cluster, self._contain)
        self._gauges = Gauges(metrics, self.cluster)
        self._avoidance = Avoidance(self.cluster, recorder, metrics, look_up, leadership, timings)
        self._devices = DeviceNotes(recorder, self.cluster.at)
        self._carving = carving(self.cluster, self.queue, self._avoidance) if carving else None
        self._flushed_at = clock()

    def emit(self, event: ev.Event) -> None:
        """Put an event into the inbox; never blocks."""
        self._inbox.append(event)
        self._news.set()

    def nudge(self) -> None:
        """Something outside the inbox changed (leadership, first sync): look again."""
        self._news.set()

    def may_answer(self) -> bool:
        """Whether this state is good for decisions and answers: caches filled, and leading."""
        return self.is_synced and self._leadership.leads()

    def state(self) -> State:
        """One instant of all that decisions see."""
        return take(self.cluster, self.queue, self.promises, self.generation, self._clock())

    async def run(self) -> None:
        """Work for ever; ends by cancellation, or where the books are broken."""
        while True:
            await self._wait()
            self._drain()
            now = self._clock()
            self._tick(now)
            while self.may_answer() and self._decide_some(now):
                await asyncio.sleep(0)
                self._drain()
                now = self._clock()

    async def settle(self, timeout_s: float) -> bool:
        """Stop deciding was said elsewhere: let Bindings in flight end; whether all did."""
        await self._binder.drain(timeout_s)
        self._drain()
        return self._binder.in_flight == 0

    async def _wait(self) -> None:
        # Whoever may not decide leaves pods in the queue that are due; they wake nobody.
        due = self.queue.next_due() if self.may_answer() else None
        timeout_s = TICK_S if due is None else max(0.0, min(TICK_S, due - self._clock()))
        if self._inbox or timeout_s == 0.0:
            await asyncio.sleep(0)
        else:
            with suppress(TimeoutError):
                async with asyncio.timeout(timeout_s):
                    await self._news.wait()
        self._news.clear()

    def _drain(self) -> None:
        now = self._clock()
        while self._inbox:
            event = self._inbox.popleft()
            self.generation += 1
            for change in (*self._heard(event, now), *self._fold(event)):
                self._apply(change, now)
            if self._carving is not None:
                with self._contain("event", "cuts"):
                    self._carry_on(self._carving.after(event, now), now)

    def _heard(self, event: ev.Event, now: float) -> list[ev.Change]:
        """What follows for whoever listens, before the event is folded."""
        heard: list[ev.Change] = []
        with self._contain("event", "promises"):
            self.promises.hear(event, now)
        if isinstance(event, ev.BindEnded):
            with self._contain("event", event.uid):
                self._bind_ended(event, now)
        with self._contain("event", "avoidance"):
            heard += self._avoidance.hear(event, now)
        with self._contain("event", "devices"):
            self._devices.hear(event)
        with self._contain("event", "moves"):
            heard += self.moves.hear(event, self.may_answer)
        return heard

    def _asked(self, pod: Pod, node_name: str) -> Why | None:
        """What the pod would wait for at a node by now; where we fail it is tried, which tells."""
        with self._contain("decision", pod.key):
            return still_refuses(self.cluster, self.profile, pod, node_name)
        return None

    def _apply(self, change: ev.Change, now: float) -> None:
        pass_on(self.queue, change, now, self._asked)
        match change:
            case ev.Settled(uid):
                if uid not in self.cluster.pods:
                    self._recorder.gone(uid)
                    self._sent.pop(uid, None)
            case ev.Retry(pod, message, what):
                sent = self._sent.pop(pod.uid, None)
                self.queue.postpone(pod, sent[1] if sent else None, now)
                self._recorder.failed(pod, f"{what}: {message}", "SchedulerError")
                self._metrics.attempts.labels("error", self._metrics.profile).inc()

    def _tick(self, now: float) -> None:
        if now - self._flushed_at < TICK_S:
            return
        self._flushed_at = now
        if self.promises.expire(now):
            log.info("a promised tier was given back: its pod was not seen or not decided in time")
        self.queue.flush(now)
        changes: list[ev.Change] = []
        with self._contain("tick", "avoidance"):
            changes += self._avoidance.tick(now, self.may_answer())
        with self._contain("tick", "devices"):
            self._devices.tick(now, self.may_answer())
        with self._contain("tick", "nodes"):
            changes += self.cluster.pass_time(self._wall())
        with self._contain("tick", "moves"):
            changes += self.moves.tick() if self.may_answer() else ()
        for change in changes:
            self._apply(change, now)
        with self._contain("tick", "cuts"):
            if self._carving is not None:
                self._carry_on(self._carving.tick(now, leads=self.may_answer()), now)
        with self._contain("tick", "gauges"):
            self._gauges.measure(self.queue, self.promises)

    def _decide_some(self, now: float) -> bool:
        """Decide up to a batch, or as much as one decision may cost; whether any was decided."""
        work, done = Work(self.profile.decision_steps_max), 0
        while done < BATCH_MAX and not work.is_over:
            if not (entries := due(self.queue, self.cluster, now)):
                break
            done += len(entries)
            for entry, placement in zip_longest(entries, self._together(entries, work) or ()):
                try:
                    work.spend(self._decide(entry, placement, now))
                except BrokenBooks:
                    raise
                except Exception as problem:  # noqa: BLE001 - it is this pod's, and no other's
                    self._set_aside(entry, problem, now)
        return done > 0

    def _together(self, entries: list[Entry], work: Work) -> tuple[Placement, ...] | None:
        pods = [entry.pod for entry in entries]
        with self._contain("decision", ", ".join(pod.key for pod in pods)):
            return as_a_whole(self.cluster, pods, self.profile, work)
        return None  # each by itself, so that the one that it is about is found

    def _set_aside(self, entry: Entry, problem: Exception, now: float) -> None:
        """We failed at a pod: it waits with a reason, and is tried again after a pause."""
        pod = entry.pod
        number = self._contain.note("decision", pod.key, problem)
        self._sent.pop(pod.uid, None)
        for change in self.cluster.forget(pod.uid):
            self._apply(change, now)
        self.queue.settle(pod.uid, now)
        self.queue.postpone(pod, entry, now)
        with self._contain("decision", pod.key):
            self._tell(entry, failure(self.cluster, pod, number), now)

    def _decide(self, entry: Entry, found: Placement | None, now: float) -> int:
        """Decide one pod; returns the steps that it took."""
        started = self._clock()
        work = Work(self.profile.decision_steps_max)
        still = self._avoidance.still(found)
        decision = still or self._decider(self.cluster, entry.pod, self.profile, work)
        self._metrics.algorithm_s.observe(self._clock() - started)
        if isinstance(decision, Placement):
            record = self.journal.record(entry, decision, self, now)
            self._place(entry, decision, record, now)
        else:
            self._tell(entry, decision, now)
            self.queue.park(entry, why(decision.diagnosis, decision.node_name), now)
        return work.spent

    def _place(self, entry: Entry, placement: Placement, record: Record, now: float) -> None:
        pod = placement.pod
        self.generation += 1
        self.queue.settle(pod.uid, now)
        self._recorder.forget(pod.uid)
        assumption = Assumption(placement.node_name, placement.devices, placement.index)
        self.cluster.assume(pod, assumption)
        self._avoidance.sent(pod, placement.node_name, now)
        self._sent[pod.uid] = (placement, entry, record)
        if isinstance(placement, Carve) and self._carving is not None:
            outcome.cut_first(self._recorder, placement)
            self._carry_on(self._carving.begin(placement, now), now)
        else:
            self._binder.start(placement, record.id)

    def _carry_on(self, steps: Steps, now: float) -> None:
        """Placements that waited for their instances are bound, or wait no more."""
        for uid in steps.ready:
            placement, _, record = self._sent[uid]
            self._recorder.forget(uid)
            self._binder.start(placement, record.id)
        for change in steps.changes:
            self._apply(change, now)
        for uid in steps.dropped:
            self._sent.pop(uid, None)
            for change in self._avoidance.left(uid):
                self._apply(change, now)

    def _tell(self, entry: Entry, rejection: Rejection, now: float) -> None:
        record = self.journal.record(entry, rejection, self, now)
        # As it is now: the queue keeps a pod as it was when it was offered.
        pod = self.cluster.pods.get(entry.pod.uid, entry.pod)
        awaited = self.cluster.nominations.awaited(pod)
        if not awaited and self._carving is not None:
            awaited = self._carving.awaited(pod)
        outcome.refused(self._recorder, self._metrics, pod, record, rejection.diagnosis, awaited)

    def _bind_ended(self, event: ev.BindEnded, now: float) -> None:
        self._metrics.binds.labels(event.outcome.value).inc()
        if sent := self._sent.get(event.uid):
            sent[2].end, sent[2].problem = event.outcome.value, event.message
        if event.outcome is not ev.BindOutcome.BOUND:
            log.warning("binding failed", uid=event.uid, problem=event.message)
            return
        sent = self._sent.pop(event.uid, None)
        if sent is None:
            return
        outcome.bound(self._recorder, self._metrics, sent, self._clock())
