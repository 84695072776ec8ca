"""Checks index-assigned nodes: do kubelets assign the GPUs that the scheduler chose? Pure.

The source for running pods is their status, for deleted pods the scheduler's events.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from gpuctl.doctor.facts import Misnumbered
from scheduler.model import well_known
from scheduler.state.cache.cluster import Cluster
from scheduler.state.reported_devices import Numbering
from scheduler.watch.decode.objects import read_node, read_pod

#: The label of an index-assigned node.
INDEX_ASSIGNED = f"{well_known.NUMBERED}=numbered"


class Items(msgspec.Struct, frozen=True):
    """A list whose objects are decoded one by one."""

    items: tuple[msgspec.Raw, ...] = ()


class _Involved(msgspec.Struct, frozen=True):
    kind: str = ""
    name: str = ""


class Event(msgspec.Struct, frozen=True, rename="camel"):
    """The fields of an event that are read."""

    involved_object: _Involved = _Involved()
    message: str = ""


def misnumbered(
    nodes: Items, pods: Items, events: Iterable[Event], scheduler: str
) -> tuple[Misnumbered, ...]:
    """The labelled nodes whose device plugin assigned other GPUs than were chosen, with reasons."""
    cluster = Cluster(scheduler, "all")
    for node in nodes.items:
        cluster.upsert_node(read_node(node))
    for pod in pods.items:
        cluster.upsert_pod(read_pod(pod))
    reasons: dict[str, str] = {}
    for node_info in cluster.candidates():
        if node_info.node is not None and (why := Numbering().see(node_info)):
            reasons[node_info.node.name] = why
    for event in events:
        name = event.involved_object.name
        if event.involved_object.kind == "Node" and cluster.at(name) is not None:
            reasons.setdefault(name, event.message)
    return tuple(Misnumbered(name, why) for name, why in sorted(reasons.items()))
