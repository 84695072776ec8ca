"""The scheduling queue: the order of decisions, and when rejected pods are retried.

::

    new --> active --pop--> (decision) --placed--> leaves the queue
              ^                 |--rejected--> unschedulable --requeue event, or 5 min--> backoff
              |                 |--rejected, and a requeue event since the pop--> backoff
              |                 '--error--> error backoff
              |--- backoff or error backoff over ---------------------------------'
              '--- nothing active: the first pod in backoff, not in error backoff

Order: priority, then namespaces in turn, then age (``state/queue/fair_queue``). Unschedulable pods
are requeued only by a change that may help, one pod per group (``state/queue/equivalence_group``),
after a backoff (``state/queue/backoff``). The rules are those of ``pkg/scheduler/backend/queue``
with ``SchedulerPopFromBackoffQ``. Time is an argument.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from scheduler.model.pods.gang import GangKey
from scheduler.model.pods.pod import Pod
from scheduler.model.reasons.reason import RequeueCause
from scheduler.state.event import ClusterEvent
from scheduler.state.queue.backoff import (
    BACKOFF_FIRST_S,
    BACKOFF_MAX_S,
    ERROR_BACKOFF_MAX_S,
    BackoffHeap,
    backoff_end,
    backoff_s,
)
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
from scheduler.state.queue.in_flight import UPDATED, InFlight
from scheduler.state.queue.requeue_conditions import Key, RequeueCondition, RequeueIndex

__all__ = [
    "BACKOFF_MAX_S",
    "ERROR_BACKOFF_MAX_S",
    "QueuedPodInfo",
    "RequeueCondition",
    "SchedulingQueue",
    "backoff_end",
    "backoff_s",
]

UNSCHEDULABLE_MAX_S = 300.0


def unchecked(_pod: Pod, _node_name: str) -> None:
    """No node is checked before a pod is requeued."""


def _claims(pod: Pod) -> tuple[str, ...]:
    """The keys of the pod's claims for volumes and for devices."""
    names = pod.resource_claims.names
    return (*pod.claims, *(f"{pod.namespace}/{name}" for name in names))


def any_concerns(_waiting: Pod, _changed: Pod) -> bool:
    """Every pod that changed concerns every pod that waits."""
    return True


