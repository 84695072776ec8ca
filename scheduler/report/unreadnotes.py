"""Says once of each object that cannot be read: in the log, in a metric, and by an event on it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Final, Protocol

import structlog

from scheduler.model.node import Node
from scheduler.model.pod import Pod
from scheduler.state import event as ev
from scheduler.state.event import Unread

REMEMBERED_MAX: Final = 10_000
POD_REASON: Final = "PodUnreadable"
NODE_REASON: Final = "NodeUnreadable"

log = structlog.get_logger("scheduler")


class Recorder(Protocol):
    """Where events go (``report/recorder``)."""

    def note(self, pod: Pod, reason: str, text: str) -> None:
        """Something the pod's author should know."""

    def note_node(self, node: Node, reason: str, text: str) -> None:
        """Something the node's owner should know."""


class UnreadNotes:
    """What cannot be read, and what of it was told; ``count`` gets the kind."""

    def __init__(self, recorder: Recorder, count: Callable[[str], None]) -> None:
        self._recorder = recorder
        self._count = count
        self._said: dict[tuple[str, str], str] = {}
        self._untold: dict[tuple[str, str], Pod | Node] = {}

    def hear(self, event: ev.Event) -> None:
        """An event that is about to be folded."""
        for found in _unread(event):
            thing = found if isinstance(found, Pod | Node) else None
            self._see(found if isinstance(found, Unread) else _of(found), thing)

    def tell(self) -> None:
        """Write the events; only who leads does."""
        for thing in self._untold.values():
            if isinstance(thing, Pod):
                self._recorder.note(thing, POD_REASON, thing.unread.text)
            else:
                text = thing.unread or thing.gpu_problem
                self._recorder.note_node(thing, NODE_REASON, text)
        self._untold.clear()

    def _see(self, unread: Unread, thing: Pod | Node | None) -> None:
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


def _unread(event: ev.Event) -> Iterable[Pod | Node | Unread]:
    """The objects in an event of which something cannot be read: nearly always none."""
    match event:
        case ev.PodSeen(pod):
            return (pod,) if pod.unread else ()
        case ev.PodsListed(pods):
            return (pod for pod in pods if pod.unread)
        case ev.NodeSeen(node):
            return (node,) if _is_odd(node) else ()
        case ev.NodesListed(nodes):
            return filter(_is_odd, nodes)
    return _unread_elsewhere(event)


def _is_odd(node: Node) -> bool:
    return bool(node.unread or node.gpu_problem)


def _unread_elsewhere(event: ev.Event) -> Iterator[Unread]:
    match event:
        case ev.NamespaceSeen(namespace):
            yield from _named("namespaces", [(namespace.name, namespace.unread)])
        case ev.NamespacesListed(namespaces):
            yield from _named("namespaces", ((one.name, one.unread) for one in namespaces))
        case ev.QuotaSeen(quota):
            yield from _named("resourcequotas", [(f"{quota.namespace}/{quota.name}", quota.unread)])
        case ev.QuotasListed(quotas):
            found = ((f"{one.namespace}/{one.name}", one.unread) for one in quotas)
            yield from _named("resourcequotas", found)
        case ev.CutsSeen(cuts):
            yield from _named("migcuts", [(cuts.node_name, cuts.unread)])
        case ev.CutsListed(every):
            yield from _named("migcuts", ((one.node_name, one.unread) for one in every))
        case ev.TicketVanished(_, unread) if unread is not None:
            yield unread
        case ev.TicketsListed(_, unread):
            yield from unread


def _named(kind: str, found: Iterable[tuple[str, str]]) -> Iterator[Unread]:
    return (Unread(kind, name, problem) for name, problem in found if problem)


def _of(thing: Pod | Node) -> Unread:
    if isinstance(thing, Pod):
        return Unread("pods", thing.key, thing.unread.text)
    return Unread("nodes", thing.name, thing.unread or thing.gpu_problem)
