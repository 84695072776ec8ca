"""The pods that are being decided, and the changes that their decisions may have missed.

A change that arrives between the pop of a pod and its rejection is not in the rejection. It is
compared with the requeue condition when the pod returns (``inFlightEvents`` of
``pkg/scheduler/backend/queue/active_queue.go``), else the pod would wait for the next one.
"""

from __future__ import annotations

from typing import Final

from scheduler.model.reasons.reason import RequeueCause
from scheduler.state.event import ClusterEvent
from scheduler.state.queue.equivalence_group import Concerns, QueuedPodInfo

#: The pod itself changed.
UPDATED: Final = ClusterEvent(RequeueCause.POD)


class InFlight:
    """The popped pods of one queue."""

    def __init__(self) -> None:
        self._entries: dict[str, tuple[QueuedPodInfo, list[ClusterEvent]]] = {}

    def add(self, entry: QueuedPodInfo) -> None:
        """A pod was popped."""
        self._entries[entry.pod.uid] = (entry, [])

    def restart(self, entry: QueuedPodInfo) -> None:
        """The decision of a popped pod begins now: it sees every change so far."""
        if entry.pod.uid in self._entries:
            self.add(entry)

    def record(self, change: ClusterEvent, concerns: Concerns) -> None:
        """A change that decisions in progress may miss."""
        for entry, missed in self._entries.values():
            if change.pod is None or concerns(entry.pod, change.pod):
                missed.append(change)

    def record_update(self, uid: str) -> None:
        """The spec of a popped pod changed."""
        self._entries[uid][1].append(UPDATED)

    def end(self, uid: str) -> list[ClusterEvent] | None:
        """The decision ended, or does not count: the changes it missed; None if none began."""
        entry = self._entries.pop(uid, None)
        return entry[1] if entry is not None else None
