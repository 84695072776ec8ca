"""Fair among equals: namespaces take turns, and equal pods that were refused wait as one."""

from __future__ import annotations

from typing import Any

import pytest

from scheduler.model.pods.pod import Pod
from scheduler.model.reasons.reason import RequeueCause
from scheduler.state.event import ClusterEvent
from scheduler.state.queue.scheduling_queue import (
    BACKOFF_MAX_S,
    UNSCHEDULABLE_MAX_S,
    RequeueCondition,
    SchedulingQueue,
)
from tests.builders import GPU, MIG_2G, pod

NOW = 1000.0
CAUSES = frozenset((RequeueCause.FREED, RequeueCause.NODE))
TIER = RequeueCondition(CAUSES, frozenset((MIG_2G,)), frozenset((MIG_2G,)))
FREED = ClusterEvent(RequeueCause.FREED, node_name="n1", what=frozenset((MIG_2G,)))


def names(waiting: SchedulingQueue, now: float = NOW) -> list[str]:
    """Every due pod; they are placed."""
    found = []
    while (entry := waiting.pop(now)) is not None:
        waiting.delete(entry.pod.uid, now)
        found.append(entry.pod.name)
    return found


def refuse_all(waiting: SchedulingQueue, reason: RequeueCondition = TIER, now: float = NOW) -> int:
    """Refuses every due pod; their number."""
    count = 0
    while (entry := waiting.pop(now)) is not None:
        waiting.add_unschedulable(entry, reason, now)
        count += 1
    return count


def crowd(count: int, **fields: Any) -> list[Pod]:
    """Equal pods, oldest first."""
    return [pod(f"c{at}", created=at, mig={"2g.20gb": 1}, **fields) for at in range(count)]


def parked(*pods: Pod, reason: RequeueCondition = TIER) -> SchedulingQueue:
    waiting = SchedulingQueue()
    for one in pods:
        waiting.add(one, NOW)
    refuse_all(waiting, reason)
    return waiting


# --- turns -----------------------------------------------------------------------------------


def test_namespaces_take_turns_and_age_decides_inside() -> None:
    """One tenant's ten thousand pods do not delay another's only one."""
    waiting = SchedulingQueue()
    for at in range(4):
        waiting.add(pod(f"a{at}", namespace="a", created=at), NOW)
    waiting.add(pod("b0", namespace="b", created=50), NOW)
    waiting.add(pod("c1", namespace="c", created=9), NOW)
    waiting.add(pod("c0", namespace="c", created=8), NOW)

    assert names(waiting) == ["a0", "b0", "c0", "a1", "c1", "a2", "a3"]


def test_priority_comes_before_turns() -> None:
    waiting = SchedulingQueue()
    for name, priority in (("low", 0), ("high-1", 9), ("high-2", 9)):
        waiting.add(pod(name, namespace="a", priority=priority), NOW)
    waiting.add(pod("other", namespace="b", priority=0), NOW)

    assert names(waiting) == ["high-1", "high-2", "low", "other"]


def test_a_namespace_that_comes_back_takes_its_turn_after_the_others() -> None:
    waiting = SchedulingQueue()
    for namespace in "abc":
        waiting.add(pod(f"{namespace}0", namespace=namespace), NOW)
    entry = waiting.pop(NOW)
    assert entry is not None
    waiting.delete(entry.pod.uid, NOW)
    waiting.add(pod("a1", namespace="a"), NOW)

    assert names(waiting) == ["b0", "c0", "a1"]


def test_removed_pod_costs_its_namespace_no_turn() -> None:
    waiting = SchedulingQueue()
    for name, namespace in (("a0", "a"), ("b0", "b"), ("a1", "a")):
        waiting.add(pod(name, namespace=namespace), NOW)
    waiting.delete("a-a0", NOW)
    waiting.delete("b-b0", NOW)

    assert names(waiting) == ["a1"]
    assert len(waiting) == 0


# --- cohorts ---------------------------------------------------------------------------------


