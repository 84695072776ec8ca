"""Which rejected pods wait together."""

from __future__ import annotations

from scheduler.model.reasons.reason import RequeueCause
from scheduler.state.queue.equivalence_group import key_of
from scheduler.state.queue.requeue_conditions import RequeueCondition
from tests.builders import pod

FREED = RequeueCondition(frozenset((RequeueCause.FREED,)))
IMPOSSIBLE = {"preemptionPolicy": "Never"}


def test_pods_of_equal_kind_priority_and_namespace_wait_together() -> None:
    assert key_of(pod("a", gpus=1), FREED) == key_of(pod("b", gpus=1), FREED)


def test_a_pod_that_never_preempts_speaks_for_no_pod_that_may() -> None:
    mild = pod("a", gpus=1, spec=IMPOSSIBLE)

    assert key_of(mild, FREED) != key_of(pod("b", gpus=1), FREED)
    assert key_of(mild, FREED) == key_of(pod("c", gpus=1, spec=IMPOSSIBLE), FREED)


def test_a_nominated_pod_waits_for_itself() -> None:
    waiting = pod("a", gpus=1, nominated="n1")

    assert key_of(waiting, FREED) != key_of(pod("b", gpus=1, nominated="n1"), FREED)
