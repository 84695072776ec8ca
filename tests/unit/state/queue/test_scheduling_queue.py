"""The queue: order, unschedulable pods, and what requeues them."""

from __future__ import annotations

import itertools

import pytest

from scheduler.model.reasons.reason import RequeueCause
from scheduler.state.event import ClusterEvent
from scheduler.state.queue.scheduling_queue import (
    SchedulingQueue,
    backoff_s,
)
from tests.builders import GPU, MIG_2G, pod
from tests.unit.state.queue.queue_world import NOW, fail_bind, order, queue, refuse, take

FREED = frozenset((RequeueCause.FREED,))


def lacking_one(waiting: SchedulingQueue) -> list[list[str]]:
    """Pods that lack exactly one resource, by group."""
    return [[one.name for one in group] for group in waiting.lacking_one()]


ORDERS = [
    pytest.param(
        [("1", 1, 0), ("5-first", 5, 1), ("5-second", 5, 2)],
        ["5-first", "5-second", "1"],
        id="case-5-priority-then-age",
    ),
    pytest.param(
        [("young", 0, 9), ("old", 0, 1)], ["old", "young"], id="age-is-creation-not-arrival"
    ),
    pytest.param([("b", 0, 1), ("a", 0, 1)], ["b", "a"], id="equals-by-arrival"),
    pytest.param([("low", -5, 0), ("none", 0, 9)], ["none", "low"], id="negative-priority"),
]


@pytest.mark.parametrize(("pods", "names"), ORDERS)
def test_queue_order(pods: list[tuple[str, int, int]], names: list[str]) -> None:
    offered = [pod(name, priority=priority, created=at) for name, priority, at in pods]

    assert order(queue(*offered)) == names


def test_backoff_doubles_up_to_ten_seconds() -> None:
    """Semantics case 8."""
    assert [backoff_s(n) for n in range(1, 8)] == [1, 2, 4, 8, 10, 10, 10]
    assert backoff_s(10_000) == 10


@pytest.mark.contract("S2-B7")
def test_refused_pod_is_retried_after_backoff_and_cause_removal() -> None:
    waiting = queue(pod("a"))
    refuse(waiting)

    waiting.add(pod("b", requests={"cpu": "1"}), NOW)

    assert order(waiting, NOW + 60) == ["b"]
    assert waiting.requeue_on(ClusterEvent(RequeueCause.NODE), NOW) == 1
    assert waiting.next_due() == NOW + 2, "the backoff of one second ends with its window"
    waiting.add(pod("c", requests={"cpu": "2"}, created=9), NOW)
    assert order(waiting, NOW + 2) == ["a", "c"]


def test_backoff_grows_per_refusal_and_starts_at_the_refusal() -> None:
    """Semantics case 8, seen from outside: a backoff ends with the window in which it expires."""
    waiting, now = queue(pod("a")), NOW + 0.5
    for seconds in (1, 2, 4, 8, 10, 10):
        refuse(waiting, now)
        waiting.requeue_on(ClusterEvent(RequeueCause.NODE), now)
        assert waiting.next_due() == now + seconds + 0.5
        now += seconds


@pytest.mark.parametrize(
    ("change", "requeued"),
    [
        pytest.param(ClusterEvent(RequeueCause.NODE), ["node"], id="cause"),
        pytest.param(ClusterEvent(RequeueCause.FREED), ["freed"], id="another-cause"),
        pytest.param(ClusterEvent(RequeueCause.DEVICES), [], id="case-6-unmatched-cause"),
        pytest.param(
            ClusterEvent(RequeueCause.OWNER, pod("x", owner="Job/j").workload),
            ["owner"],
            id="owner",
        ),
        pytest.param(
            ClusterEvent(RequeueCause.OWNER, "team/Job/other/uid"), [], id="another-owner"
        ),
        pytest.param(ClusterEvent(RequeueCause.NAMESPACE, "team"), ["namespace"], id="namespace"),
        pytest.param(ClusterEvent(RequeueCause.NAMESPACE, "other"), [], id="another-namespace"),
    ],
)
def test_only_pods_that_a_change_could_help_are_requeued(
    change: ClusterEvent, requeued: list[str]
) -> None:
    waiting = queue(
        *(pod(name, requests={"cpu": str(at)}) for at, name in enumerate(("node", "freed"))),
        pod("owner", requests={"cpu": "3"}, owner="Job/j"),
        pod("namespace", requests={"cpu": "4"}, created=9),
    )
    for cause in (
        RequeueCause.NODE,
        RequeueCause.FREED,
        RequeueCause.OWNER,
        RequeueCause.NAMESPACE,
    ):
        refuse(waiting, causes=frozenset((cause,)))

    assert waiting.requeue_on(change, NOW) == len(requeued)
    assert order(waiting, NOW + 60) == requeued


def test_a_pod_with_two_causes_is_woken_once() -> None:
    waiting = queue(pod("a"))
    refuse(waiting, causes=frozenset((RequeueCause.NODE, RequeueCause.FREED)))

    assert [
        waiting.requeue_on(ClusterEvent(cause), NOW)
        for cause in (RequeueCause.NODE, RequeueCause.FREED)
    ] == [1, 0]
    assert order(waiting, NOW + 60) == ["a"]


def test_no_pod_sleeps_longer_than_five_minutes() -> None:
    """Semantics case 11: a missed requeue event."""
    waiting = queue(pod("a"))
    refuse(waiting)

    assert (waiting.flush_unschedulable(NOW + 299), order(waiting, NOW + 299)) == (0, [])
    assert (waiting.flush_unschedulable(NOW + 300), order(waiting, NOW + 300)) == (1, ["a"])


