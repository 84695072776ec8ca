"""Reports each undecodable object once: a log line, a metric and an event on the object."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

import structlog

from scheduler.model.actions import RecordNodeEvent, RecordPodEvent
from scheduler.model.dra.claim import ResourceClaim
from scheduler.model.dra.device_class import DeviceClass
from scheduler.model.dra.objects import DraObject
from scheduler.model.dra.resource_slice import DeviceTaintRule, ResourceSlice
from scheduler.model.node import Namespace, Node
from scheduler.model.pods.pod import Pod
from scheduler.model.teams.configuration import team_problem
from scheduler.report.metrics import Metrics
from scheduler.state import event as ev
from scheduler.state.effects import NOTHING, Effects
from scheduler.state.event import ObjectUnreadable

REMEMBERED_MAX: Final = 10_000
POD_REASON: Final = "PodUnreadable"
NODE_REASON: Final = "NodeUnreadable"

#: The kinds of DRA objects that are kept where they cannot be read.
_PLURALS: Final[dict[type[DraObject], str]] = {
    ResourceSlice: "resourceslices",
    DeviceClass: "deviceclasses",
    ResourceClaim: "resourceclaims",
    DeviceTaintRule: "devicetaintrules",
}

log = structlog.get_logger("scheduler")


class UnreadableEvents:
    """The problem of every undecodable object, and the objects that have no event yet."""

    name = "unreadable-objects"
    handles = (
        *(ev.PodUpdated, ev.PodsReplaced, ev.NodeUpdated, ev.NodesReplaced),
        *(ev.NamespaceUpdated, ev.NamespacesReplaced, ev.QuotaUpdated, ev.QuotasReplaced),
        *(ev.PartitionsUpdated, ev.PartitionsReplaced, ev.MigrationDeleted, ev.MigrationsReplaced),
        *(ev.DraUpdated, ev.DraReplaced, ev.TeamsRead),
    )

    def __init__(self, metrics: Metrics) -> None:
        self._metrics = metrics
        self._logged: dict[tuple[str, str], str] = {}
        self._unreported: dict[tuple[str, str], Pod | Node] = {}

    def handle(self, event: ev.Event, now: float) -> Effects:
        """Check the objects in an event."""
        for item in _unread(event):
            if isinstance(item, ObjectUnreadable):
                self._check(item, None)
            else:
                self._check(_of(item), item)
        return NOTHING

    def tick(self, now: float, *, leads: bool) -> Effects:
        """Record the events; only the leader does."""
        if not leads or not self._unreported:
            return NOTHING
        objects = list(self._unreported.values())
        self._unreported.clear()
        return tuple(map(_event, objects))

    def _check(self, unread: ObjectUnreadable, thing: Pod | Node | None) -> None:
        key = (unread.kind, unread.name)
        if self._logged.get(key) == unread.problem:
            return
        for known in (self._logged, self._unreported):
            if len(known) >= REMEMBERED_MAX:
                del known[next(iter(known))]
        self._logged[key] = unread.problem
        self._metrics.unreadable.labels(unread.kind).inc()
        log.warning("object unreadable", kind=unread.kind, name=unread.name, problem=unread.problem)
        if thing is not None:
            self._unreported[key] = thing


def _event(item: Pod | Node) -> RecordPodEvent | RecordNodeEvent:
    if isinstance(item, Pod):
        return RecordPodEvent(item, POD_REASON, item.unread.text)
    return RecordNodeEvent(item, NODE_REASON, item.unread or item.gpu_problem)


def _unread(event: ev.Event) -> Iterable[Pod | Node | ObjectUnreadable]:
    """The objects in an event that are not completely decodable; usually none."""
    match event:
        case ev.PodUpdated(pod):
            return (pod,) if pod.unread else ()
        case ev.PodsReplaced(pods):
            return (pod for pod in pods if pod.unread)
        case ev.NodeUpdated(node):
            return (node,) if _is_odd(node) else ()
        case ev.NodesReplaced(nodes):
            return filter(_is_odd, nodes)
        case ev.DraUpdated() | ev.DraReplaced():
            return _of_dra(event.items if isinstance(event, ev.DraReplaced) else (event.item,))
    return _unread_elsewhere(event)


def _problem(namespace: Namespace) -> str:
    return namespace.unread or team_problem(namespace)


def _is_odd(node: Node) -> bool:
    return bool(node.unread or node.gpu_problem)


def _unread_elsewhere(event: ev.Event) -> Iterator[ObjectUnreadable]:
    match event:
        case ev.NamespaceUpdated(namespace):
            yield from _named("namespaces", [(namespace.name, _problem(namespace))])
        case ev.NamespacesReplaced(namespaces):
            yield from _named("namespaces", ((one.name, _problem(one)) for one in namespaces))
        case ev.TeamsRead(_, problem, name):
            yield from _named("configmaps", [(name, problem)])
        case ev.QuotaUpdated(quota):
            yield from _named("resourcequotas", [(f"{quota.namespace}/{quota.name}", quota.unread)])
        case ev.QuotasReplaced(quotas):
            found = ((f"{one.namespace}/{one.name}", one.unread) for one in quotas)
            yield from _named("resourcequotas", found)
        case ev.PartitionsUpdated(partitions):
            yield from _named("migpartitions", [(partitions.node_name, partitions.unread)])
        case ev.PartitionsReplaced(every):
            yield from _named("migpartitions", ((one.node_name, one.unread) for one in every))
        case ev.MigrationDeleted(_, unread) if unread is not None:
            yield unread
        case ev.MigrationsReplaced(_, unread):
            yield from unread


def _of_dra(items: Iterable[DraObject]) -> Iterator[ObjectUnreadable]:
    for one in items:
        if one.unread:
            yield ObjectUnreadable(_PLURALS[type(one)], one.key, one.unread)


def _named(kind: str, found: Iterable[tuple[str, str]]) -> Iterator[ObjectUnreadable]:
    return (ObjectUnreadable(kind, name, problem) for name, problem in found if problem)


def _of(thing: Pod | Node) -> ObjectUnreadable:
    if isinstance(thing, Pod):
        return ObjectUnreadable("pods", thing.key, thing.unread.text)
    return ObjectUnreadable("nodes", thing.name, thing.unread or thing.gpu_problem)