def test_one_probe_is_tried_per_equivalence_group() -> None:
    waiting = parked(*crowd(1000))
    assert waiting.requeue_on(FREED, NOW + 10) == 1
    assert refuse_all(waiting, now=NOW + 10) == 1
    assert waiting.sizes() == {"active": 0, "backoff": 0, "unschedulable": 1000}


def test_next_probe_follows_a_placement_until_one_is_refused() -> None:
    waiting = parked(*crowd(5))
    waiting.requeue_on(FREED, NOW + 10)
    placed = []
    for _ in range(2):
        entry = waiting.pop(NOW + 10)
        assert entry is not None
        placed.append(entry.pod.name)
        waiting.delete(entry.pod.uid, NOW + 10)

    assert placed == ["c0", "c1"]
    assert refuse_all(waiting, now=NOW + 10) == 1
    assert waiting.sizes()["unschedulable"] == 3


@pytest.mark.parametrize("how", ["deleted", "changed"])
def test_removed_probe_hands_over_to_the_next_pod(how: str) -> None:
    waiting = parked(*crowd(2))
    waiting.requeue_on(FREED, NOW)  # its pause is not over, so it cannot be decided yet
    if how == "deleted":
        waiting.delete("team-c0", NOW)
        assert names(waiting, NOW + 1) == ["c1"]
    else:
        waiting.add(pod("c0", mig={"2g.20gb": 1}, labels={"a": "b"}), NOW)
        assert names(waiting, NOW + 1) == ["c0", "c1"]


def test_refusal_specific_to_the_probe_tries_the_next_pod() -> None:
    waiting = parked(*crowd(2))
    waiting.requeue_on(FREED, NOW + 10)
    entry = waiting.pop(NOW + 10)
    assert entry is not None
    waiting.add_unschedulable(
        entry, RequeueCondition(frozenset((RequeueCause.POD,)), is_alone=True), NOW + 10
    )

    assert names(waiting, NOW + 10) == ["c1"]


def test_probe_is_the_oldest_pod_past_its_backoff() -> None:
    waiting = parked(*crowd(3))
    waiting.requeue_on(FREED, NOW + 5)
    assert refuse_all(waiting, now=NOW + 5) == 1  # c0 pauses for two seconds now
    waiting.requeue_on(FREED, NOW + 5.5)
    assert refuse_all(waiting, now=NOW + 5.5) == 1  # c1 was tried
    waiting.requeue_on(FREED, NOW + 60)

    assert names(waiting, NOW + 60) == ["c0", "c1", "c2"]


def test_without_a_due_pod_the_first_to_become_due_is_the_probe() -> None:
    waiting = parked(*crowd(1))
    waiting.requeue_on(FREED, NOW + 5)
    assert refuse_all(waiting, now=NOW + 5) == 1
    waiting.add(pod("late", created=9, mig={"2g.20gb": 1}), NOW + 5)
    assert refuse_all(waiting, now=NOW + 5) == 1
    waiting.requeue_on(FREED, NOW + 5)

    assert waiting.next_due() == NOW + 7, "the other one has a backoff of two seconds"
    assert names(waiting, NOW + 5) == ["late", "c0"]


def test_other_class_namespace_or_priority_is_another_group() -> None:
    waiting = parked(
        pod("a", mig={"2g.20gb": 1}),
        pod("b", mig={"2g.20gb": 1}, requests={"cpu": "1"}),
        pod("c", mig={"2g.20gb": 1}, priority=5),
        pod("d", mig={"2g.20gb": 1}, namespace="other"),
        pod("mapped", mig={"2g.20gb": 1}, map="0=n1:0"),
        pod("nominated", mig={"2g.20gb": 1}, nominated="n1"),
    )

    assert waiting.requeue_on(FREED, NOW + 10) == 6


