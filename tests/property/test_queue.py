"""The queue never loses a pod: an added pod that was not deleted comes out again."""

from __future__ import annotations

from enum import Enum, auto
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from scheduler.model.pods.pod import Pod
from scheduler.model.reasons.reason import RequeueCause
from scheduler.state.event import ClusterEvent
from scheduler.state.queue.scheduling_queue import (
    ERROR_BACKOFF_MAX_S,
    UNSCHEDULABLE_MAX_S,
    QueuedPodInfo,
    RequeueCondition,
    SchedulingQueue,
    backoff_end,
    backoff_s,
)
from tests.builders import pod

NUMBERS = st.integers(0, 5)
NODE = frozenset((RequeueCause.NODE,))
CAUSES = st.frozensets(st.sampled_from(RequeueCause), min_size=1, max_size=3)
PODS = {
    (number, version): pod(
        f"p{number}",
        priority=number % 3,
        created=number,
        labels={"version": str(version)},
        owner="" if number % 2 else "Job/j",
    )
    for number in range(6)
    for version in range(3)
}
CHANGES = st.sampled_from(
    [
        *(ClusterEvent(cause) for cause in RequeueCause),
        ClusterEvent(RequeueCause.OWNER, PODS[0, 0].workload),
        ClusterEvent(RequeueCause.OWNER, "other"),
        ClusterEvent(RequeueCause.NAMESPACE, "team"),
    ]
)


class Waiting(RuleBasedStateMachine):
    """Beside the queue: which pods wait, and when the backoff of each is over."""

    def __init__(self) -> None:
        super().__init__()
        self.queue = SchedulingQueue()
        self.now = 1000.0
        self.waiting: dict[str, Pod] = {}
        self.not_before: dict[str, float] = {}
        self.failed: set[str] = set()
        self.popped: QueuedPodInfo | None = None
        self.missed: list[ClusterEvent] = []

    @rule(number=NUMBERS, version=st.integers(0, 2))
    def offer(self, number: int, version: int) -> None:
        """A new pod is active at once; one with a changed spec only leaves an error backoff."""
        offered = PODS[number, version]
        if offered.uid not in self.waiting:
            self.not_before[offered.uid] = self.now
        self.waiting[offered.uid] = offered
        if self.popped is None or self.popped.pod.uid != offered.uid:
            self.failed.discard(offered.uid)
        self.queue.add(offered, self.now)
        if self.popped is not None and self.popped.pod.uid == offered.uid:
            self.missed.append(ClusterEvent(RequeueCause.POD))

    @rule(number=NUMBERS)
    def activate(self, number: int) -> None:
        uid = PODS[number, 0].uid
        if uid in self.waiting:
            self.not_before[uid] = self.now
            self.queue.activate(self.waiting[uid], self.now)
            self._end(uid)

    @rule(number=NUMBERS)
    def settle(self, number: int) -> None:
        uid = PODS[number, 0].uid
        self.waiting.pop(uid, None)
        self.failed.discard(uid)
        self.queue.delete(uid, self.now)
        self._end(uid)

    def _end(self, uid: str) -> None:
        """The decision in progress does not count any more."""
        if self.popped is not None and self.popped.pod.uid == uid:
            self.queue.add_unschedulable(self.popped, RequeueCondition(NODE), self.now)
            self.popped = None

    @rule()
    @precondition(lambda self: self.popped is None)
    def pop(self) -> None:
        active = self.queue.sizes()["active"]
        self.popped, self.missed = self.queue.pop(self.now), []
        if self.popped is not None:
            uid = self.popped.pod.uid
            assert self.popped.pod == self.waiting[uid], "it is decided as it is now"
            if self.now < self.not_before[uid]:
                assert active == 0, "active pods come before those in backoff"
                assert uid not in self.failed, "an error backoff is not shortened"

    @rule()
    @precondition(lambda self: self.popped is not None)
    def begin(self) -> None:
        assert self.popped is not None
        self.queue.begin_decision(self.popped)
        self.missed = []

    @rule(causes=CAUSES)
    @precondition(lambda self: self.popped is not None)
    def park(self, causes: frozenset[RequeueCause]) -> None:
        """A rejection; a change that its decision missed and that may help wakes its group."""
        entry, condition = self._take(), RequeueCondition(causes)
        self.queue.add_unschedulable(entry, condition, self.now)
        self.not_before[entry.pod.uid] = backoff_end(self.now, backoff_s(entry.rejections))
        self.failed.discard(entry.pod.uid)
        if any(_may_help(one, causes, entry.pod) for one in self.missed):
            group = entry.equivalence_group
            assert entry.place == "backoff" or (group is not None and group.probe is not None)

    @rule()
    @precondition(lambda self: self.popped is not None)
    def place(self) -> None:
        uid = self._take().pod.uid
        self.queue.delete(uid, self.now)
        self.failed.discard(uid)
        del self.waiting[uid]

    @rule()
    @precondition(lambda self: self.popped is not None)
    def place_in_vain(self) -> None:
        """Its Binding fails."""
        entry = self._take()
        uid = entry.pod.uid
        self.queue.delete(uid, self.now)
        self.queue.requeue_failed_bind(entry.pod, entry, self.now)
        self.failed.add(uid)
        pause_s = backoff_s(entry.errors + 1, ERROR_BACKOFF_MAX_S)
        self.not_before[uid] = backoff_end(self.now, pause_s)

    @rule(change=CHANGES)
    def lift(self, change: ClusterEvent) -> None:
        self.queue.requeue_on(change, self.now)
        self.missed.append(change)

    @rule(seconds=st.sampled_from([0.0, 0.5, 1.0, 3.0, 10.0, 299.0]))
    def wait(self, seconds: float) -> None:
        self.now += seconds
        self.queue.flush_unschedulable(self.now)

    def _take(self) -> QueuedPodInfo:
        entry, self.popped = self.popped, None
        assert entry is not None
        return entry

    @invariant()
    def it_holds_exactly_those_who_wait(self) -> None:
        assert len(self.queue) == len(self.waiting)
        assert all(uid in self.queue for uid in self.waiting)
        sizes: Any = self.queue.sizes()
        assert sum(sizes.values()) == len(self.waiting)
        assert min(sizes.values()) >= 0

    def teardown(self) -> None:
        """After five minutes and a backoff every pod was due, highest priority first."""
        if self.popped is not None:
            self.park(NODE)
        self.now += UNSCHEDULABLE_MAX_S
        self.queue.flush_unschedulable(self.now)
        self.now += ERROR_BACKOFF_MAX_S + 1
        out = []
        while (entry := self.queue.pop(self.now)) is not None:
            out.append(entry.pod)
            self.queue.delete(entry.pod.uid, self.now)

        assert {one.uid for one in out} == set(self.waiting)
        assert len(out) == len(self.waiting)
        assert [one.priority for one in out] == sorted((p.priority for p in out), reverse=True)