class SchedulingQueue:
    """Active, backing-off and unschedulable pods of this scheduler."""

    def __init__(self, equivalence_of: EquivalenceOf = equivalence_class_of) -> None:
        self._equivalence_of = equivalence_of
        self._entries: dict[str, QueuedPodInfo] = {}
        self._active = FairQueue()
        self._backoffs = BackoffHeap()
        self._error_backoffs = BackoffHeap()
        self._in_flight = InFlight()
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
        in_backoff = len(self._backoffs) + len(self._error_backoffs)
        return {
            "active": len(self._entries) - unschedulable - in_backoff,
            "backoff": in_backoff,
            "unschedulable": unschedulable,
        }

    def entries(self) -> Iterator[QueuedPodInfo]:
        """All entries, for snapshots; callers must not change them."""
        return iter(self._entries.values())

    def unschedulable(self) -> Iterator[Iterator[Pod]]:
        """Unschedulable pods by equivalence group; requeued ones are included."""
        return (group.pods() for group in self._groups.values())

    def lacking_one(self) -> Iterator[Iterator[Pod]]:
        """Unschedulable pods that lack exactly one resource, by equivalence group.

        Requeued pods are included: they have precedence over new pods for a released slice.
        """
        return (
            group.pods() for group in self._groups.values() if len(group.condition.lacking) == 1
        )

    def lacking_devices(self) -> Iterator[Iterator[Pod]]:
        """The other unschedulable pods that wait for devices of DRA drivers, in the same form."""
        return (
            group.pods()
            for group in self._groups.values()
            if RequeueCause.RESOURCE_DEVICES in group.condition.causes
            and len(group.condition.lacking) != 1
        )

    # --- additions and removals --------------------------------------------------------------

    def add(self, pod: Pod, now: float) -> None:
        """A pod is pending: new, or with a changed spec.

        A new pod becomes active at once, and a changed one after the rest of its backoff. An error
        backoff becomes the shortest one.
        """
        entry = self._entries.get(pod.uid)
        if entry is None:
            self.activate(pod, now)
            return
        if entry.place == "decided":
            self._in_flight.record_update(pod.uid)
            entry.pod = pod
            return
        may_go = entry.place == "active" or (
            entry.place == "unschedulable" and entry.ready_at <= now
        )
        self._withdraw(entry, now)
        entry.pod = pod
        entry.causes, entry.lacking = frozenset(), frozenset()
        if entry.errors:  # they are of the former spec
            entry.errors = 0
            entry.ready_at = min(entry.ready_at, backoff_end(now, BACKOFF_FIRST_S))
        if may_go:
            self._activate(entry)
        else:
            self._back_off(entry)

    def activate(self, pod: Pod, now: float) -> None:
        """Decide a pod without the rest of its backoff."""
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
        """The next pod to decide, or None if no pod may be decided."""
        self._release(now)
        item = self._active.pop()
        uid = item[2] if item is not None else self._backoffs.pop()
        if uid is None:
            return None
        entry = self._entries[uid]
        entry.place = "decided"
        self._in_flight.add(entry)
        return entry

    def pop_batch(self, now: float, most: int) -> list[QueuedPodInfo]:
        """The next pods to decide: at most ``most``, all of one priority."""
        found: list[QueuedPodInfo] = []
        while len(found) < most and (entry := self.pop(now)) is not None:
            found.append(entry)
            if self._next_priority() != entry.pod.priority:
                break
        return found

    def begin_decision(self, entry: QueuedPodInfo) -> None:
        """The decision of a popped pod begins now, so it misses no change so far."""
        self._in_flight.restart(entry)

    def add_unschedulable(
        self, entry: QueuedPodInfo, condition: RequeueCondition, now: float
    ) -> None:
        """A popped pod was rejected: wait for one of the requeue conditions.

        A pod that was deleted or activated since the pop is left as it is.
        """
        pod = entry.pod
        missed = self._in_flight.end(pod.uid)
        if missed is None or self._entries.get(pod.uid) is not entry:
            return
        if pod.volumes or pod.resource_claims:
            condition = msgspec.structs.replace(condition, claims=_claims(pod))
        entry.attempts += 1
        entry.rejections += 1
        entry.errors = 0
        entry.ready_at = backoff_end(now, backoff_s(entry.rejections))
        entry.causes, entry.lacking = condition.causes, condition.lacking
        if any(change is UPDATED for change in missed):  # the rejection is of its former spec
            self._withdraw(entry, now)
            self._back_off(entry)
            return
        group = self._join(entry, condition, now)
        is_tried = group.probe is not None  # its decision does not miss the changes
        if not is_tried and any(condition.is_met_by(one) and group.concerns(one) for one in missed):
            self._requeue(group, now)

    def _join(
        self, entry: QueuedPodInfo, condition: RequeueCondition, now: float
    ) -> EquivalenceGroup:
        """Add a rejected pod to its group; the newest rejection holds for all."""
        entry.unschedulable_since = now
        entry.place = "unschedulable"
        key = key_of(entry.pod, condition, self._equivalence_of)
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
        self._set_condition(group, condition)
        return group

    def requeue_failed_bind(self, pod: Pod, before: QueuedPodInfo | None, now: float) -> None:
        """The Binding of a placed pod failed: retry after a backoff, whatever happens meanwhile.

        ``before`` is its former entry; no change of the cluster state can help here.
        """
        entry = QueuedPodInfo(pod, before.since if before else now, self._item(pod))
        if before is not None:
            entry.attempts, entry.rejections = before.attempts, before.rejections
            entry.errors = before.errors
        entry.attempts += 1
        entry.errors += 1
        entry.ready_at = backoff_end(now, backoff_s(entry.errors, ERROR_BACKOFF_MAX_S))
        self._entries[pod.uid] = entry
        self._back_off(entry)

    # --- requeueing --------------------------------------------------------------------------

    def requeue_on(
        self,
        change: ClusterEvent,
        now: float,
        condition_at: ConditionAtNode = unchecked,
        concerns: Concerns = any_concerns,
    ) -> int:
        """Requeue the groups that this change may help, one pod each; returns how many.

        ``condition_at`` checks the node first: if the node still rejects the pod, the reason may
        have changed. A changed pod requeues only pods that it ``concerns``.
        """
        requeued = 0
        self._in_flight.record(change, concerns)
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
        ends = [
            first[0]
            for heap in (self._backoffs, self._error_backoffs)
            if (first := heap.first()) is not None
        ]
        return min(ends, default=None)

    def _set_condition(self, group: EquivalenceGroup, condition: RequeueCondition) -> None:
        if group.condition != condition:
            self._requeue_index.discard(group.key, group.condition)
            self._requeue_index.add(group.key, condition)
            group.condition = condition

    def _requeue(self, group: EquivalenceGroup, now: float) -> None:
        entry = group.choose_probe(now)
        entry.unschedulable_since = None
        if entry.ready_at <= now:
            self._activate(entry)
        else:
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

    def check_gang(self, key: GangKey, now: float) -> None:
        """A gang changed; ``GangQueue`` has them."""

    # --- positions ---------------------------------------------------------------------------

    def _withdraw(self, entry: QueuedPodInfo, now: float) -> None:
        uid = entry.pod.uid
        self._in_flight.end(uid)
        self._backoffs.discard(uid)
        self._error_backoffs.discard(uid)
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
        heap = self._error_backoffs if entry.errors else self._backoffs
        heap.push(entry.ready_at, entry.pod.priority, entry.item)

    def _release(self, now: float) -> None:
        for heap in (self._backoffs, self._error_backoffs):
            for uid in heap.release(now):
                self._activate(self._entries[uid])

    def _next_priority(self) -> int | None:
        """The priority of the next pod; None if no pod may be decided."""
        if (priority := self._active.top()) is not None:
            return priority
        first = self._backoffs.first()
        return first[1] if first is not None else None

    def _item(self, pod: Pod) -> Item:
        """The place of a pod that arrives now."""
        self._sequence += 1
        return pod.created, self._sequence, pod.uid
