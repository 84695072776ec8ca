"""The queue never loses a pod: an added pod that was not deleted comes out again."""

from __future__ import annotations

from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from scheduler.model.pods.pod import Pod
from scheduler.model.reasons.reason import RequeueCause
from scheduler.state.event import ClusterEvent
from scheduler.state.queue.scheduling_queue import (
    BIND_BACKOFF_MAX_S,
    UNSCHEDULABLE_MAX_S,
    QueuedPodInfo,
    RequeueCondition,
    SchedulingQueue,
    backoff_s,
)
from tests.builders import pod

NUMBERS = st.integers(0, 5)
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
    """Beside the queue: which pods wait, and when each may be tried again."""

    def __init__(self) -> None:
        super().__init__()
        self.queue = SchedulingQueue()
        self.now = 1000.0
        self.waiting: dict[str, Pod] = {}
        self.not_before: dict[str, float] = {}
        self.popped: QueuedPodInfo | None = None

    @rule(number=NUMBERS, version=st.integers(0, 2))
    @precondition(lambda self: self.popped is None)
    def offer(self, number: int, version: int) -> None:
        """A new pod, or one with a changed spec, is tried at once."""
        offered = PODS[number, version]
        self.waiting[offered.uid] = offered
        self.not_before[offered.uid] = self.now
        self.queue.add(offered, self.now)

    @rule(number=NUMBERS)
    @precondition(lambda self: self.popped is None)
    def settle(self, number: int) -> None:
        self.waiting.pop(PODS[number, 0].uid, None)
        self.queue.delete(PODS[number, 0].uid, self.now)

    @rule()
    @precondition(lambda self: self.popped is None)
    def pop(self) -> None:
        self.popped = self.queue.pop(self.now)
        if self.popped is not None:
            uid = self.popped.pod.uid
            assert self.popped.pod == self.waiting[uid], "it is decided as it is now"
            assert self.now >= self.not_before[uid], "its pause is over"

    @rule(causes=CAUSES)
    @precondition(lambda self: self.popped is not None)
    def park(self, causes: frozenset[RequeueCause]) -> None:
        entry = self._take()
        self.queue.add_unschedulable(entry, RequeueCondition(causes), self.now)
        self.not_before[entry.pod.uid] = self.now + backoff_s(entry.attempts)

    @rule()
    @precondition(lambda self: self.popped is not None)
    def place(self) -> None:
        uid = self._take().pod.uid
        self.queue.delete(uid, self.now)
        del self.waiting[uid]

    @rule()
    @precondition(lambda self: self.popped is not None)
    def place_in_vain(self) -> None:
        """Its Binding fails."""
        entry = self._take()
        self.queue.delete(entry.pod.uid, self.now)
        self.queue.requeue_failed_bind(entry.pod, entry, self.now)
        self.not_before[entry.pod.uid] = self.now + backoff_s(
            entry.failed_binds + 1, BIND_BACKOFF_MAX_S
        )

    @rule(change=CHANGES)
    @precondition(lambda self: self.popped is None)
    def lift(self, change: ClusterEvent) -> None:
        self.queue.requeue_on(change, self.now)

    @rule(seconds=st.sampled_from([0.0, 0.5, 1.0, 3.0, 10.0, 299.0]))
    @precondition(lambda self: self.popped is None)
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
            self.park(frozenset((RequeueCause.NODE,)))
        self.now += UNSCHEDULABLE_MAX_S
        self.queue.flush_unschedulable(self.now)
        self.now += BIND_BACKOFF_MAX_S
        out = []
        while (entry := self.queue.pop(self.now)) is not None:
            out.append(entry.pod)
            self.queue.delete(entry.pod.uid, self.now)

        assert {one.uid for one in out} == set(self.waiting)
        assert len(out) == len(self.waiting)
        assert [one.priority for one in out] == sorted((p.priority for p in out), reverse=True)


TestQueue = Waiting.TestCase
TestQueue.settings = settings(stateful_step_count=40, max_examples=settings().max_examples // 2)
