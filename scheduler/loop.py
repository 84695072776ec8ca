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

from scheduler.bind.binder import Binder
from scheduler.containment import Containment
from scheduler.controllers.mig_partition import PartitionController, PartitionResult
from scheduler.controllers.migration.controller import MigrationHooks, NoMigration
from scheduler.controllers.node_avoidance import Leadership, NodeAvoidance
from scheduler.decide.batch import as_a_whole, due
from scheduler.decide.internal_error import failure
from scheduler.decide.requeue_check import still_refuses
from scheduler.decide.schedule_one import schedule_one
from scheduler.event_fold import EventFolder
from scheduler.framework.budget import Budget
from scheduler.framework.decision import Decision, PendingPlacement, Placement, Rejection
from scheduler.framework.pipeline import Pipeline
from scheduler.model.pod import Pod
from scheduler.report import schedule_result
from scheduler.report.decisions.journal import Journal, Record
from scheduler.report.events.device_events import DeviceEvents
from scheduler.report.events.recorder import Recorder
from scheduler.report.gauges import Gauges
from scheduler.report.metrics import Metrics
from scheduler.state import event as ev
from scheduler.state.breakers.circuit import Timings
from scheduler.state.cache.cluster import Assumption, Cluster
from scheduler.state.fold import pass_on
from scheduler.state.invariant import InvariantViolation
from scheduler.state.queue.requeue_conditions import RequeueCondition, why
from scheduler.state.queue.scheduling_queue import QueuedPodInfo, SchedulingQueue
from scheduler.state.reservations import Reservations
from scheduler.state.snapshot import ClusterSnapshot, take

BATCH_MAX = 64
TICK_S = 1.0

log = structlog.get_logger("scheduler")