def _may_help(change: ClusterEvent, causes: frozenset[RequeueCause], waiting: Pod) -> bool:
    """No pod of these tests has claims."""
    is_for_it = not change.scope or change.scope in (waiting.workload, waiting.namespace)
    of_claims = {RequeueCause.CLAIM, RequeueCause.RESOURCE_CLAIM}
    return is_for_it and change.cause in causes - of_claims


TestQueue = Waiting.TestCase
TestQueue.settings = settings(stateful_step_count=40, max_examples=settings().max_examples // 2)


class Moment(Enum):
    """When a change arrives."""

    AFTER_THE_POP = auto()
    IN_THE_DECISION = auto()
    AFTER_THE_REJECTION = auto()


@given(CAUSES, CHANGES, st.sampled_from(Moment), st.integers(0, 3), st.integers(0, 3))
def test_change_that_can_lift_a_rejection_is_never_lost(
    causes: frozenset[RequeueCause], change: ClusterEvent, moment: Moment, equal: int, before: int
) -> None:
    """At whatever point between the pop of a pod and the report of its rejection it arrives."""
    queue, condition = SchedulingQueue(), RequeueCondition(causes)
    for number in range(equal):
        queue.add(pod(f"equal-{number}"), 1000.0)
        _reject(queue, condition)
    queue.add(pod("p", created=9), 1000.0)
    for _ in range(before):
        queue.activate(_reject(queue, condition).pod, 1000.0)
    entry = queue.pop(1000.0)
    assert entry is not None
    if moment is not Moment.AFTER_THE_POP:
        queue.begin_decision(entry)
    if moment is not Moment.AFTER_THE_REJECTION:
        queue.requeue_on(change, 1000.0)
    queue.add_unschedulable(entry, condition, 1000.0)
    if moment is Moment.AFTER_THE_REJECTION:
        queue.requeue_on(change, 1000.0)

    next_one = queue.pop(1000.0)

    assert (next_one is not None) == _may_help(change, causes, entry.pod)


def _reject(queue: SchedulingQueue, condition: RequeueCondition) -> QueuedPodInfo:
    entry = queue.pop(1000.0)
    assert entry is not None
    queue.add_unschedulable(entry, condition, 1000.0)
    return entry
