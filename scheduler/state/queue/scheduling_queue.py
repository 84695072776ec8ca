"""The scheduling queue: the order of decisions, and when rejected pods are retried.

::

    new --> active --pop--> (decision) --placed--> leaves the queue
              ^                 |--rejected--> unschedulable --requeue event, or 5 min--> backoff
              |                 '--error--> backoff
              '---- backoff expired ------------------------------------------'

Order: priority, then namespaces in turn, then age (``state/queue/fair_queue``). Unschedulable pods
are requeued only by a change that may help, one pod per group (``state/queue/equivalence_group``),
after a backoff of 1, 2, 4, 8, then 10 seconds (``pkg/scheduler/backend/queue``). Time is an
argument.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator

from scheduler.model.pods.pod import Pod
from scheduler.state.event import ClusterEvent
from scheduler.state.queue.backoff import PAUSE_MAX_S, pause
from scheduler.state.queue.equivalence_group import (
    EquivalenceGroup,
    EquivalenceOf,
    QueuedPodInfo,
    StillRefuses,
    key_of,
    kind_of,
)
from scheduler.state.queue.fair_queue import FairQueue, Item
from scheduler.state.queue.requeue_conditions import Key, RequeueCondition, RequeueIndex

__all__ = ["PAUSE_MAX_S", "QueuedPodInfo", "RequeueCondition", "SchedulingQueue", "pause"]

REFUSED_MAX_S = 60.0
PARKED_MAX_S = 300.0


def _nobody_asked(_pod: Pod, _node_name: str) -> None:
    return None


class SchedulingQueue:
    """Active, backing-off and unschedulable pods of this scheduler."""

    def __init__(self, equivalence_of: EquivalenceOf = kind_of) -> None:
        self._equivalence_of = equivalence_of
        self._entries: dict[str, QueuedPodInfo] = {}
        self._turns = FairQueue()
        self._paused: list[tuple[float, int, str]] = []
        self._cohorts: dict[Key, EquivalenceGroup] = {}
        self._listeners = RequeueIndex()
        self._sequence = 0

    def __len__(self) -> int:
        return len(self._entries)

    def __contains__(self, uid: str) -> bool:
        return uid in self._entries

    def sizes(self) -> dict[str, int]:
        """Number of pods per set, named as kube-scheduler's metric names them."""
        parked = sum(map(len, self._cohorts.values()))
        # A pod that is being decided counts as active.
        paused = sum(
            1
            for ready_at, sequence, uid in self._paused
            if self._is_paused(ready_at, sequence, uid)
        )
        return {
            "active": len(self._entries) - parked - paused,
            "backoff": paused,
            "unschedulable": parked,
        }

    def entries(self) -> Iterator[QueuedPodInfo]:
        """All entries, for snapshots; callers must not change them."""
        return iter(self._entries.values())

    def lacking_one(self) -> Iterator[Iterator[Pod]]:
        """Unschedulable pods that lack exactly one resource, by equivalence group.

        Requeued pods are included: they have precedence over new pods for a released slice.
        """
        return (cohort.pods() for cohort in self._cohorts.values() if len(cohort.why.lacking) == 1)

    # --- additions and removals --------------------------------------------------------------

    def add(self, pod: Pod, now: float) -> None:
        """A pod is pending: new, or with a changed spec. It becomes active at once."""
        entry = self._entries.get(pod.uid)
        if entry is None:
            entry = self._entries[pod.uid] = QueuedPodInfo(pod, now, self._item(pod))
        else:
            self._take_out(entry, now)
        entry.pod = pod
        entry.causes, entry.lacking = frozenset(), frozenset()
        self._activate(entry)

    def delete(self, uid: str, now: float) -> None:
        """A pod needs no decision any more."""
        entry = self._entries.pop(uid, None)
        if entry is not None:
            self._take_out(entry, now)

    def pop(self, now: float) -> QueuedPodInfo | None:
        """The next pod to decide, or None if no pod is due."""
        self._release(now)
        item = self._turns.pop()
        if item is None:
            return None
        entry = self._entries[item[2]]
        entry.place = "decided"
        return entry

    def pop_batch(self, now: float, most: int) -> list[QueuedPodInfo]:
        """The next pods to decide: at most ``most``, all of one priority."""
        found: list[QueuedPodInfo] = []
        while len(found) < most and (entry := self.pop(now)) is not None:
            found.append(entry)
            if self._turns.top() != entry.pod.priority:
                break
        return found

    def add_unschedulable(self, entry: QueuedPodInfo, why: RequeueCondition, now: float) -> None:
        """The pod was rejected: wait for one of the requeue conditions."""
        pod = entry.pod
        entry.attempts += 1
        entry.ready_at = now + pause(entry.attempts)
        entry.parked_at = now
        entry.causes, entry.lacking = why.causes, why.lacking
        entry.place = "unschedulable"
        key = key_of(pod, why, self._equivalence_of)
        if entry.cohort is not None and entry.cohort.key != key:
            self._follow(entry.cohort, now)  # the rejection does not hold for the others
        cohort = self._cohorts.get(key)
        if cohort is None:
            cohort = self._cohorts[key] = EquivalenceGroup(key, why, now)
            self._listeners.add(key, why)
        elif cohort.leader is entry:
            cohort.leader = None
        cohort.add(entry)
        cohort.parked_at = now
        self._wait_for(cohort, why)  # the newest rejection holds for all

    def requeue_failed_bind(self, pod: Pod, before: QueuedPodInfo | None, now: float) -> None:
        """The Binding of a placed pod failed: retry after a backoff.

        ``before`` is its former entry; no change of the cluster state can help here.
        """
        entry = QueuedPodInfo(pod, before.since if before else now, self._item(pod))
        entry.attempts = before.attempts + 1 if before else 1
        entry.refusals = before.refusals + 1 if before else 1
        entry.ready_at = now + pause(entry.refusals, REFUSED_MAX_S)
        self._entries[pod.uid] = entry
        self._pause(entry)

    # --- requeueing --------------------------------------------------------------------------

    def requeue_on(
        self, change: ClusterEvent, now: float, asked: StillRefuses = _nobody_asked
    ) -> int:
        """Requeue the groups that this change may help, one pod each; returns how many.

        ``asked`` checks the node first: if the node still rejects the pod, the reason may have
        changed.
        """
        woken = 0
        for key in self._listeners.of(change):
            cohort = self._cohorts[key]
            if cohort.leader is not None or not cohort.concerns(change):
                continue
            still = asked(cohort.sample, change.node_name) if change.node_name else None
            if still is not None:
                self._wait_for(cohort, cohort.why.beside(still))
                continue
            self._wake(cohort, now)
            woken += 1
        return woken

    def flush_unschedulable(self, now: float) -> int:
        """Requeue one pod of each group that has been unschedulable for five minutes."""
        late = [
            cohort
            for cohort in self._cohorts.values()
            if cohort.leader is None and now - cohort.parked_at >= PARKED_MAX_S
        ]
        for cohort in late:
            self._wake(cohort, now)
        return len(late)

    def next_due(self) -> float | None:
        """When the earliest backoff ends, or None."""
        return self._paused[0][0] if self._paused else None

    def _wait_for(self, cohort: EquivalenceGroup, why: RequeueCondition) -> None:
        if cohort.why != why:
            self._listeners.discard(cohort.key, cohort.why)
            self._listeners.add(cohort.key, why)
            cohort.why = why

    def _wake(self, cohort: EquivalenceGroup, now: float) -> None:
        entry = cohort.probe(now)
        entry.parked_at = None
        self._pause(entry)

    def _follow(self, cohort: EquivalenceGroup, now: float) -> None:
        """The probe left without a rejection: the next pod is tried."""
        if cohort.leader is not None:
            cohort.leader.cohort = None
            cohort.leader = None
        if len(cohort):
            self._wake(cohort, now)
        else:
            self._listeners.discard(cohort.key, cohort.why)
            del self._cohorts[cohort.key]

    # --- positions ---------------------------------------------------------------------------

    def _take_out(self, entry: QueuedPodInfo, now: float) -> None:
        if entry.place == "active":
            self._turns.discard(entry.pod.priority, entry.pod.namespace, entry.item)
        cohort, entry.cohort, entry.parked_at = entry.cohort, None, None
        entry.place = ""
        if cohort is None:
            return
        if cohort.leader is entry:
            self._follow(cohort, now)
        else:
            cohort.remove(entry)
            if cohort.leader is None and not len(cohort):
                self._follow(cohort, now)

    def _activate(self, entry: QueuedPodInfo) -> None:
        entry.ready_at = 0.0
        entry.place = "active"
        self._turns.add(entry.pod.priority, entry.pod.namespace, entry.item)

    def _pause(self, entry: QueuedPodInfo) -> None:
        entry.place = "backoff"
        heapq.heappush(self._paused, (entry.ready_at, entry.item[1], entry.pod.uid))

    def _release(self, now: float) -> None:
        while self._paused and self._paused[0][0] <= now:
            paused = heapq.heappop(self._paused)
            if self._is_paused(*paused):
                self._activate(self._entries[paused[2]])

    def _is_paused(self, ready_at: float, sequence: int, uid: str) -> bool:
        """Whether this is the pod's current backoff, and not one of an earlier attempt."""
        entry = self._entries.get(uid)
        return (
            entry is not None
            and entry.place == "backoff"
            and (entry.item[1], entry.ready_at) == (sequence, ready_at)
        )

    def _item(self, pod: Pod) -> Item:
        """The place of a pod that arrives now."""
        self._sequence += 1
        return pod.created, self._sequence, pod.uid
