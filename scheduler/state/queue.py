"""Which pod is decided next.

::

    Waiting --> active --pop--> (decision) --placed--> gone from here
                  ^                 |--no-----> parked --cause lifted, or 5 min--> backoff
                  |                 '--error--> backoff
                  '---- pause over -----------------------------------------------'

Order: priority first, then age, so that a pod that waited longest is tried first among
equals. A parked pod wakes only for a cause that could help it, after its pause of
1, 2, 4, 8, then 10 seconds (``pkg/scheduler/backend/queue``). Whoever's Binding is refused
pauses by itself, and longer: up to a minute. Time is an argument.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator

import msgspec

from scheduler.model.pod import Pod
from scheduler.model.reason import Cause
from scheduler.state.event import Lifted

PAUSE_FIRST_S = 1.0
PAUSE_MAX_S = 10.0
REFUSED_MAX_S = 60.0
PARKED_MAX_S = 300.0


class Entry(msgspec.Struct):
    """A waiting pod's place in the queue.

    ``attempts`` counts what came to nothing, ``refusals`` the Bindings among them.
    """

    pod: Pod
    since: float
    sequence: int
    attempts: int = 0
    refusals: int = 0
    ready_at: float = 0.0
    parked_at: float | None = None
    causes: frozenset[Cause] = frozenset()
    lacking: frozenset[str] = frozenset()

    @property
    def place(self) -> str:
        """Where it waits, in the words of kube-scheduler's metric."""
        if self.parked_at is not None:
            return "unschedulable"
        return "backoff" if self.ready_at else "active"


class Queue:
    """Active, paused and parked pods of this scheduler."""

    def __init__(self) -> None:
        self._entries: dict[str, Entry] = {}
        self._active: list[tuple[int, str, int, str]] = []
        self._paused: list[tuple[float, int, str]] = []
        self._parked: dict[Cause, dict[str, None]] = {cause: {} for cause in Cause}
        self._sequence = 0

    def __len__(self) -> int:
        return len(self._entries)

    def __contains__(self, uid: str) -> bool:
        return uid in self._entries

    def sizes(self) -> dict[str, int]:
        """Number of pods per set, named as kube-scheduler's metric names them."""
        parked = sum(1 for entry in self._entries.values() if entry.parked_at is not None)
        paused = sum(
            1 for entry in self._entries.values() if entry.parked_at is None and entry.ready_at
        )
        return {
            "active": len(self._entries) - parked - paused,
            "backoff": paused,
            "unschedulable": parked,
        }

    def entries(self) -> Iterator[Entry]:
        """Every waiting pod's place, for whoever writes the state down; not to be changed."""
        return iter(self._entries.values())

    def waiting_for_one(self) -> Iterator[Pod]:
        """Refused pods that lack exactly one resource, strongest and oldest first.

        Woken ones too: a slice that was just freed is theirs before it is a newcomer's.
        """
        entries = [entry for entry in self._entries.values() if len(entry.lacking) == 1]
        entries.sort(key=lambda e: (-e.pod.priority, e.pod.created, e.sequence))
        return (entry.pod for entry in entries)

    def offer(self, pod: Pod, now: float) -> None:
        """A pod waits: new, or with changed wishes. It is tried at once."""
        entry = self._entries.get(pod.uid)
        if entry is None:
            self._sequence += 1
            entry = self._entries[pod.uid] = Entry(pod, now, self._sequence)
        entry.pod = pod
        entry.lacking = frozenset()
        self._unpark(entry)
        self._activate(entry)

    def settle(self, uid: str) -> None:
        """A pod needs no decision any more."""
        entry = self._entries.pop(uid, None)
        if entry is not None:
            self._unpark(entry)

    def pop(self, now: float) -> Entry | None:
        """The next pod to decide, or None when nobody is due."""
        self._release(now)
        while self._active:
            *_, sequence, uid = heapq.heappop(self._active)
            entry = self._entries.get(uid)
            # A pod that was settled and offered again has another sequence number.
            if entry is not None and entry.sequence == sequence and entry.ready_at == 0.0:
                return entry
        return None

    def park(
        self, entry: Entry, causes: frozenset[Cause], lacking: frozenset[str], now: float
    ) -> None:
        """The answer was no: wait until one of the causes is lifted."""
        entry.attempts += 1
        entry.ready_at = now + pause(entry.attempts)
        entry.parked_at = now
        entry.causes = causes
        entry.lacking = lacking
        self._entries[entry.pod.uid] = entry
        for cause in causes:
            self._parked[cause][entry.pod.uid] = None

    def postpone(self, pod: Pod, before: Entry | None, now: float) -> None:
        """The pod was placed and its Binding failed: pause, then decide anew.

        ``before`` is its entry of then; nothing in the cluster's state can be waited for.
        """
        self._sequence += 1
        entry = Entry(pod, before.since if before else now, self._sequence)
        entry.attempts = before.attempts + 1 if before else 1
        entry.refusals = before.refusals + 1 if before else 1
        entry.ready_at = now + pause(entry.refusals, REFUSED_MAX_S)
        self._entries[pod.uid] = entry
        heapq.heappush(self._paused, (entry.ready_at, entry.sequence, pod.uid))

    def lift(self, change: Lifted) -> int:
        """Wake the parked pods that this change could help; returns how many."""
        uids = list(self._parked[change.cause])
        woken = 0
        for uid in uids:
            entry = self._entries[uid]
            if not change.scope or change.scope in (entry.pod.workload, entry.pod.namespace):
                self._wake(entry)
                woken += 1
        return woken

    def flush(self, now: float) -> int:
        """Wake every pod that has been parked for five minutes, cause or no cause."""
        late = [
            entry
            for entry in self._entries.values()
            if entry.parked_at is not None and now - entry.parked_at >= PARKED_MAX_S
        ]
        for entry in late:
            self._wake(entry)
        return len(late)

    def next_due(self) -> float | None:
        """When the earliest pause ends, or None."""
        return self._paused[0][0] if self._paused else None

    def _wake(self, entry: Entry) -> None:
        self._unpark(entry)
        heapq.heappush(self._paused, (entry.ready_at, entry.sequence, entry.pod.uid))

    def _unpark(self, entry: Entry) -> None:
        if entry.parked_at is not None:
            entry.parked_at = None
            for cause in entry.causes:
                self._parked[cause].pop(entry.pod.uid, None)

    def _activate(self, entry: Entry) -> None:
        entry.ready_at = 0.0
        key = (-entry.pod.priority, entry.pod.created, entry.sequence, entry.pod.uid)
        heapq.heappush(self._active, key)

    def _release(self, now: float) -> None:
        while self._paused and self._paused[0][0] <= now:
            ready_at, sequence, uid = heapq.heappop(self._paused)
            entry = self._entries.get(uid)
            if entry is None or entry.parked_at is not None:
                continue
            # A pause of an earlier attempt, or of the uid's earlier life, is over long since.
            if entry.sequence == sequence and entry.ready_at == ready_at:
                self._activate(entry)


def pause(attempts: int, longest_s: float = PAUSE_MAX_S) -> float:
    """Seconds until the next try: 1, 2, 4, 8, 10, 10 ...

    >>> [pause(n) for n in (1, 2, 3, 4, 5, 50)]
    [1.0, 2.0, 4.0, 8.0, 10.0, 10.0]
    """
    return float(min(longest_s, PAUSE_FIRST_S * 2 ** min(attempts - 1, 10)))
