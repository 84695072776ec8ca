"""Events into the books, so that no object can keep the others out of them.

An object at which folding fails is entered as one that cannot be read: a pod then holds an unknown
part of its node, and a node takes no pods. Only where even that fails the books are broken.
"""

from __future__ import annotations

import msgspec

from scheduler.containment import Containment
from scheduler.model.node import Node
from scheduler.model.pod import Pod, Unread
from scheduler.state import event as ev
from scheduler.state.cache.cluster import Cluster
from scheduler.state.fold import apart, fold
from scheduler.state.invariant import InvariantViolation


class EventFolder:
    """Folds into one cluster's books."""

    def __init__(self, cluster: Cluster, containment: Containment) -> None:
        self._cluster = cluster
        self._containment = containment

    def __call__(self, event: ev.Event) -> list[ev.Change]:
        """What follows from an event; a list is folded object by object."""
        return [change for one in apart(self._cluster, event) for change in self._one(one)]

    def _one(self, event: ev.Event) -> list[ev.Change]:
        try:
            return fold(self._cluster, event)
        except InvariantViolation:
            raise
        except Exception as problem:  # noqa: BLE001 - whatever it is, it is this object's
            about = about_event(event)
            number = self._containment.note("event", about, problem)
            return self._bare(event, about, f"internal error {number}", problem)

    def _bare(self, event: ev.Event, about: str, text: str, problem: Exception) -> list[ev.Change]:
        match event:
            case ev.PodUpdated(pod):
                event = ev.PodUpdated(_bare(pod, text))
            case ev.NodeUpdated(node):
                bare = Node(name=node.name, uid=node.uid, unschedulable=True, unread=text)
                event = ev.NodeUpdated(bare)
            case ev.PodDeleted() | ev.NodeDeleted() | ev.BindEnded():
                raise _broken(about, problem) from problem
            case _:
                return []  # it is in no books: what was known of it stays
        try:
            return fold(self._cluster, event)
        except Exception as again:  # noqa: BLE001 - likewise
            raise _broken(about, again) from problem


def about_event(event: ev.Event) -> str:
    """Whom an event is about, for people."""
    match event:
        case ev.PodUpdated(pod):
            return f"pod {pod.key} (uid {pod.uid})"
        case ev.NodeUpdated(node):
            return f"node {node.name}"
        case ev.PodDeleted(uid) | ev.BindEnded(uid):
            return f"pod with uid {uid}"
        case ev.NodeDeleted(name):
            return f"node {name}"
    return type(event).__name__


def _bare(pod: Pod, text: str) -> Pod:
    """The pod without any field that its author writes."""
    return msgspec.structs.replace(
        pod,
        labels={},
        annotations={},
        requests={},
        containers=(),
        host_ports=(),
        node_selector={},
        required_terms=None,
        preferred_terms=(),
        tolerations=(),
        unread=Unread(requests=text),
    )


def _broken(about: str, problem: Exception) -> InvariantViolation:
    return InvariantViolation(
        f"{about} cannot be entered into the books ({type(problem).__name__}:"
        f" {str(problem)[:200]}). The process ends, and the next one reads everything anew from the"
        f" API; if that one ends here too, delete {about} and report this line"
    )
