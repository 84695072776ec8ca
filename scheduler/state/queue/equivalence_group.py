"""Unschedulable pods grouped by equivalence class and reason; one representative is retried per
group.

Pods of one class, priority and namespace get equal answers. So do the interchangeable pods of one
workload and map that wait for any line. A change that may help requeues only one pod, the probe.
If it is placed, the next pod becomes the probe; if it is rejected, the rejection holds for all::

    unschedulable --a change may help--> the probe is tried --rejected--> unschedulable
                                      '--placed, deleted, changed--> the next one is tried

So ten thousand equal pods cost one decision per change, and each of them is retried.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator
from itertools import islice

import msgspec

from scheduler.model.pods.pod import Pod
from scheduler.model.reasons.reason import RequeueCause
from scheduler.state.event import ClusterEvent
from scheduler.state.queue.fair_queue import Item, SortedPods
from scheduler.state.queue.requeue_conditions import Key, RequeueCondition

#: The probe is the first of this many pods, by age, whose backoff has expired.
PROBE_CANDIDATES_MAX = 64


class QueuedPodInfo(msgspec.Struct):
    """A waiting pod's place in the queue; ``item`` is its sort key.

    ``place`` is the queue label of kube-scheduler's metric. ``attempts`` counts failed attempts,
    ``rejections`` those among them that a reason of the pod ended, and ``errors`` the failed ones
    since the last rejection (``UnschedulableCount`` and ``ConsecutiveErrorsCount``). ``code`` is
    the first reason code of the last decision, and ``message`` its sentence.
    """

    pod: Pod
    since: float
    item: Item
    attempts: int = 0
    rejections: int = 0
    errors: int = 0
    ready_at: float = 0.0
    unschedulable_since: float | None = None
    causes: frozenset[RequeueCause] = frozenset()
    lacking: frozenset[str] = frozenset()
    place: str = "active"
    code: str = ""
    message: str = ""
    equivalence_group: EquivalenceGroup | None = None


#: The requeue condition of a pod at the named node; None if the pod would fit there.
ConditionAtNode = Callable[[Pod, str], RequeueCondition | None]


#: Whether a placed pod that changed is counted by a required term of the pod that waits, or
#: excludes it by its own.
Concerns = Callable[[Pod, Pod], bool]


#: Everything that decisions read of a pod; pods of one class get the same answers.
EquivalenceOf = Callable[[Pod], Hashable]


def equivalence_class_of(pod: Pod) -> Hashable:
    """Everything that the built-in plugins read of a pod."""
    return pod.equivalence_class


def key_of(
    pod: Pod, condition: RequeueCondition, equivalence_of: EquivalenceOf = equivalence_class_of
) -> Key:
    """The group of a pod; a nominated pod, or a mapped one with its own line, is alone in its
    group.
    """
    if condition.is_for_siblings and not pod.nominated_node:
        shared_class = (pod.replica_class, equivalence_of(pod))
        return (shared_class, pod.priority, pod.namespace)
    is_alone = condition.is_alone or pod.map_text is not None or bool(pod.nominated_node)
    if is_alone:
        return (pod.uid, pod.priority, pod.namespace)
    kind = equivalence_of(pod)
    if pod.never_preempts:
        kind = (kind, "Never")
    if pod.active_deadline_s is not None:  # it may fit into a reservation that others respect
        kind = (kind, pod.active_deadline_s)
    # Nodes reject a pod because of its own claims, which others of its kind do not have.
    if pod.volumes or pod.resource_claims:
        kind = (kind, pod.volumes, pod.resource_claims.sources)
    return (kind, pod.priority, pod.namespace)


class EquivalenceGroup:
    """The pods of one group. ``probe`` is the one that is being tried, if any."""

    __slots__ = ("_members", "_sorted", "condition", "key", "probe", "unschedulable_since")

    def __init__(self, key: Key, condition: RequeueCondition, now: float) -> None:
        self.key = key
        self.condition = condition
        self.unschedulable_since = now
        self.probe: QueuedPodInfo | None = None
        self._sorted = SortedPods()
        self._members: dict[str, QueuedPodInfo] = {}

    def __len__(self) -> int:
        return len(self._members)

    @property
    def sample(self) -> Pod:
        """One pod of the group; all wait for the same changes."""
        return next(iter(self._members.values())).pod

    def concerns(self, change: ClusterEvent) -> bool:
        """Whether the group waits for a change of this owner, namespace or node."""
        pod = self.sample
        if change.scope and change.scope not in (pod.workload, pod.namespace):
            return False
        return not (self.condition.node_name and change.node_name) or (
            self.condition.node_name == change.node_name
        )

    def pods(self) -> Iterator[Pod]:
        """All pods, the probe first, then by age."""
        if self.probe is not None:
            yield self.probe.pod
        for *_, uid in self._sorted:
            yield self._members[uid].pod

    def add(self, entry: QueuedPodInfo) -> None:
        """Add an unschedulable pod."""
        entry.equivalence_group = self
        self._members[entry.pod.uid] = entry
        self._sorted.add(entry.item)

    def remove(self, entry: QueuedPodInfo) -> None:
        """Remove a pod."""
        del self._members[entry.pod.uid]
        self._sorted.discard(entry.item)

    def choose_probe(self, now: float) -> QueuedPodInfo:
        """Choose the probe: the oldest pod whose backoff has expired, else the one whose backoff
        ends first.
        """
        oldest = [self._members[uid] for *_, uid in islice(self._sorted, PROBE_CANDIDATES_MAX)]
        ready = (entry for entry in oldest if entry.ready_at <= now)
        chosen = next(ready, None) or min(oldest, key=lambda entry: entry.ready_at)
        self.remove(chosen)
        self.probe = chosen
        return chosen
