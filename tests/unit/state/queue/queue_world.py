"""A queue on a clock that the tests advance, with pods that are rejected at will."""

from __future__ import annotations

from scheduler.model.pods.pod import Pod
from scheduler.model.reasons.reason import RequeueCause
from scheduler.state.event import ClusterEvent
from scheduler.state.queue.scheduling_queue import (
    QueuedPodInfo,
    RequeueCondition,
    SchedulingQueue,
)

NOW = 1000.0
NODE = frozenset((RequeueCause.NODE,))


def queue(*pods: Pod) -> SchedulingQueue:
    waiting = SchedulingQueue()
    for one in pods:
        waiting.add(one, NOW)
    return waiting


def take(waiting: SchedulingQueue, now: float = NOW) -> QueuedPodInfo:
    """The next pod, which must be there."""
    entry = waiting.pop(now)
    assert entry is not None
    return entry


def order(waiting: SchedulingQueue, now: float = NOW) -> list[str]:
    """Every due pod, in order."""
    names = []
    while (entry := waiting.pop(now)) is not None:
        names.append(entry.pod.name)
    return names


def refuse(
    waiting: SchedulingQueue,
    now: float = NOW,
    causes: frozenset[RequeueCause] = NODE,
    lacking: frozenset[str] = frozenset(),
) -> QueuedPodInfo:
    """Pop one pod and park it."""
    entry = take(waiting, now)
    waiting.add_unschedulable(entry, RequeueCondition(causes, lacking), now)
    return entry


def fail_bind(waiting: SchedulingQueue, now: float = NOW) -> QueuedPodInfo:
    """Pop one pod and place it; its Binding fails."""
    entry = take(waiting, now)
    waiting.delete(entry.pod.uid, now)
    waiting.requeue_failed_bind(entry.pod, entry, now)
    return entry


def fail_binds(waiting: SchedulingQueue, count: int) -> float:
    """Let so many Bindings of one pod fail, each as soon as it is due; when the next one is."""
    now = NOW
    for _ in range(count):
        fail_bind(waiting, now)
        now = waiting.next_due() or 0.0
    return now


def woken(*pods: Pod) -> SchedulingQueue:
    """Each of these pods was rejected and requeued; its backoff is not over."""
    waiting = SchedulingQueue()
    for one in pods:
        waiting.add(one, NOW)
        refuse(waiting)
    waiting.requeue_on(ClusterEvent(RequeueCause.NODE), NOW)
    return waiting