def test_newest_refusal_applies_to_the_whole_group() -> None:
    """The group lacks another resource now: the former one helps no pod."""
    waiting = parked(*crowd(2))
    waiting.add(pod("late", created=9, mig={"2g.20gb": 1}), NOW + 5)
    gpu = RequeueCondition(CAUSES, frozenset((GPU,)), frozenset((GPU,)))
    assert refuse_all(waiting, gpu, NOW + 5) == 1

    assert waiting.requeue_on(FREED, NOW + 10) == 0
    assert [[one.name for one in group] for group in waiting.lacking_one()] == [
        ["c0", "c1", "late"]
    ]
    assert (
        waiting.requeue_on(ClusterEvent(RequeueCause.FREED, what=frozenset((GPU,))), NOW + 10) == 1
    )


def test_the_five_minutes_count_from_the_last_answer_to_any_of_them() -> None:
    waiting = parked(*crowd(3))
    waiting.requeue_on(FREED, NOW + 100)
    refuse_all(waiting, now=NOW + 100)

    assert waiting.flush_unschedulable(NOW + UNSCHEDULABLE_MAX_S) == 0
    assert waiting.flush_unschedulable(NOW + 100 + UNSCHEDULABLE_MAX_S) == 1


# --- the check before a pod is requeued --------------------------------------------------------


def test_unhelpful_change_requeues_no_pod() -> None:
    waiting = parked(*crowd(2))
    asked: list[tuple[str, str]] = []

    def condition_at_node(one: Pod, node_name: str) -> RequeueCondition | None:
        asked.append((one.name, node_name))
        return None if node_name == "n2" else TIER

    assert waiting.requeue_on(FREED, NOW, condition_at_node) == 0
    other = ClusterEvent(RequeueCause.FREED, node_name="n2", what=frozenset((MIG_2G,)))
    assert waiting.requeue_on(other, NOW, condition_at_node) == 1
    assert [node_name for _, node_name in asked] == ["n1", "n2"]


def test_group_listens_for_the_new_reason_of_a_node() -> None:
    """Its taint went, and now it lacks a slice: the slice must not become free unheard."""
    waiting = parked(
        *crowd(2), reason=RequeueCondition(frozenset((RequeueCause.NODE, RequeueCause.POD)))
    )
    assert waiting.requeue_on(FREED, NOW) == 0
    assert (
        waiting.requeue_on(ClusterEvent(RequeueCause.NODE, node_name="n1"), NOW, lambda *_: TIER)
        == 0
    )

    assert waiting.requeue_on(FREED, NOW) == 1


def test_mapped_pod_is_requeued_by_its_own_node_only() -> None:
    reason = RequeueCondition(CAUSES, node_name="n7")
    waiting = parked(pod("mapped", map="0=n7:0"), reason=reason)

    assert waiting.requeue_on(ClusterEvent(RequeueCause.FREED, node_name="n1"), NOW) == 0
    assert waiting.requeue_on(ClusterEvent(RequeueCause.FREED, node_name="n7"), NOW) == 1


# --- nothing stays behind --------------------------------------------------------------------


def containers(waiting: SchedulingQueue) -> dict[str, int]:
    """The size of everything inside."""
    found = {}
    for name, value in vars(waiting).items():
        if hasattr(value, "__len__"):
            found[name] = len(value)
    return found


@pytest.mark.parametrize("refused", [False, True], ids=["never-decided", "refused"])
def test_queue_is_empty_after_its_pods_are_gone(refused: bool) -> None:
    """A standby never pops, and must not remember pods that another replica placed."""
    waiting = SchedulingQueue()
    for round_ in range(3):
        pods = [*crowd(50), *crowd(50, namespace="other", priority=3)]
        for one in pods:
            waiting.add(one, NOW + round_)
        if refused:
            refuse_all(waiting, now=NOW + round_)
            waiting.requeue_on(FREED, NOW + round_)
        for one in pods:
            waiting.delete(one.uid, NOW + round_)
    waiting.pop(NOW + 10 * BACKOFF_MAX_S)

    assert {name: size for name, size in containers(waiting).items() if size} == {}
