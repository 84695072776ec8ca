"""Decides a gang: all of its plan is assumed before the first Binding starts, or nothing is.

Bindings start together. A placement that waits for claims, volumes or MIG instances holds those of
the other members back; if its wait fails, the others are given up too and the gang is planned
again.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol
from weakref import WeakKeyDictionary

from scheduler.controllers.bindings import BindingController
from scheduler.controllers.gangs.group_states import (
    SCHEDULER_ERROR,
    UNSCHEDULABLE,
    GroupStates,
)
from scheduler.controllers.gangs.held_places import HeldPlaces
from scheduler.controllers.gangs.reservation import HeadReservation
from scheduler.controllers.node_avoidance import NodeAvoidance
from scheduler.controllers.preemption import PreemptionController
from scheduler.decide.gang.plan import GangPlan, budget_of, plan_gang
from scheduler.decide.gang.preemption import preempt
from scheduler.framework.budget import Budget
from scheduler.framework.decision import PendingPlacement, Placement, Preemption, Rejection
from scheduler.framework.pipeline import Pipeline
from scheduler.model.actions import DropPlacement
from scheduler.model.pods.pod import Pod
from scheduler.model.reasons.autoscaling import text_class
from scheduler.model.reasons.reason import sentence
from scheduler.report.decisions.journal import DecisionContext, Journal, Record
from scheduler.state import event as ev
from scheduler.state.effects import Effects
from scheduler.state.gangs.gang import Gang
from scheduler.state.invariant import InvariantViolation
from scheduler.state.queue.requeue_conditions import requeue_condition
from scheduler.state.queue.scheduling_queue import QueuedPodInfo
from scheduler.state.scheduler_state import SchedulerState

#: Cancels the wait of an assumed pod; None if the pod does not wait there.
Reject = Callable[[str, float], Effects | None]


class Cycle(DecisionContext, Protocol):
    """What the loop does with the decision about one pod."""

    @property
    def journal(self) -> Journal:
        """The last decisions."""

    def assume(
        self, entry: QueuedPodInfo, placement: Placement, record: Record, now: float
    ) -> None:
        """Assume a pod on its node."""

    def start(self, placement: Placement, now: float) -> None:
        """Begin what comes before the Binding of an assumed pod, or the Binding."""

    def report_rejection(
        self, entry: QueuedPodInfo, rejection: Rejection, now: float, took_s: float
    ) -> None:
        """Record why a pod is pending."""

    def awaited(self, pod: Pod, nominated: str) -> str:
        """The node where capacity is being made for a pod; empty if there is none.

        ``nominated`` is the node where pods end for it, if there is one.
        """

    def carry_out(self, effects: Effects, now: float) -> None:
        """Fold changes, and run actions."""

    def reject_after_error(self, entry: QueuedPodInfo, problem: Exception, now: float) -> None:
        """Internal error: the pod is tried again after a backoff."""


class GangScheduling:
    """Carries out the plans of gangs."""

    name = "gang-scheduling"

    def __init__(
        self,
        state: SchedulerState,
        bindings: BindingController,
        avoidance: NodeAvoidance,
        preemption: PreemptionController,
        rejects: Sequence[Reject],
        states: GroupStates,
        reserve_s: float,
    ) -> None:
        self._cluster = cluster = state.cluster
        self._queue = state.queue
        self._bindings = bindings
        self._avoidance = avoidance
        self._preemption = preemption
        self._rejects = rejects
        self._head = HeadReservation(cluster, reserve_s)
        self.held = HeldPlaces(cluster)
        self._states = states
        #: The class of the text that the members were told last, and the node they wait for.
        self._reported: WeakKeyDictionary[Gang, tuple[str, str]] = WeakKeyDictionary()

    def decide(
        self,
        cycle: Cycle,
        gang: Gang,
        leader: QueuedPodInfo,
        now: float,
        clock: Callable[[], float],
    ) -> int:
        """Plan a gang and carry the plan out; returns the number of steps used."""
        members = self._queue.members(gang.key)
        work = budget_of([one.pod for one in members], cycle.pipeline)
        self._queue.begin_decision(leader)
        started = clock()
        try:
            plan = self._plan(gang, members, cycle.pipeline, work)
            share_s = (clock() - started) / len(members)
            if isinstance(plan, Rejection):
                pods = [one.pod for one in members]
                every = preempt(self._cluster, gang, pods, cycle.pipeline, plan, work)
                self._reject(cycle, gang, members, every, now, share_s)
            else:
                self._place(cycle, members, plan, now, share_s)
                cycle.carry_out(self._head.placed(gang), now)
        except InvariantViolation:
            raise
        except Exception as problem:  # noqa: BLE001 - it concerns only this gang
            self._states.reject(gang, SCHEDULER_ERROR, f"internal error: {problem}")
            for one in members:
                cycle.reject_after_error(one, problem, now)
        return work.spent

    def tick(self, now: float, *, leads: bool) -> Effects:
        """Give up the rest of the gangs of which a placement was taken back before its Binding, and
        release places that were held long enough, or the reservation of the head.
        """
        effects = self.held.expire(now) + self._head.tick(now, leads=leads)
        for uid in self._bindings.left_behind():
            effects += self._give_up(uid, now)
        return effects

    def _plan(
        self, gang: Gang, members: Sequence[QueuedPodInfo], pipeline: Pipeline, work: Budget
    ) -> GangPlan | Rejection:
        pods = [one.pod for one in members]
        return plan_gang(self._cluster, gang, pods, pipeline, work)

    def _place(
        self,
        cycle: Cycle,
        members: Sequence[QueuedPodInfo],
        plan: GangPlan,
        now: float,
        share_s: float,
    ) -> None:
        entries = {one.pod.uid: one for one in members}
        by_uid = {one.pod.uid: one for one in plan.placements}
        # In the order of the members: the leader is the last one to leave the queue.
        placements = [by_uid[uid] for uid in entries if uid in by_uid]
        if any(isinstance(one, PendingPlacement) for one in placements):
            self._bindings.hold_together([one.pod.uid for one in placements])
        # All records before the state contains a placement: each has the state of the plan.
        records = [
            cycle.journal.record(entries[one.pod.uid], one, cycle, now) for one in placements
        ]
        for one, record in zip(placements, records, strict=True):
            record.took_s = share_s
            cycle.assume(entries[one.pod.uid], one, record, now)
        for one in placements:
            cycle.start(one, now)
        leader = members[-1]
        if leader.pod.uid in by_uid:
            return  # another member leads those that are left, and is decided next
        for left in plan.left:
            cycle.report_rejection(entries[left.pod.uid], left, now, share_s)
            if left.pod.uid == leader.pod.uid:
                self._queue.add_unschedulable(leader, requeue_condition(left.diagnosis), now)

    def _reject(
        self,
        cycle: Cycle,
        gang: Gang,
        members: Sequence[QueuedPodInfo],
        rejections: Sequence[Rejection],
        now: float,
        share_s: float,
    ) -> None:
        """All members wait for the same. Only the leader is told of new numbers in the same text:
        otherwise each new member would cost a write for every one before it.
        """
        leader, rejection = members[-1], rejections[-1]
        told = sentence(rejection.diagnosis)
        kind = text_class(told), cycle.awaited(leader.pod, rejection.nominated_node)
        is_news = self._reported.get(gang) != kind
        if gang.is_complete:
            self._states.reject(gang, UNSCHEDULABLE, told)
        self._reported[gang] = kind
        for one, own in zip(members, rejections, strict=True):
            shown = self._cluster.pods[one.pod.uid].nominated_node  # it may have lapsed
            if is_news or one is leader or not one.code or shown != own.nominated_node:
                cycle.report_rejection(one, own, now, share_s)
        condition = requeue_condition(rejection.diagnosis, rejection.node_name)
        self._queue.add_unschedulable(leader, condition, now)
        cycle.carry_out(self._make_room(gang, rejections, cycle.pipeline, now), now)

    def _make_room(
        self, gang: Gang, rejections: Sequence[Rejection], pipeline: Pipeline, now: float
    ) -> Effects:
        """Victims end for a gang, or it reserves room if it is the head of the queue."""
        waits = any(own.nominated_node for own in rejections)
        if waits or not gang.is_complete:
            effects = self._head.placed(gang)
        else:
            pods = [own.pod for own in rejections]
            effects = self._head.refused(gang, pods, pipeline, now)
        for own in rejections:
            if isinstance(own, Preemption):
                effects += self._preemption.begin(own, now)
            elif not waits and pipeline.preemption != "off" and not self._is_held(own.pod.uid):
                effects += self._preemption.give_up(own.pod)
        return effects

    def _is_held(self, uid: str) -> bool:
        """Whether the room of a member is held for another reason than its victims."""
        return self.held.has(uid) or self._cluster.nominations.is_reserved(uid)

    def _give_up(self, uid: str, now: float) -> Effects:
        for reject in self._rejects:
            effects = reject(uid, now)
            if effects is not None:
                return effects
        if uid not in self._cluster.assumed:
            return (DropPlacement(uid),)
        changes: tuple[ev.Change, ...] = tuple(self._cluster.give_up(uid))
        return (*changes, DropPlacement(uid), *self._avoidance.forget_pod(uid, now))
