"""Changes that arrive while a pod is decided."""

from __future__ import annotations

import pytest

from scheduler.model.reasons.reason import RequeueCause
from scheduler.state.event import ClusterEvent
from scheduler.state.queue.requeue_conditions import RequeueCondition
from tests.builders import pod
from tests.unit.state.queue.queue_world import NODE, NOW, order, queue, refuse, take, woken

CHANGE = ClusterEvent(RequeueCause.NODE)


def test_change_during_the_decision_wakes_the_rejected_pod() -> None:
    """Semantics case 7: the decision read the state before the change."""
    waiting = queue(pod("a"))
    entry = take(waiting)
    waiting.requeue_on(CHANGE, NOW)
    waiting.add_unschedulable(entry, RequeueCondition(NODE), NOW)

    assert waiting.sizes()["backoff"] == 1
    assert order(waiting, NOW) == ["a"]


@pytest.mark.parametrize(
    "change",
    [
        pytest.param(ClusterEvent(RequeueCause.FREED), id="another-cause"),
        pytest.param(ClusterEvent(RequeueCause.NODE, "other"), id="another-scope"),
    ],
)
def test_unrelated_change_during_the_decision_wakes_no_pod(change: ClusterEvent) -> None:
    waiting = queue(pod("a"))
    entry = take(waiting)
    waiting.requeue_on(change, NOW)
    waiting.add_unschedulable(entry, RequeueCondition(NODE), NOW)

    assert order(waiting, NOW + 60) == []


def test_change_before_the_decision_begins_is_not_missed_by_it() -> None:
    """A later pod of a batch: its decision reads the state with the change."""
    waiting = queue(pod("a"))
    entry = take(waiting)
    waiting.requeue_on(CHANGE, NOW)
    waiting.begin_decision(entry)
    waiting.add_unschedulable(entry, RequeueCondition(NODE), NOW)

    assert order(waiting, NOW + 60) == []


def test_pod_changed_during_the_decision_wakes_only_pods_it_concerns() -> None:
    for is_concerned, names in ((True, ["a"]), (False, [])):
        waiting = queue(pod("a"))
        entry = take(waiting)
        change = ClusterEvent(RequeueCause.PODS_IN_DOMAIN, pod=pod("placed", node="n1"))
        waiting.requeue_on(change, NOW, concerns=lambda *_: is_concerned)  # noqa: B023 - called now
        condition = RequeueCondition(frozenset((RequeueCause.PODS_IN_DOMAIN,)))
        waiting.add_unschedulable(entry, condition, NOW)

        assert order(waiting, NOW) == names


def test_change_during_the_probes_decision_requeues_its_group() -> None:
    waiting = woken(pod("a"), pod("b", created=9))
    probe = take(waiting)
    waiting.requeue_on(CHANGE, NOW)
    waiting.add_unschedulable(probe, RequeueCondition(NODE), NOW)

    assert len(order(waiting, NOW)) == 1


def test_change_during_a_decision_leaves_the_probe_of_the_group() -> None:
    """The change requeued another pod of the group, so the rejected pod waits for that one."""
    waiting = queue(pod("a"), pod("b", created=9))
    refuse(waiting)
    entry = take(waiting)
    waiting.requeue_on(CHANGE, NOW)
    waiting.add_unschedulable(entry, RequeueCondition(NODE), NOW)
    assert waiting.sizes() == {"active": 0, "backoff": 1, "unschedulable": 1}

    waiting.delete("team-a", NOW)

    assert order(waiting, NOW) == ["b"]


def test_spec_change_during_the_decision_obsoletes_the_rejection() -> None:
    waiting = queue(pod("a"))
    entry = take(waiting)
    changed = pod("a", labels={"app": "x"})
    waiting.add(changed, NOW)
    waiting.add_unschedulable(entry, RequeueCondition(frozenset((RequeueCause.FREED,))), NOW)

    assert take(waiting).pod == changed


@pytest.mark.parametrize("how", ["deleted", "activated"])
def test_rejection_of_a_pod_that_left_its_decision_does_not_count(how: str) -> None:
    waiting = queue(pod("a"))
    entry = take(waiting)
    if how == "deleted":
        waiting.delete("team-a", NOW)
    else:
        waiting.activate(pod("a"), NOW)
    waiting.add_unschedulable(entry, RequeueCondition(NODE), NOW)

    assert waiting.sizes()["unschedulable"] == 0
    assert order(waiting, NOW) == ([] if how == "deleted" else ["a"])
