"""The queue with one place for each gang: one waiting member leads, the others are parked.

Whatever happens to the leader happens to the gang::

    first member --> leader, deferred --the gang is complete--> active --> (the plan of the gang)
                       |       ^
                 1 s   |       | another member, and still incomplete
                       '--> (rejected: waiting for members) --> unschedulable

A complete gang that does not fit waits like a single pod, and is tried after any change that may
help one of its members. A pod without a group costs one attribute check.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, Protocol

import msgspec

from scheduler.model.pods.gang import GangKey
from scheduler.model.pods.pod import Pod
from scheduler.state.event import ClusterEvent
from scheduler.state.queue.backoff import BACKOFF_FIRST_S, backoff_end
from scheduler.state.queue.equivalence_group import (
    Concerns,
    ConditionAtNode,
    EquivalenceOf,
    QueuedPodInfo,
    equivalence_class_of,
)
from scheduler.state.queue.fair_queue import Item
from scheduler.state.queue.requeue_conditions import RequeueCondition
from scheduler.state.queue.scheduling_queue import SchedulingQueue, any_concerns, unchecked
from scheduler.state.teams.turns import TeamTurns

#: Seconds in which the other members of an incomplete gang may still come before it is reported.
INCOMPLETE_S: Final = 1.0
#: The place of a member behind its leader.
PARKED: Final = "group"


class Gangs(Protocol):
    """What the queue asks about gangs."""

    def key_of(self, pod: Pod) -> GangKey | None:
        """The gang of a pod; None if it is placed alone."""

    def is_complete(self, key: GangKey) -> bool:
        """Whether enough members exist to be planned."""

    def waiting(self, key: GangKey) -> Iterable[str]:
        """The uids of the members that may be placed now."""

    def is_started(self, key: GangKey) -> bool:
        """Whether a member has a node, or had one."""


class _Line:
    """The waiting members of one gang; ``was_incomplete`` at its last check."""

    __slots__ = ("leader", "uids", "was_incomplete")

    def __init__(self) -> None:
        self.uids: dict[str, None] = {}
        self.leader = ""
        self.was_incomplete = True


class GangQueue(SchedulingQueue):
    """Pods and gangs that wait."""

    def __init__(
        self,
        gangs: Gangs,
        equivalence_of: EquivalenceOf = equivalence_class_of,
        teams: TeamTurns | None = None,
    ) -> None:
        super().__init__(equivalence_of)
        self._gangs = gangs
        self._teams = teams
        self._lines: dict[GangKey, _Line] = {}
        #: The gang of each pod in a line.
        self._keys: dict[str, GangKey] = {}

    def sizes(self) -> dict[str, int]:
        """A parked member counts as unschedulable."""
        found = super().sizes()
        parked = sum(1 for uid in self._keys if self._entries[uid].place == PARKED)
        found["active"] -= parked
        found["unschedulable"] += parked
        return found

    def members(self, key: GangKey) -> list[QueuedPodInfo]:
        """The entries of a gang's waiting members; the leader is the last one."""
        line = self._lines.get(key)
        if line is None:
            return []
        uids = [uid for uid in line.uids if uid != line.leader]
        return [self._entries[uid] for uid in (*uids, line.leader)]

    # --- additions and removals --------------------------------------------------------------

    def add(self, pod: Pod, now: float) -> None:
        """A pod is pending: new, or with a changed spec."""
        key = self._gangs.key_of(pod) if pod.group else None
        if self._keys.get(pod.uid) != key:  # it joins or leaves a gang
            self.delete(pod.uid, now)
        if key is None:
            super().add(pod, now)
            return
        line = self._lines.setdefault(key, _Line())
        entry = self._entries.get(pod.uid)
        if entry is None:
            self._entries[pod.uid] = QueuedPodInfo(pod, now, self._item(pod), place=PARKED)
            self._join_line(key, line, pod.uid)
        elif pod.uid == line.leader:
            super().add(pod, now)
        else:
            entry.pod = pod
        self.check_gang(key, now)

    def activate(self, pod: Pod, now: float) -> None:
        """Decide a pod without the rest of its backoff; a parked member waits for its leader."""
        key = self._gangs.key_of(pod) if pod.group else None
        if key is None or self._lines.get(key, _Line()).leader == pod.uid:
            super().activate(pod, now)
        else:
            self.add(pod, now)

    def delete(self, uid: str, now: float) -> None:
        """A pod needs no decision any more; another member may lead its gang."""
        before = self._entries.get(uid)
        super().delete(uid, now)
        key = self._keys.pop(uid, None) if self._keys else None
        if key is None or before is None:
            return
        line = self._lines[key]
        del line.uids[uid]
        if not line.uids:
            del self._lines[key]
        elif line.leader == uid:
            line.leader = ""
            self._choose_leader(line, before)
            self.check_gang(key, now)

    def add_unschedulable(
        self, entry: QueuedPodInfo, condition: RequeueCondition, now: float
    ) -> None:
        """The plan of the leader's gang failed: it waits alone, since the answer is the gang's."""
        key = self._keys.get(entry.pod.uid) if self._keys else None
        if key is not None:
            self._lines[key].was_incomplete = not self._gangs.is_complete(key)
            condition = msgspec.structs.replace(condition, is_alone=True, is_for_siblings=False)
        super().add_unschedulable(entry, condition, now)
        if key is not None and entry.place == "unschedulable" and self._gangs.is_started(key):
            entry.ready_at = min(entry.ready_at, backoff_end(now, BACKOFF_FIRST_S))

    def requeue_failed_bind(self, pod: Pod, before: QueuedPodInfo | None, now: float) -> None:
        """The Binding of a member failed: it leads, unless another member that waits does."""
        super().requeue_failed_bind(pod, before, now)
        key = self._gangs.key_of(pod) if pod.group else None
        if key is None:
            return
        line = self._lines.setdefault(key, _Line())
        self._join_line(key, line, pod.uid)
        line.was_incomplete = False
        if line.leader and line.leader != pod.uid:
            self._error_backoffs.discard(pod.uid)
            self._entries[pod.uid].place = PARKED
            self.check_gang(key, now)
        else:
            line.leader = pod.uid

    # --- gangs -------------------------------------------------------------------------------

    def check_gang(self, key: GangKey, now: float) -> None:
        """Something about a gang changed: it is planned if it is complete, or reported later."""
        line = self._lines.get(key)
        if line is None:
            self._gather(key, now)
            return
        if not line.leader:
            self._choose_leader(line)
        leader = self._entries[line.leader]
        if self._gangs.key_of(leader.pod) != key:
            self._dissolve(line, now)
        elif not self._gangs.is_complete(key):
            line.was_incomplete = True
            if leader.place in (PARKED, "unschedulable"):
                self._defer(leader, now)
        elif line.was_incomplete:
            line.was_incomplete = False
            if leader.place not in ("active", "decided"):
                self._withdraw(leader, now)
                self._activate(leader)
        elif leader.place == PARKED:
            (self._activate if leader.ready_at <= now else self._back_off)(leader)
        elif leader.place == "unschedulable":
            super().add(leader.pod, now)

    def _gather(self, key: GangKey, now: float) -> None:
        """What waited as single pods is a gang now."""
        for uid in self._gangs.waiting(key):
            entry = self._entries.get(uid)
            if entry is not None and self._gangs.key_of(entry.pod) == key:
                self.add(entry.pod, now)

    def _dissolve(self, line: _Line, now: float) -> None:
        """What waited as a gang waits as single pods now."""
        others = [uid for uid in line.uids if uid != line.leader]
        for uid in (*others, line.leader):  # the last one ends the line
            self.add(self._entries[uid].pod, now)

    def _choose_leader(self, line: _Line, before: QueuedPodInfo | None = None) -> None:
        """The oldest member leads, and waits as long as the leader ``before``."""
        line.leader = min(line.uids, key=lambda uid: self._entries[uid].item)
        if before is not None:
            leader = self._entries[line.leader]
            leader.rejections = max(leader.rejections, before.rejections)
            leader.ready_at = max(leader.ready_at, before.ready_at)

    def _join_line(self, key: GangKey, line: _Line, uid: str) -> None:
        line.uids[uid] = None
        self._keys[uid] = key

    def _defer(self, leader: QueuedPodInfo, now: float) -> None:
        """Decide an incomplete gang later, so that the members that are missing are reported.

        Not in the backoff of rejected pods: an idle queue does not wait for the end of that.
        """
        self._withdraw(leader, now)
        leader.ready_at = max(leader.ready_at, backoff_end(now, INCOMPLETE_S))
        leader.place = "backoff"
        self._error_backoffs.push(leader.ready_at, leader.pod.priority, leader.item)

    # --- order -------------------------------------------------------------------------------

    def pop(self, now: float) -> QueuedPodInfo | None:
        """The next pod to decide; the order of the teams is that of this moment."""
        is_on = self._teams is not None and self._teams.is_on
        self._active.turn = self._turn if is_on else None
        return super().pop(now)

    def _turn(self, uid: str) -> tuple[float, ...]:
        assert self._teams is not None, "there are no teams"
        return self._teams.of(self._entries[uid].pod)

    def _item(self, pod: Pod) -> Item:
        """The place of a pod that arrives now; one that a started gang lacks is before new ones."""
        item = super()._item(pod)
        key = self._gangs.key_of(pod) if pod.group else None
        return ("", *item[1:]) if key is not None and self._gangs.is_started(key) else item

    def pop_batch(self, now: float, most: int) -> list[QueuedPodInfo]:
        """The next pods to decide; the leader of a gang comes alone."""
        if not self._keys:
            return super().pop_batch(now, most)
        found: list[QueuedPodInfo] = []
        while len(found) < most and (entry := self.pop(now)) is not None:
            if entry.pod.uid in self._keys:
                if not found:
                    return [entry]
                self._in_flight.end(entry.pod.uid)
                self._activate(entry)
                break
            found.append(entry)
            if self._next_priority() != entry.pod.priority:
                break
        return found

    def requeue_on(
        self,
        change: ClusterEvent,
        now: float,
        condition_at: ConditionAtNode = unchecked,
        concerns: Concerns = any_concerns,
    ) -> int:
        """The same for gangs, except that one node says nothing about a whole gang."""
        keys = self._keys
        if not keys:
            return super().requeue_on(change, now, condition_at, concerns)
        return super().requeue_on(
            change,
            now,
            lambda pod, name: None if pod.uid in keys else condition_at(pod, name),
            lambda waiting, changed: waiting.uid in keys or concerns(waiting, changed),
        )
