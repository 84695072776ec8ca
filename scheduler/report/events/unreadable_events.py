"""Says once of each object that cannot be read: in the log, in a metric, and by an event on it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Final, Protocol

import structlog

from scheduler.model.node import Node
from scheduler.model.pod import Pod
from scheduler.state import event as ev
from scheduler.state.event import ObjectUnreadable

REMEMBERED_MAX: Final = 10_000
POD_REASON: Final = "PodUnreadable"
NODE_REASON: Final = "NodeUnreadable"

log = structlog.get_logger("scheduler")


class UnreadableEventRecorder(Protocol):
    """Where events go (``report/events/recorder``)."""

    def note(self, pod: Pod, reason: str, text: str) -> None:
        """Something the pod's author should know."""

    def note_node(self, node: Node, reason: str, text: str) -> None:
        """Something the node's owner should know."""


class UnreadableEvents:
    """What cannot be read, and what of it was told; ``count`` gets the kind."""

    def __init__(self, recorder: UnreadableEventRecorder, count: Callable[[str], None]) -> None:
        self._recorder = recorder
        self._count = count
        self._said: dict[tuple[str, str], str] = {}
        self._untold: dict[tuple[str, str], Pod | Node] = {}

    def handle(self, event: ev.Event) -> None:
        """An event that is about to be folded."""
        for found in _unread(event):
            thing = found if isinstance(found, Pod | Node) else None
            self._check(found if isinstance(found, ObjectUnreadable) else _of(found), thing)

    def report(self) -> None:
        """Write the events; only who leads does."""
        for thing in self._untold.values():
            if isinstance(thing, Pod):
                self._recorder.note(thing, POD_REASON, thing.unread.text)
            else:
                text = thing.unread or thing.gpu_problem
                self._recorder.note_node(thing, NODE_REASON, text)
        self._untold.clear()

    def _check(self, unread: ObjectUnreadable, thing: Pod | Node | None) -> None:
        key = (unread.kind, unread.name)
        if self._said.get(key) == unread.problem:
            return
        for known in (self._said, self._untold):
            if len(known) >= REMEMBERED_MAX:
                del known[next(iter(known))]
        self._said[key] = unread.problem
        self._count(unread.kind)
        log.warning(
            "an object cannot be read", kind=unread.kind, name=unread.name, problem=unread.problem
        )
        if thing is not None:
            self._untold[key] = thing


def _unread(event: ev.Event) -> Iterable[Pod | Node | ObjectUnreadable]:
    """The objects in an event of which something cannot be read: nearly always none."""
    match event:
        case ev.PodUpdated(pod):
            return (pod,) if pod.unread else ()
        case ev.PodsReplaced(pods):
            return (pod for pod in pods if pod.unread)
        case ev.NodeUpdated(node):
            return (node,) if _is_odd(node) else ()
        case ev.NodesReplaced(nodes):
            return filter(_is_odd, nodes)
    return _unread_elsewhere(event)


def _is_odd(node: Node) -> bool:
    return bool(node.unread or node.gpu_problem)


def _unread_elsewhere(event: ev.Event) -> Iterator[ObjectUnreadable]:
    match event:
        case ev.NamespaceUpdated(namespace):
            yield from _named("namespaces", [(namespace.name, namespace.unread)])
        case ev.NamespacesReplaced(namespaces):
            yield from _named("namespaces", ((one.name, one.unread) for one in namespaces))
        case ev.QuotaUpdated(quota):
            yield from _named("resourcequotas", [(f"{quota.namespace}/{quota.name}", quota.unread)])
        case ev.QuotasReplaced(quotas):
            found = ((f"{one.namespace}/{one.name}", one.unread) for one in quotas)
            yield from _named("resourcequotas", found)
        case ev.PartitionsUpdated(cuts):
            yield from _named("migcuts", [(cuts.node_name, cuts.unread)])
        case ev.PartitionsReplaced(every):
            yield from _named("migcuts", ((one.node_name, one.unread) for one in every))
        case ev.MigrationDeleted(_, unread) if unread is not None:
            yield unread
        case ev.MigrationsReplaced(_, unread):
            yield from unread


def _named(kind: str, found: Iterable[tuple[str, str]]) -> Iterator[ObjectUnreadable]:
    return (ObjectUnreadable(kind, name, problem) for name, problem in found if problem)


def _of(thing: Pod | Node) -> ObjectUnreadable:
    if isinstance(thing, Pod):
        return ObjectUnreadable("pods", thing.key, thing.unread.text)
    return ObjectUnreadable("nodes", thing.name, thing.unread or thing.gpu_problem)
