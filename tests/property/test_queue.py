"""The queue never loses a pod: whoever was offered and not settled comes out again."""

from __future__ import annotations

from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from scheduler.model.pod import Pod
from scheduler.model.reason import Cause
from scheduler.state.event import Lifted
from scheduler.state.queue import PARKED_MAX_S, REFUSED_MAX_S, Entry, Queue, Why, pause
from tests.builders import pod

NUMBERS = st.integers(0, 5)
CAUSES = st.frozensets(st.sampled_from(Cause), min_size=1, max_size=3)
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
        *(Lifted(cause) for cause in Cause),
        Lifted(Cause.OWNER, PODS[0, 0].workload),
        Lifted(Cause.OWNER, "somebody else"),
        Lifted(Cause.NAMESPACE, "team"),
    ]
)


class Waiting(RuleBasedStateMachine):
    """Beside the queue: which pods wait, and when each may be tried again."""

    def __init__(self) -> None:
        super().__init__()
        self.queue = Queue()
        self.now = 1000.0
        self.waiting: dict[str, Pod] = {}
        self.not_before: dict[str, float] = {}
        self.popped: Entry | None = None

    @rule(number=NUMBERS, version=st.integers(0, 2))
    @precondition(lambda self: self.popped is None)
    def offer(self, number: int, version: int) -> None:
        """A pod is new, or its wishes changed: it is tried at once."""
        offered = PODS[number, version]
        self.waiting[offered.uid] = offered
        self.not_before[offered.uid] = self.now
        self.queue.offer(offered, self.now)

    @rule(number=NUMBERS)
    @precondition(lambda self: self.popped is None)
    def settle(self, number: int) -> None:
        self.waiting.pop(PODS[number, 0].uid, None)
        self.queue.settle(PODS[number, 0].uid, self.now)

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
    def park(self, causes: frozenset[Cause]) -> None:
        entry = self._take()
        self.queue.park(entry, Why(causes), self.now)
        self.not_before[entry.pod.uid] = self.now + pause(entry.attempts)

    @rule()
    @precondition(lambda self: self.popped is not None)
    def place(self) -> None:
        uid = self._take().pod.uid
        self.queue.settle(uid, self.now)
        del self.waiting[uid]

    @rule()
    @precondition(lambda self: self.popped is not None)
    def place_in_vain(self) -> None:
        """Its Binding fails."""
        entry = self._take()
        self.queue.settle(entry.pod.uid, self.now)
        self.queue.postpone(entry.pod, entry, self.now)
        self.not_before[entry.pod.uid] = self.now + pause(entry.refusals + 1, REFUSED_MAX_S)

    @rule(change=CHANGES)
    @precondition(lambda self: self.popped is None)
    def lift(self, change: Lifted) -> None:
        self.queue.lift(change, self.now)

    @rule(seconds=st.sampled_from([0.0, 0.5, 1.0, 3.0, 10.0, 299.0]))
    @precondition(lambda self: self.popped is None)
    def wait(self, seconds: float) -> None:
        self.now += seconds
        self.queue.flush(self.now)

    def _take(self) -> Entry:
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
        """Five minutes and a pause later everybody was due, strongest first."""
        if self.popped is not None:
            self.park(frozenset((Cause.NODE,)))
        self.now += PARKED_MAX_S
        self.queue.flush(self.now)
        self.now += REFUSED_MAX_S
        out = []
        while (entry := self.queue.pop(self.now)) is not None:
            out.append(entry.pod)
            self.queue.settle(entry.pod.uid, self.now)

        assert {one.uid for one in out} == set(self.waiting)
        assert len(out) == len(self.waiting)
        assert [one.priority for one in out] == sorted((p.priority for p in out), reverse=True)


TestQueue = Waiting.TestCase
TestQueue.settings = settings(stateful_step_count=40, max_examples=settings().max_examples // 2)
