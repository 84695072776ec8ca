"""When pods in backoff are tried again (``pkg/scheduler/backend/queue/backoff_queue.go``)."""

from __future__ import annotations

import pytest

from scheduler.model.reasons.reason import RequeueCause
from scheduler.state.event import ClusterEvent
from scheduler.state.queue.scheduling_queue import SchedulingQueue, backoff_end
from tests.builders import pod
from tests.unit.state.queue.queue_world import (
    NOW,
    fail_bind,
    fail_binds,
    order,
    queue,
    refuse,
    woken,
)

WINDOWS = [
    pytest.param(1000.0, 1.0, 1002.0, id="at-the-begin-of-a-window"),
    pytest.param(1000.999, 1.0, 1002.0, id="at-the-end-of-a-window"),
    pytest.param(1000.5, 10.0, 1011.0, id="longest"),
    pytest.param(0.25, 0.5, 1.0, id="within-one-window"),
]


@pytest.mark.parametrize(("now", "pause_s", "end"), WINDOWS)
def test_backoff_ends_with_the_window_in_which_it_expires(
    now: float, pause_s: float, end: float
) -> None:
    """``alignToWindow`` and ``isEntityBackingoff`` of kube-scheduler's backoffQueue."""
    assert backoff_end(now, pause_s) == end


def test_without_active_pods_a_pod_in_backoff_is_popped() -> None:
    """``SchedulerPopFromBackoffQ``."""
    waiting = woken(pod("a"))
    assert waiting.sizes() == {"active": 0, "backoff": 1, "unschedulable": 0}

    assert order(waiting, NOW) == ["a"]


def test_active_pod_comes_before_a_stronger_one_in_backoff() -> None:
    waiting = woken(pod("strong", priority=9))
    waiting.add(pod("weak"), NOW)

    assert order(waiting, NOW) == ["weak", "strong"]


def test_pods_in_backoff_are_popped_by_window_priority_and_age() -> None:
    waiting = woken(
        pod("young", created=9),
        pod("old", created=1, requests={"cpu": "1"}),
        pod("strong", created=5, priority=3),
    )
    longer = pod("twice-rejected", priority=9)
    waiting.add(longer, NOW)
    refuse(waiting)
    waiting.activate(longer, NOW)
    refuse(waiting)
    waiting.requeue_on(ClusterEvent(RequeueCause.NODE), NOW)

    assert order(waiting, NOW) == ["strong", "old", "young", "twice-rejected"]


def test_pods_of_a_window_leave_backoff_together_by_priority() -> None:
    waiting = SchedulingQueue()
    for one, at in ((pod("weak"), 0.1), (pod("strong", priority=9), 0.9)):
        waiting.add(one, NOW + at)
        refuse(waiting, NOW + at)
        waiting.requeue_on(ClusterEvent(RequeueCause.NODE), NOW + at)

    assert order(waiting, NOW + 2) == ["strong", "weak"]


def test_pod_in_error_backoff_is_not_popped_early() -> None:
    waiting = woken(pod("rejected"))
    fail_bind(waiting)

    assert order(waiting, NOW + 1.9) == []
    assert order(waiting, NOW + 2) == ["rejected"]


def test_a_batch_takes_pods_in_backoff_after_the_active_ones() -> None:
    waiting = woken(pod("in-backoff"), pod("weak", priority=-1))
    waiting.add(pod("active", created=9), NOW)

    batch = waiting.pop_batch(NOW, 8)

    assert [entry.pod.name for entry in batch] == ["active", "in-backoff"]


def test_rejection_resets_the_error_backoff() -> None:
    """``ConsecutiveErrorsCount``; rejections and errors are counted separately."""
    waiting = queue(pod("a"))
    moment = fail_binds(waiting, 3)
    entry = refuse(waiting, moment)

    assert (entry.attempts, entry.rejections, entry.errors) == (4, 1, 0)
    assert entry.ready_at == moment + 2, "the first rejection, although three Bindings failed"


def test_changed_pod_keeps_its_backoff() -> None:
    """Else a program that edits a pod all the time would take the turns of other pods."""
    waiting = woken(pod("a", priority=9))
    waiting.add(pod("b"), NOW)
    waiting.add(pod("a", priority=9, labels={"app": "x"}), NOW)

    assert order(waiting, NOW) == ["b", "a"]


def test_changed_pod_past_its_backoff_is_active() -> None:
    waiting = queue(pod("a", priority=9))
    refuse(waiting)
    waiting.add(pod("b"), NOW + 60)
    waiting.add(pod("a", priority=9, labels={"app": "x"}), NOW + 60)

    assert order(waiting, NOW + 60) == ["a", "b"]


def test_activated_pod_skips_its_backoff() -> None:
    """Its preemption ended, for example."""
    waiting = woken(pod("a", priority=9))
    waiting.add(pod("b"), NOW)
    waiting.activate(pod("a", priority=9), NOW)

    assert order(waiting, NOW) == ["a", "b"]


def test_changed_pod_leaves_its_error_backoff() -> None:
    """The error was of the former spec, and the backoff may be as long as a minute."""
    waiting = queue(pod("a"))
    now = fail_binds(waiting, 6)
    fail_bind(waiting, now)
    assert waiting.pop(now + 59) is None

    waiting.add(pod("a", labels={"app": "x"}), now)

    assert waiting.next_due() == now + 2
    assert order(waiting, now) == ["a"]
