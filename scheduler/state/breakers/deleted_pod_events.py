"""Events about deleted pods, stored until a pod of the same owner replaces the deleted one.

Any user with the right to write events in a namespace can write these. So they count only for pods
of the same namespace, of the same owner by its name, and of the same equivalence class.
"""

from __future__ import annotations

from collections.abc import Iterable

from scheduler.model.pods.pod import Pod
from scheduler.state.event import DeletedPodEvent, PastRejection

#: Maximum number of stored events, and the time until an event expires.
EVENTS_MAX = 1024
EXPIRES_AFTER_S = 600.0

Place = tuple[str, str]


class DeletedPodEvents:
    """The events by the namespace and owner of the deleted pod."""

    def __init__(self) -> None:
        #: By place: the time, and the events.
        self.events: dict[Place, list[tuple[float, DeletedPodEvent]]] = {}

    def __len__(self) -> int:
        return sum(map(len, self.events.values()))

    def record(self, read: Iterable[DeletedPodEvent], now: float) -> None:
        """Store events."""
        newest = sorted(read, key=lambda one: one.age_s)[:EVENTS_MAX]
        for one in newest:
            place = _place(one.namespace, one.pod_name)
            self.events.setdefault(place, []).append((now - one.age_s, one))

    def matching(self, pod: Pod, now: float) -> list[PastRejection]:
        """The rejections of the pods that this pod replaces; each is returned once."""
        found = self.events.pop(_place(pod.namespace, pod.name), ())
        return [
            PastRejection(pod, one.node_name, one.reason, one.message, now - at)
            for at, one in found
            if one.uid != pod.uid
        ]

    def pass_time(self, now: float) -> None:
        """Delete expired events."""
        for place, events in list(self.events.items()):
            if all(now - at >= EXPIRES_AFTER_S for at, _ in events):
                del self.events[place]


def _place(namespace: str, pod_name: str) -> Place:
    """The name of a controlled pod is the name of its owner and one more word.

    >>> _place("team", "train-x7k2p")
    ('team', 'train')
    """
    return namespace, pod_name.rpartition("-")[0] or pod_name
