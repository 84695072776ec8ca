"""What events say about pods that are gone, until a pod comes that takes their place.

Anybody who may write events in a namespace can write these. So they count only for pods of the
same namespace and of the same owner by their name, and never for others than pods of that kind.
"""

from __future__ import annotations

from collections.abc import Iterable

from scheduler.model.pods.pod import Pod
from scheduler.state.event import DeletedPodEvent, PastRejection

#: Events in all, and how long a successor is waited for.
RUMOURS_MAX = 1024
KEPT_S = 600.0

Place = tuple[str, str]


class DeletedPodEvents:
    """The events by the place that the pods had in their workload."""

    def __init__(self) -> None:
        #: By place: when, and what was read.
        self.heard: dict[Place, list[tuple[float, DeletedPodEvent]]] = {}

    def __len__(self) -> int:
        return sum(map(len, self.heard.values()))

    def record(self, told: Iterable[DeletedPodEvent], now: float) -> None:
        """Events that were read."""
        newest = sorted(told, key=lambda one: one.age_s)[:RUMOURS_MAX]
        for one in newest:
            place = _place(one.namespace, one.pod_name)
            self.heard.setdefault(place, []).append((now - one.age_s, one))

    def matching(self, pod: Pod, now: float) -> list[PastRejection]:
        """The refusals of those whose place a pod takes; each is told once."""
        found = self.heard.pop(_place(pod.namespace, pod.name), ())
        return [
            PastRejection(pod, one.node_name, one.reason, one.message, now - at)
            for at, one in found
            if one.uid != pod.uid
        ]

    def pass_time(self, now: float) -> None:
        """Forget what is long ago."""
        for place, heard in list(self.heard.items()):
            if all(now - at >= KEPT_S for at, _ in heard):
                del self.heard[place]


def _place(namespace: str, pod_name: str) -> Place:
    """A controller names its pods by itself and one more word.

    >>> _place("team", "train-x7k2p")
    ('team', 'train')
    """
    return namespace, pod_name.rpartition("-")[0] or pod_name
