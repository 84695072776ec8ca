"""Parked pods that got the same answer for the same reason: one of them is tried for all.

Pods of one kind, priority and namespace get equal answers, and so do the interchangeable pods of
one workload and map that wait for any line of it. When a change may help them, only
their leader is woken: if it is placed the next one leads, and its "no" speaks for everybody::

    asleep --a change may help--> its leader is tried --"no"--> asleep
                                      '--placed, gone, other wishes--> the next one is tried

So ten thousand equal pods cost one decision per change, and none of them is forgotten.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator
from itertools import islice

import msgspec

from scheduler.model.pods.pod import Pod
from scheduler.model.reason import RequeueCause
from scheduler.state.event import ClusterEvent
from scheduler.state.queue.fair_queue import Item, SortedPods
from scheduler.state.queue.requeue_conditions import Key, RequeueCondition

#: Oldest first, but whoever's pause is over is tried first among so many.
LOOKED_AT = 64


class QueuedPodInfo(msgspec.Struct):
    """A waiting pod's place in the queue; ``item`` is its place in a line.

    ``place`` is in the words of kube-scheduler's metric. ``attempts`` counts what came to
    nothing, ``refusals`` the Bindings among them.
    """

    pod: Pod
    since: float
    item: Item
    attempts: int = 0
    refusals: int = 0
    ready_at: float = 0.0
    parked_at: float | None = None
    causes: frozenset[RequeueCause] = frozenset()
    lacking: frozenset[str] = frozenset()
    place: str = "active"
    cohort: EquivalenceGroup | None = None


#: What a pod would wait for at the named node by now; None where the node would take it.
StillRefuses = Callable[[Pod, str], RequeueCondition | None]


#: All that decisions read of a pod; pods of one class get the same answers.
EquivalenceOf = Callable[[Pod], Hashable]


def kind_of(pod: Pod) -> Hashable:
    """All that the built-in plugins read of a pod."""
    return pod.kind


def key_of(pod: Pod, why: RequeueCondition, equivalence_of: EquivalenceOf = kind_of) -> Key:
    """Who waits together; a nominated pod, or a mapped one with its own line, is like no other."""
    if why.is_for_siblings and not pod.nominated_node:
        alike = (pod.replica_kind, equivalence_of(pod))
        return (alike, pod.priority, pod.namespace)
    is_alone = why.is_alone or pod.map_text is not None or bool(pod.nominated_node)
    return (pod.uid if is_alone else equivalence_of(pod), pod.priority, pod.namespace)


class EquivalenceGroup:
    """Who waits together. ``leader`` is the one that is being tried, if any: they are awake."""

    __slots__ = ("_line", "_sleepers", "key", "leader", "parked_at", "why")

    def __init__(self, key: Key, why: RequeueCondition, now: float) -> None:
        self.key = key
        self.why = why
        self.parked_at = now
        self.leader: QueuedPodInfo | None = None
        self._line = SortedPods()
        self._sleepers: dict[str, QueuedPodInfo] = {}

    def __len__(self) -> int:
        return len(self._sleepers)

    @property
    def sample(self) -> Pod:
        """One of the sleepers, who are alike in what they wait for."""
        return next(iter(self._sleepers.values())).pod

    def concerns(self, change: ClusterEvent) -> bool:
        """Whether these sleepers wait for a change of this owner, namespace or node."""
        pod = self.sample
        if change.scope and change.scope not in (pod.workload, pod.namespace):
            return False
        return not (self.why.node_name and change.node_name) or (
            self.why.node_name == change.node_name
        )

    def pods(self) -> Iterator[Pod]:
        """Everybody, the leader first and then by age."""
        if self.leader is not None:
            yield self.leader.pod
        for *_, uid in self._line:
            yield self._sleepers[uid].pod

    def add(self, entry: QueuedPodInfo) -> None:
        """Sleep here."""
        entry.cohort = self
        self._sleepers[entry.pod.uid] = entry
        self._line.add(entry.item)

    def remove(self, entry: QueuedPodInfo) -> None:
        """Sleep here no more."""
        del self._sleepers[entry.pod.uid]
        self._line.discard(entry.item)

    def probe(self, now: float) -> QueuedPodInfo:
        """Choose who is tried for all: the oldest whose pause is over, else who is ready first."""
        oldest = [self._sleepers[uid] for *_, uid in islice(self._line, LOOKED_AT)]
        ready = (entry for entry in oldest if entry.ready_at <= now)
        chosen = next(ready, None) or min(oldest, key=lambda entry: entry.ready_at)
        self.remove(chosen)
        self.leader = chosen
        return chosen