def test_the_five_minutes_count_from_any_moment_even_zero() -> None:
    waiting = SchedulingQueue()
    waiting.add(pod("a"), 0.0)
    refuse(waiting, 0.0)

    assert waiting.flush_unschedulable(300.0) == 1


def test_pod_added_again_is_tried_at_once() -> None:
    """Semantics case 10: its spec changed, so the last answer is obsolete."""
    waiting = queue(pod("a"))
    refuse(waiting, lacking=frozenset((MIG_2G,)))
    changed = pod("a", labels={"app": "x"})
    waiting.add(changed, NOW)

    assert lacking_one(waiting) == []
    assert take(waiting).pod == changed
    assert waiting.requeue_on(ClusterEvent(RequeueCause.NODE), NOW) == 0


def test_pod_added_twice_is_decided_once() -> None:
    waiting = queue(pod("a"), pod("a", labels={"app": "x"}))
    refuse(waiting)

    assert order(waiting, NOW + 60) == []
    assert len(waiting) == 1


def test_deleted_pod_leaves_every_part_of_the_queue() -> None:
    for prepare in (lambda _: None, refuse, lambda waiting: waiting.flush_unschedulable(NOW + 300)):
        waiting = queue(pod("a"))
        prepare(waiting)
        waiting.delete("team-a", NOW)

        assert ("team-a" in waiting, len(waiting)) == (False, 0)
        assert waiting.requeue_on(ClusterEvent(RequeueCause.NODE), NOW) == 0
        assert order(waiting, NOW + 600) == []
    waiting.delete("absent", NOW)


def test_deleted_and_added_pod_starts_without_backoff() -> None:
    waiting = queue(pod("a"))
    refuse(waiting)
    waiting.delete("team-a", NOW)
    waiting.add(pod("a"), NOW + 5)
    entry = take(waiting, NOW + 5)

    assert (entry.attempts, entry.since) == (0, NOW + 5)


def test_failed_binding_has_its_own_backoff() -> None:
    """Semantics case 12: no event has to requeue it."""
    waiting = queue(pod("a"))
    entry = take(waiting)
    entry.attempts, entry.rejections, entry.errors = 5, 3, 2
    waiting.delete(entry.pod.uid, NOW)
    waiting.requeue_failed_bind(entry.pod, entry, NOW + 7)

    assert order(waiting, NOW + 11.9) == []
    again = take(waiting, NOW + 12)
    assert (again.attempts, again.rejections, again.errors, again.since) == (6, 3, 3, NOW)


def test_permanently_failing_binding_is_tried_seven_times_in_120s() -> None:
    """Field case C29; an hour later once a minute."""
    waiting, now, tries = queue(pod("doomed")), NOW, []
    now += 0.5
    while now < NOW + 3600:
        entry = waiting.pop(now)
        if entry is not None:
            tries.append(now - NOW - 0.5)
            waiting.delete(entry.pod.uid, NOW)
            waiting.requeue_failed_bind(entry.pod, entry, now)
        now += 0.5

    assert [moment for moment in tries if moment <= 120] == [0, 1.5, 4.5, 9.5, 18.5, 35.5, 68.5]
    assert {later - earlier for earlier, later in itertools.pairwise(tries[8:])} == {61}


def test_stale_backoff_does_not_shorten_a_new_one() -> None:
    waiting = queue(pod("a"))
    refuse(waiting)  # backoff until NOW + 2
    waiting.requeue_on(ClusterEvent(RequeueCause.NODE), NOW)
    waiting.activate(pod("a", labels={"app": "x"}), NOW)
    refuse(waiting)  # backoff until NOW + 3
    waiting.requeue_on(ClusterEvent(RequeueCause.NODE), NOW)

    assert waiting.next_due() == NOW + 3
    waiting.add(pod("b", created=-9), NOW)
    assert order(waiting, NOW + 2) == ["b", "a"]


def test_sizes_are_those_of_kube_schedulers_metric() -> None:
    waiting = queue(pod("a"), pod("b"), pod("c"))
    refuse(waiting)
    fail_bind(waiting)

    assert waiting.sizes() == {"active": 1, "backoff": 1, "unschedulable": 1}


def test_without_backoff_no_pod_is_due() -> None:
    waiting = queue(pod("a"))
    assert waiting.next_due() is None
    refuse(waiting)
    assert waiting.next_due() is None
    waiting.requeue_on(ClusterEvent(RequeueCause.NODE), NOW)
    assert waiting.next_due() == NOW + 2


TIER = frozenset((MIG_2G,))


def test_pods_waiting_for_one_resource_are_grouped_by_age() -> None:
    waiting = SchedulingQueue()
    for one, lacking in (
        (pod("young", created=9), TIER),
        (pod("old", created=1), TIER),
        (pod("strong", created=9, priority=5), TIER),
        (pod("two", gpus=1), frozenset((MIG_2G, GPU))),
        (pod("other-reason", requests={"cpu": "1"}), frozenset[str]()),
    ):
        waiting.add(one, NOW)
        refuse(waiting, lacking=lacking)

    assert lacking_one(waiting) == [["old", "young"], ["strong"]]


def test_requeued_pod_still_counts_as_waiting_for_its_resource() -> None:
    """A released slice requeues it; until its backoff expires, a new pod must not get the slice."""
    waiting = queue(pod("a"))
    refuse(waiting, causes=FREED, lacking=TIER)
    waiting.requeue_on(ClusterEvent(RequeueCause.FREED), NOW)

    assert lacking_one(waiting) == [["a"]]
    waiting.delete("team-a", NOW)
    assert lacking_one(waiting) == []