class Loop:
    """State and its only writer; ``wall`` is Unix time, by which new nodes grow older."""

    def __init__(
        self,
        pipeline: Pipeline,
        binder: Callable[[Callable[[ev.BindEnded], None]], Binder],
        recorder: Recorder,
        metrics: Metrics,
        leadership: Leadership,
        clock: Callable[[], float],
        journal: Journal | None = None,
        look_up: Callable[[Pod], None] = lambda pod: None,
        moves: Callable[[Cluster, SchedulingQueue, Reservations], MigrationHooks] = lambda *_: (
            NoMigration()
        ),
        carving: Callable[[Cluster, SchedulingQueue, NodeAvoidance], PartitionController]
        | None = None,
        timings: Timings | None = None,
        decider: Callable[[Cluster, Pod, Pipeline, Budget], Decision] = schedule_one,
        wall: Callable[[], float] = lambda: 0.0,
    ) -> None:
        self._contain = Containment(metrics.count_internal_error)
        self.cluster = Cluster(pipeline.scheduler_name, pipeline.maps_allow, pipeline.node_labels)
        self.queue = SchedulingQueue(pipeline.equivalence_class)
        self.promises = Reservations(pipeline.reach, self.cluster.namespace)
        self.pipeline = pipeline
        self.moves = moves(self.cluster, self.queue, self.promises)
        self.is_synced = False
        self.generation = 0
        self._inbox: deque[ev.Event] = deque()
        self._news = asyncio.Event()
        self._binder = binder(self.enqueue)
        self._recorder = recorder
        self._metrics = metrics
        self._leadership = leadership
        self._clock = clock
        self._wall = wall
        self.journal = Journal(clock) if journal is None else journal
        self._sent: dict[str, tuple[Placement, QueuedPodInfo, Record]] = {}
        self._decider = decider
        self._fold = EventFolder(self.cluster, self._contain)
        self._gauges = Gauges(metrics, self.cluster)
        self._avoidance = NodeAvoidance(
            self.cluster, recorder, metrics, look_up, leadership, timings
        )
        self._devices = DeviceEvents(recorder, self.cluster.at)
        self._carving = carving(self.cluster, self.queue, self._avoidance) if carving else None
        self._flushed_at = clock()

    def enqueue(self, event: ev.Event) -> None:
        """Put an event into the inbox; never blocks."""
        self._inbox.append(event)
        self._news.set()

    def wake(self) -> None:
        """Something outside the inbox changed (leadership, first sync): look again."""
        self._news.set()

    def is_active_leader(self) -> bool:
        """Whether this state is good for decisions and answers: caches filled, and leading."""
        return self.is_synced and self._leadership.leads()

    def state(self) -> ClusterSnapshot:
        """One instant of all that decisions see."""
        return take(self.cluster, self.queue, self.promises, self.generation, self._clock())

    async def run(self) -> None:
        """Work for ever; ends by cancellation, or where the books are broken."""
        while True:
            await self._wait()
            self._drain()
            now = self._clock()
            self._tick(now)
            while self.is_active_leader() and self._decide_some(now):
                await asyncio.sleep(0)
                self._drain()
                now = self._clock()

    async def drain_bindings(self, timeout_s: float) -> bool:
        """Stop deciding was said elsewhere: let Bindings in flight end; whether all did."""
        await self._binder.drain(timeout_s)
        self._drain()
        return self._binder.in_flight == 0

    async def _wait(self) -> None:
        # Whoever may not decide leaves pods in the queue that are due; they wake nobody.
        due = self.queue.next_due() if self.is_active_leader() else None
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
                    self._continue_after_partition(self._carving.after(event, now), now)

    def _heard(self, event: ev.Event, now: float) -> list[ev.Change]:
        """What follows for whoever listens, before the event is folded."""
        heard: list[ev.Change] = []
        with self._contain("event", "promises"):
            self.promises.handle(event, now)
        if isinstance(event, ev.BindEnded):
            with self._contain("event", event.uid):
                self._bind_ended(event, now)
        with self._contain("event", "avoidance"):
            heard += self._avoidance.handle(event, now)
        with self._contain("event", "devices"):
            self._devices.hear(event)
        with self._contain("event", "moves"):
            heard += self.moves.handle(event, self.is_active_leader)
        return heard

    def _asked(self, pod: Pod, node_name: str) -> RequeueCondition | None:
        """What the pod would wait for at a node by now; where we fail it is tried, which tells."""
        with self._contain("decision", pod.key):
            return still_refuses(self.cluster, self.pipeline, pod, node_name)
        return None

    def _apply(self, change: ev.Change, now: float) -> None:
        pass_on(self.queue, change, now, self._asked)
        match change:
            case ev.PodDone(uid):
                if uid not in self.cluster.pods:
                    self._recorder.gone(uid)
                    self._sent.pop(uid, None)
            case ev.BindFailed(pod, message, what):
                sent = self._sent.pop(pod.uid, None)
                self.queue.requeue_failed_bind(pod, sent[1] if sent else None, now)
                self._recorder.failed(pod, f"{what}: {message}", "SchedulerError")
                self._metrics.attempts.labels("error", self._metrics.profile).inc()

    def _tick(self, now: float) -> None:
        if now - self._flushed_at < TICK_S:
            return
        self._flushed_at = now
        if self.promises.expire(now):
            log.info("a promised tier was given back: its pod was not seen or not decided in time")
        self.queue.flush_unschedulable(now)
        changes: list[ev.Change] = []
        with self._contain("tick", "avoidance"):
            changes += self._avoidance.tick(now, self.is_active_leader())
        with self._contain("tick", "devices"):
            self._devices.tick(now, self.is_active_leader())
        with self._contain("tick", "nodes"):
            changes += self.cluster.pass_time(self._wall())
        with self._contain("tick", "moves"):
            changes += self.moves.tick() if self.is_active_leader() else ()
        for change in changes:
            self._apply(change, now)
        with self._contain("tick", "cuts"):
            if self._carving is not None:
                self._continue_after_partition(
                    self._carving.tick(now, leads=self.is_active_leader()), now
                )
        with self._contain("tick", "gauges"):
            self._gauges.measure(self.queue, self.promises)

    def _decide_some(self, now: float) -> bool:
        """Decide up to a batch, or as much as one decision may cost; whether any was decided."""
        work, done = Budget(self.pipeline.decision_steps_max), 0
        while done < BATCH_MAX and not work.is_over:
            if not (entries := due(self.queue, self.cluster, now)):
                break
            done += len(entries)
            for entry, placement in zip_longest(entries, self._together(entries, work) or ()):
                try:
                    work.spend(self._decide(entry, placement, now))
                except InvariantViolation:
                    raise
                except Exception as problem:  # noqa: BLE001 - it is this pod's, and no other's
                    self._set_aside(entry, problem, now)
        return done > 0

    def _together(self, entries: list[QueuedPodInfo], work: Budget) -> tuple[Placement, ...] | None:
        pods = [entry.pod for entry in entries]
        with self._contain("decision", ", ".join(pod.key for pod in pods)):
            return as_a_whole(self.cluster, pods, self.pipeline, work)
        return None  # each by itself, so that the one that it is about is found

    def _set_aside(self, entry: QueuedPodInfo, problem: Exception, now: float) -> None:
        """We failed at a pod: it waits with a reason, and is tried again after a pause."""
        pod = entry.pod
        number = self._contain.note("decision", pod.key, problem)
        self._sent.pop(pod.uid, None)
        for change in self.cluster.forget(pod.uid):
            self._apply(change, now)
        self.queue.delete(pod.uid, now)
        self.queue.requeue_failed_bind(pod, entry, now)
        with self._contain("decision", pod.key):
            self._tell(entry, failure(self.cluster, pod, number), now)

    def _decide(self, entry: QueuedPodInfo, found: Placement | None, now: float) -> int:
        """Decide one pod; returns the steps that it took."""
        started = self._clock()
        work = Budget(self.pipeline.decision_steps_max)
        still = self._avoidance.unless_avoided(found)
        decision = still or self._decider(self.cluster, entry.pod, self.pipeline, work)
        self._metrics.algorithm_s.observe(self._clock() - started)
        if isinstance(decision, Placement):
            record = self.journal.record(entry, decision, self, now)
            self._place(entry, decision, record, now)
        else:
            self._tell(entry, decision, now)
            self.queue.add_unschedulable(entry, why(decision.diagnosis, decision.node_name), now)
        return work.spent

    def _place(
        self, entry: QueuedPodInfo, placement: Placement, record: Record, now: float
    ) -> None:
        pod = placement.pod
        self.generation += 1
        self.queue.delete(pod.uid, now)
        self._recorder.forget(pod.uid)
        assumption = Assumption(placement.node_name, placement.devices, placement.index)
        self.cluster.assume(pod, assumption)
        self._avoidance.record_binding(pod, placement.node_name, now)
        self._sent[pod.uid] = (placement, entry, record)
        if isinstance(placement, PendingPlacement) and self._carving is not None:
            schedule_result.cut_first(self._recorder, placement)
            self._continue_after_partition(self._carving.begin(placement, now), now)
        else:
            self._binder.start(placement, record.id)

    def _continue_after_partition(self, steps: PartitionResult, now: float) -> None:
        """Placements that waited for their instances are bound, or wait no more."""
        for uid in steps.ready:
            placement, _, record = self._sent[uid]
            self._recorder.forget(uid)
            self._binder.start(placement, record.id)
        for change in steps.changes:
            self._apply(change, now)
        for uid in steps.dropped:
            self._sent.pop(uid, None)
            for change in self._avoidance.forget_pod(uid):
                self._apply(change, now)

    def _tell(self, entry: QueuedPodInfo, rejection: Rejection, now: float) -> None:
        record = self.journal.record(entry, rejection, self, now)
        # As it is now: the queue keeps a pod as it was when it was offered.
        pod = self.cluster.pods.get(entry.pod.uid, entry.pod)
        awaited = self.cluster.nominations.awaited(pod)
        if not awaited and self._carving is not None:
            awaited = self._carving.awaited(pod)
        schedule_result.refused(
            self._recorder, self._metrics, pod, record, rejection.diagnosis, awaited
        )

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
        schedule_result.bound(self._recorder, self._metrics, sent, self._clock())
