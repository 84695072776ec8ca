"""Whether nodes that promise numbered GPUs keep the promise, by what kubelets say of pods. Pure.

Live pods tell by themselves; what pods of the past told the scheduler stands in its events.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from gpuctl.doctor.facts import Misnumbered
from scheduler.model import well_known
from scheduler.state.cache.cluster import Cluster
from scheduler.state.reported_devices import Numbering
from scheduler.watch.decode.objects import read_node, read_pod

#: The label by which a node promises it.
PROMISE = f"{well_known.NUMBERED}=numbered"


class Items(msgspec.Struct, frozen=True):
    """A list of which each object is read by itself."""

    items: tuple[msgspec.Raw, ...] = ()


class _About(msgspec.Struct, frozen=True):
    kind: str = ""
    name: str = ""


class Told(msgspec.Struct, frozen=True, rename="camel"):
    """An event, as far as it is read."""

    involved_object: _About = _About()
    message: str = ""


class AllTold(msgspec.Struct, frozen=True):
    """A list of events."""

    items: tuple[Told, ...] = ()


def misnumbered(
    nodes: Items, pods: Items, told: Iterable[Told], scheduler: str
) -> tuple[Misnumbered, ...]:
    """The nodes with the label whose device plugin gave other GPUs than were chosen, and why."""
    cluster = Cluster(scheduler, "all")
    for node in nodes.items:
        cluster.upsert_node(read_node(node))
    for pod in pods.items:
        cluster.upsert_pod(read_pod(pod))
    found: dict[str, str] = {}
    for node_info in cluster.candidates():
        if node_info.node is not None and (why := Numbering().see(node_info)):
            found[node_info.node.name] = why
    for one in told:
        name = one.involved_object.name
        if one.involved_object.kind == "Node" and cluster.at(name) is not None:
            found.setdefault(name, one.message)
    return tuple(Misnumbered(name, why) for name, why in sorted(found.items()))
