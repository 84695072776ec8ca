"""The scheduling loop: inbox -> cluster state -> decide -> bind -> report.

Watches, Bindings and other I/O shells only put events into the inbox; the loop is the only writer
of the state. It yields to the event loop between batches, so responses to Bindings and admission
requests are not delayed.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from itertools import zip_longest

import msgspec

from scheduler.controllers.dispatch import ActionRunner
from scheduler.controllers.leadership.gate import LeaderGate
from scheduler.controllers.table import Controllers
from scheduler.decide.batch import next_batch, plan_batch
from scheduler.decide.internal_error import failure
from scheduler.decide.requeue_check import condition_at_node
from scheduler.decide.schedule_one import schedule_one
from scheduler.decide.score_breakdown import node_before
from scheduler.framework.budget import Budget
from scheduler.framework.decision import (
    AllocateClaims,
    Decision,
    PendingPlacement,
    Placement,
    Preemption,
    Rejection,
)
from scheduler.framework.pipeline import Pipeline
from scheduler.model.actions import DropCondition, ForgetPod, RecordUnscheduled
from scheduler.model.pods.pod import Pod
from scheduler.report import schedule_result
from scheduler.report.containment import Part
from scheduler.report.decisions.journal import Journal, Record
from scheduler.report.metrics import Metrics
from scheduler.state import event as ev
from scheduler.state.cache.cluster import Assumption
from scheduler.state.effects import Effects
from scheduler.state.fold import notify_queue
from scheduler.state.gangs.gang import Gang
from scheduler.state.invariant import InvariantViolation
from scheduler.state.node_info import NodeInfo
from scheduler.state.queue.requeue_conditions import RequeueCondition, requeue_condition
from scheduler.state.queue.scheduling_queue import QueuedPodInfo
from scheduler.state.scheduler_state import SchedulerState
from scheduler.state.snapshot import ClusterSnapshot, take
from scheduler.watch.inbox import Inbox

BATCH_MAX = 64
#: Rejections are sent while others are decided, and a sender goes on only between two batches.
REJECTED_MAX = 8
TICK_S = 1.0


class UnrankedPlacement(msgspec.Struct, frozen=True):
    """A placement that was sent to the binder; the journal has no runner-up for it yet."""

    record: Record
    placement: Placement
    won: NodeInfo


class Loop:
    """Takes events from the inbox, calls the controllers, and schedules pods."""

    def __init__(
        self,
        pipeline: Pipeline,
        state: SchedulerState,
        inbox: Inbox,
        gate: LeaderGate,
        controllers: Controllers,
        runner: ActionRunner,
        journal: Journal,
        metrics: Metrics,
        clock: Callable[[], float],
        decider: Callable[..., Decision] = schedule_one,
    ) -> None:
        self.pipeline = pipeline
        self.cluster = state.cluster
        self.queue = state.queue
        self.reservations = state.reservations
        self.gate = gate
        self.controllers = controllers
        self.contain = controllers.contain
        self.journal = journal
        #: Counts the changes of the state: two decisions with the same number saw the same state.
        self.generation = 0
        self._inbox = inbox
        self._bindings = controllers.bindings
        self._avoidance = controllers.avoidance
        self._preemption = controllers.preemption
        self._runner = runner
        self._metrics = metrics
        self._clock = clock
        self._decider = decider
        self._unranked: UnrankedPlacement | None = None
        self._ticked_at = clock()
        self._rejected = 0  # in this batch

    def state(self) -> ClusterSnapshot:
        """The current state, as decisions read it."""
        return take(self.cluster, self.queue, self.reservations, self.generation, self._clock())

    async def run(self) -> None:
        """Run until cancelled, or until the state is inconsistent."""
        while True:
            await self._wait()
            self._drain()
            now = self._clock()
            self._tick(now)
            while self.gate.is_open() and self._decide_batch(now):
                # yields to the binder, which sends the Bindings of the batch
                await asyncio.sleep(0)
                self._rank()
                self._drain()
                now = self._clock()

    async def drain_bindings(self, timeout_s: float) -> bool:
        """Wait for the Bindings in flight, after the gate closed; returns whether all have
        ended.
        """
        await self._bindings.drain(timeout_s)
        self._drain()
        return self._bindings.in_flight == 0

    async def _wait(self) -> None:
        # A non-leader does not pop the queue, so due pods must not shorten its wait.
        due_at = self.queue.next_due() if self.gate.is_open() else None
        left_s = TICK_S if due_at is None else due_at - self._clock()
        await self._inbox.wait(max(0.0, min(TICK_S, left_s)))

    # --- events and time ---------------------------------------------------------------------

    def _drain(self) -> None:
        now = self._clock()
        for event in self._inbox.drain():
            self.generation += 1
            self._handle(event, now)

    def _handle(self, event: ev.Event, now: float) -> None:
        """All its handlers first, then their effects: a change meets a state that has the event."""
        results: list[tuple[str, Effects]] = []
        for handler in self.controllers.events.of(event):
            with self.contain("event", handler.name):
                if effects := handler.handle(event, now):
                    results.append((handler.name, effects))
        for name, effects in results:
            self._run_contained("event", name, effects, now)

    def _tick(self, now: float) -> None:
        """Run every ticker; each one sees the effects of the previous ones.

        The first decisions do not wait for them: they begin a second after the caches are filled.
        """
        if not self.gate.is_synced:
            self._ticked_at = now
        if now - self._ticked_at < TICK_S:
            return
        self._ticked_at = now
        for ticker in self.controllers.tickers:
            effects: Effects = ()
            with self.contain("tick", ticker.name):
                effects = ticker.tick(now, leads=self.gate.is_open())
            self._run_contained("tick", ticker.name, effects, now)

    def _run_contained(self, part: Part, name: str, effects: Effects, now: float) -> None:
        """Run effects; the failure of one does not prevent the others."""
        for effect in effects:
            with self.contain(part, name):
                self.carry_out((effect,), now)

    def carry_out(self, effects: Effects, now: float) -> None:
        """Fold changes, and run actions."""
        for effect in effects:
            if isinstance(effect, ev.Change):
                self._apply(effect, now)
            else:
                self._runner.run(effect)

    def _apply(self, change: ev.Change, now: float) -> None:
        topology = self.cluster.topology
        notify_queue(self.queue, change, now, self._condition_at_node, topology.concerns)
        match change:
            case ev.PodDone(uid):
                if uid not in self.cluster.pods:
                    self._runner.run(ForgetPod(uid))
                    self._bindings.drop(uid, "the pod ended")
            case ev.BindFailed(pod, message, what):
                text = f"{what}: {message}"
                placement = self._bindings.placement_of(pod.uid) if pod.group else None
                if placement is not None:
                    self.carry_out(self.controllers.gangs.held.bind_failed(placement, now), now)
                self.queue.requeue_failed_bind(pod, self._bindings.drop(pod.uid, text), now)
                self._runner.run(RecordUnscheduled(pod, text, "SchedulerError"))
                self._metrics.attempts.labels("error", self._metrics.profile).inc()

    def _condition_at_node(self, pod: Pod, node_name: str) -> RequeueCondition | None:
        """The requeue condition that still holds at a node; None after an internal error, so the
        pod is tried.
        """
        with self.contain("decision", pod.key):
            return condition_at_node(self.cluster, self.pipeline, pod, node_name)
        return None

    # --- decisions ---------------------------------------------------------------------------

    def _decide_batch(self, now: float) -> bool:
        """Decide up to one batch, limited by the steps of one decision; returns whether a pod was
        decided.
        """
        work, done = Budget(self.pipeline.decision_steps_max), 0
        self._rejected = 0
        while self._unranked is None and not work.is_over:
            if done >= BATCH_MAX or self._rejected >= REJECTED_MAX:
                break
            if not (entries := next_batch(self.queue, self.cluster, now)):
                break
            done += len(entries)
            if (gang := self._gang_of(entries[0])) is not None:
                steps = self.controllers.gangs.decide(self, gang, entries[0], now, self._clock)
                work.spend(steps)
                continue
            started = self._clock()
            plan = self._plan_batch(entries, work) or ()
            share_s = (self._clock() - started) / len(entries)
            for entry, placement in zip_longest(entries, plan):
                try:
                    work.spend(self._decide(entry, placement, now, share_s))
                except InvariantViolation:
                    raise
                except Exception as problem:  # noqa: BLE001 - it concerns only this pod
                    self.reject_after_error(entry, problem, now)
        return done > 0

    def _gang_of(self, entry: QueuedPodInfo) -> Gang | None:
        """The gang that a popped pod leads."""
        return self.cluster.gangs.of(entry.pod) if entry.pod.group else None

    def _plan_batch(
        self, entries: list[QueuedPodInfo], work: Budget
    ) -> tuple[Placement, ...] | None:
        pods = [entry.pod for entry in entries]
        with self.contain("decision", ", ".join(pod.key for pod in pods)):
            return plan_batch(self.cluster, pods, self.pipeline, work)
        return None  # decide the pods one by one, so that the error is assigned to one of them

    def reject_after_error(self, entry: QueuedPodInfo, problem: Exception, now: float) -> None:
        """Internal error for a pod: reject it with a reason, and retry it after a backoff."""
        pod = entry.pod
        number = self.contain.note("decision", pod.key, problem)
        self._bindings.drop(pod.uid, f"internal error {number}")
        for change in self.cluster.forget(pod.uid):
            self._apply(change, now)
        self.queue.delete(pod.uid, now)
        self.queue.requeue_failed_bind(pod, entry, now)
        with self.contain("decision", pod.key):
            self.report_rejection(entry, failure(self.cluster, pod, number), now)

    def _decide(
        self, entry: QueuedPodInfo, placement: Placement | None, now: float, planned_s: float
    ) -> int:
        """Decide one pod, unless it has a placement; returns the number of steps used.

        ``planned_s`` is the pod's share of the time that the plan of its batch took.
        """
        started = self._clock()
        self.queue.begin_decision(entry)
        work = Budget(self.pipeline.decision_steps_max)
        decision = self._avoidance.unless_avoided(placement) or self._decider(
            self.cluster, entry.pod, self.pipeline, work
        )
        decided_s = self._clock() - started
        self._metrics.algorithm_s.observe(decided_s)
        took_s = planned_s + decided_s
        if isinstance(decision, Placement):
            record = self.journal.record(entry, decision, self, now)
            record.took_s = took_s
            won = node_before(self.cluster, decision) if self.journal.may_rank() else None
            self._unranked = UnrankedPlacement(record, decision, won) if won is not None else None
            self.assume(entry, decision, record, now)
            self.start(decision, now)
        else:
            self._reject(entry, decision, now, took_s)
        return work.spent

    def _reject(
        self, entry: QueuedPodInfo, rejection: Rejection, now: float, took_s: float
    ) -> None:
        """The pod waits, maybe for the end of pods that are preempted for it."""
        self.report_rejection(entry, rejection, now, took_s)
        # A nominated pod waits alone, and is decided for itself.
        nominated = rejection.nominated_node
        if nominated and nominated != entry.pod.nominated_node:
            entry.pod = msgspec.structs.replace(entry.pod, nominated_node=nominated)
        self.queue.add_unschedulable(
            entry, requeue_condition(rejection.diagnosis, rejection.node_name), now
        )
        if rejection.deallocates is not None:
            self.carry_out(self.controllers.claims.deallocate(rejection), now)
        if isinstance(rejection, Preemption):
            self.carry_out(self._preemption.begin(rejection, now), now)
        elif nominated:
            changes = self.cluster.expect_devices(entry.pod.uid, rejection.claims)
            self.carry_out(tuple(changes), now)
        elif self.pipeline.preemption != "off":
            self.carry_out(self._preemption.give_up(entry.pod), now)

    def assume(
        self, entry: QueuedPodInfo, placement: Placement, record: Record, now: float
    ) -> None:
        """Assume the pod on its node."""
        pod = placement.pod
        self.generation += 1
        self.queue.delete(pod.uid, now)
        self._runner.run(DropCondition(pod.uid))
        assumption = Assumption(
            placement.node_name,
            placement.devices,
            placement.index,
            placement.volumes,
            placement.claims,
        )
        self.carry_out(tuple(self.cluster.assume(pod, assumption)), now)
        self._avoidance.record_binding(pod, placement.node_name, now)
        self._bindings.assume(placement, entry, record)

    def start(self, placement: Placement, now: float) -> None:
        """Bind an assumed pod now, or once its PreBind steps are complete."""
        if isinstance(placement, PendingPlacement):
            # The controller of claims says itself what a device is waited for.
            if any(not isinstance(step, AllocateClaims) for step in placement.steps):
                self._runner.run(schedule_result.waits(placement))
            self.carry_out(self.controllers.begin(placement, now), now)
        else:
            self._bindings.start(placement.pod.uid)

    def _rank(self) -> None:
        """Find the runner-up of the last placement, before the state changes again."""
        if (unranked := self._unranked) is not None:
            self._unranked = None
            self.journal.add_ranking(unranked.record, self, unranked.placement, unranked.won)

    def report_rejection(
        self, entry: QueuedPodInfo, rejection: Rejection, now: float, took_s: float = 0.0
    ) -> None:
        self._rejected += 1
        main = rejection.diagnosis.summary.main
        entry.code = main.name if main is not None else ""
        record = self.journal.record(entry, rejection, self, now)
        record.took_s = took_s
        entry.message = record.message
        # The newest version of the pod; the queue has the version of the last scheduling-relevant
        # change.
        pod = self.cluster.pods.get(entry.pod.uid, entry.pod)
        awaited = self.awaited(pod, rejection.nominated_node)
        action = schedule_result.unscheduled(self._metrics, pod, record, rejection, awaited)
        self.controllers.nominations.show(pod.uid, action.nominated_node, awaited)
        self._runner.run(action)

    def awaited(self, pod: Pod, nominated: str) -> str:
        """The node where capacity is being made for a pod; empty if there is none."""
        return self.controllers.nominations.awaited(pod, nominated)
