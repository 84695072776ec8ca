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

import msgspec

from scheduler.model.pods.pod import Pod
from scheduler.state.event import ClusterEvent
from scheduler.state.queue.backoff import BACKOFF_MAX_S, backoff_s
from scheduler.state.queue.equivalence_group import (
    Concerns,
    ConditionAtNode,
    EquivalenceGroup,
    EquivalenceOf,
    QueuedPodInfo,
    equivalence_class_of,
    key_of,
)
from scheduler.state.queue.fair_queue import FairQueue, Item
from scheduler.state.queue.requeue_conditions import Key, RequeueCondition, RequeueIndex

__all__ = ["BACKOFF_MAX_S", "QueuedPodInfo", "RequeueCondition", "SchedulingQueue", "backoff_s"]

BIND_BACKOFF_MAX_S = 60.0
UNSCHEDULABLE_MAX_S = 300.0


def _unchecked(_pod: Pod, _node_name: str) -> None:
    return None


def _any_concerns(_waiting: Pod, _changed: Pod) -> bool:
    return True


class SchedulingQueue:
    """Active, backing-off and unschedulable pods of this scheduler."""

    def __init__(self, equivalence_of: EquivalenceOf = equivalence_class_of) -> None:
        self._equivalence_of = equivalence_of
        self._entries: dict[str, QueuedPodInfo] = {}
        self._active = FairQueue()
        self._backoffs: list[tuple[float, int, str]] = []
        self._groups: dict[Key, EquivalenceGroup] = {}
        self._requeue_index = RequeueIndex()
        self._sequence = 0

    def __len__(self) -> int:
        return len(self._entries)

    def __contains__(self, uid: str) -> bool:
        return uid in self._entries

    def sizes(self) -> dict[str, int]:
        """Number of pods per set, named as kube-scheduler's metric names them."""
        unschedulable = sum(map(len, self._groups.values()))
        # A pod that is being decided counts as active.
        in_backoff = sum(
            1
            for ready_at, sequence, uid in self._backoffs
            if self._is_in_backoff(ready_at, sequence, uid)
        )
        return {
            "active": len(self._entries) - unschedulable - in_backoff,
            "backoff": in_backoff,
            "unschedulable": unschedulable,
        }

    def entries(self) -> Iterator[QueuedPodInfo]:
        """All entries, for snapshots; callers must not change them."""
        return iter(self._entries.values())

    def lacking_one(self) -> Iterator[Iterator[Pod]]:
        """Unschedulable pods that lack exactly one resource, by equivalence group.

        Requeued pods are included: they have precedence over new pods for a released slice.
        """
        return (
            group.pods() for group in self._groups.values() if len(group.condition.lacking) == 1
        )

    # --- additions and removals --------------------------------------------------------------

    def add(self, pod: Pod, now: float) -> None:
        """A pod is pending: new, or with a changed spec. It becomes active at once."""
        entry = self._entries.get(pod.uid)
        if entry is None:
            entry = self._entries[pod.uid] = QueuedPodInfo(pod, now, self._item(pod))
        else:
            self._withdraw(entry, now)
        entry.pod = pod
        entry.causes, entry.lacking = frozenset(), frozenset()
        self._activate(entry)

    def delete(self, uid: str, now: float) -> None:
        """A pod needs no decision any more."""
        entry = self._entries.pop(uid, None)
        if entry is not None:
            self._withdraw(entry, now)

    def pop(self, now: float) -> QueuedPodInfo | None:
        """The next pod to decide, or None if no pod is due."""
        self._release(now)
        item = self._active.pop()
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
            if self._active.top() != entry.pod.priority:
                break
        return found

    def add_unschedulable(
        self, entry: QueuedPodInfo, condition: RequeueCondition, now: float
    ) -> None:
        """The pod was rejected: wait for one of the requeue conditions."""
        pod = entry.pod
        if pod.volumes:
            condition = msgspec.structs.replace(condition, claims=pod.claims)
        entry.attempts += 1
        entry.ready_at = now + backoff_s(entry.attempts)
        entry.unschedulable_since = now
        entry.causes, entry.lacking = condition.causes, condition.lacking
        entry.place = "unschedulable"
        key = key_of(pod, condition, self._equivalence_of)
        if entry.equivalence_group is not None and entry.equivalence_group.key != key:
            # The rejection does not hold for the other pods.
            self._replace_probe(entry.equivalence_group, now)
        group = self._groups.get(key)
        if group is None:
            group = self._groups[key] = EquivalenceGroup(key, condition, now)
            self._requeue_index.add(key, condition)
        elif group.probe is entry:
            group.probe = None
        group.add(entry)
        group.unschedulable_since = now
        self._set_condition(group, condition)  # the newest rejection holds for all

    def requeue_failed_bind(self, pod: Pod, before: QueuedPodInfo | None, now: float) -> None:
        """The Binding of a placed pod failed: retry after a backoff.

        ``before`` is its former entry; no change of the cluster state can help here.
        """
        entry = QueuedPodInfo(pod, before.since if before else now, self._item(pod))
        entry.attempts = before.attempts + 1 if before else 1
        entry.failed_binds = before.failed_binds + 1 if before else 1
        entry.ready_at = now + backoff_s(entry.failed_binds, BIND_BACKOFF_MAX_S)
        self._entries[pod.uid] = entry
        self._back_off(entry)

    # --- requeueing --------------------------------------------------------------------------

    def requeue_on(
        self,
        change: ClusterEvent,
        now: float,
        condition_at: ConditionAtNode = _unchecked,
        concerns: Concerns = _any_concerns,
    ) -> int:
        """Requeue the groups that this change may help, one pod each; returns how many.

        ``condition_at`` checks the node first: if the node still rejects the pod, the reason may
        have changed. A changed pod requeues only pods that it ``concerns``.
        """
        requeued = 0
        for key in self._requeue_index.of(change):
            group = self._groups[key]
            if group.probe is not None or not group.concerns(change):
                continue
            if change.pod is not None and not concerns(group.sample, change.pod):
                continue
            current = condition_at(group.sample, change.node_name) if change.node_name else None
            if current is not None:
                self._set_condition(group, group.condition.beside(current))
                continue
            self._requeue(group, now)
            requeued += 1
        return requeued

    def flush_unschedulable(self, now: float) -> int:
        """Requeue one pod of each group that has been unschedulable for five minutes."""
        overdue = [
            group
            for group in self._groups.values()
            if group.probe is None and now - group.unschedulable_since >= UNSCHEDULABLE_MAX_S
        ]
        for group in overdue:
            self._requeue(group, now)
        return len(overdue)

    def next_due(self) -> float | None:
        """When the earliest backoff ends, or None."""
        return self._backoffs[0][0] if self._backoffs else None

    def _set_condition(self, group: EquivalenceGroup, condition: RequeueCondition) -> None:
        if group.condition != condition:
            self._requeue_index.discard(group.key, group.condition)
            self._requeue_index.add(group.key, condition)
            group.condition = condition

    def _requeue(self, group: EquivalenceGroup, now: float) -> None:
        entry = group.choose_probe(now)
        entry.unschedulable_since = None
        self._back_off(entry)

    def _replace_probe(self, group: EquivalenceGroup, now: float) -> None:
        """The probe left without a rejection: the next pod is tried."""
        if group.probe is not None:
            group.probe.equivalence_group = None
            group.probe = None
        if len(group):
            self._requeue(group, now)
        else:
            self._requeue_index.discard(group.key, group.condition)
            del self._groups[group.key]

    # --- positions ---------------------------------------------------------------------------

    def _withdraw(self, entry: QueuedPodInfo, now: float) -> None:
        if entry.place == "active":
            self._active.discard(entry.pod.priority, entry.pod.namespace, entry.item)
        group = entry.equivalence_group
        entry.equivalence_group = entry.unschedulable_since = None
        entry.place = ""
        if group is None:
            return
        if group.probe is entry:
            self._replace_probe(group, now)
        else:
            group.remove(entry)
            if group.probe is None and not len(group):
                self._replace_probe(group, now)

    def _activate(self, entry: QueuedPodInfo) -> None:
        entry.ready_at = 0.0
        entry.place = "active"
        self._active.add(entry.pod.priority, entry.pod.namespace, entry.item)

    def _back_off(self, entry: QueuedPodInfo) -> None:
        entry.place = "backoff"
        heapq.heappush(self._backoffs, (entry.ready_at, entry.item[1], entry.pod.uid))

    def _release(self, now: float) -> None:
        while self._backoffs and self._backoffs[0][0] <= now:
            in_backoff = heapq.heappop(self._backoffs)
            if self._is_in_backoff(*in_backoff):
                self._activate(self._entries[in_backoff[2]])

    def _is_in_backoff(self, ready_at: float, sequence: int, uid: str) -> bool:
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
