"""Converts a node or namespace of the API to one of the model; ValueError if undecodable."""

from __future__ import annotations

import sys
from functools import lru_cache
from itertools import islice

import msgspec

from scheduler.model import resources, well_known
from scheduler.model.gpu import physical_gpus, plugin_resources
from scheduler.model.limits import NODE_IMAGES_MAX
from scheduler.model.mig import node_geometry
from scheduler.model.node import Namespace, Node
from scheduler.watch.decode.api_types import Amounts, ContainerImage, NamespaceWire, NodeWire
from scheduler.watch.decode.pods import kept

NODE = msgspec.json.Decoder(NodeWire)
NAMESPACE = msgspec.json.Decoder(NamespaceWire)


def to_node(wire: NodeWire) -> Node:
    """A Node of the model."""
    meta = wire.metadata
    labels = meta.labels or {}
    written = meta.annotations or {}
    annotations = {key: written[key] for key in well_known.NODE_ANNOTATIONS if written.get(key)}
    offered = resources.amounts(wire.status.allocatable)
    amounts = {resource: max(0, amount) for resource, amount in offered.items()}
    amounts = node_geometry.sound(labels, annotations, amounts)
    amounts = plugin_resources.with_no_whole_gpu(labels, amounts)
    return Node(
        name=meta.name,
        uid=meta.uid,
        labels=labels,
        unschedulable=wire.spec.unschedulable,
        taints=wire.spec.taints or (),
        allocatable=physical_gpus.usable(labels, annotations, amounts),
        capacity=_gpus(wire.status.capacity),
        annotations=annotations,
        created=meta.creation_timestamp or "",
        declared_features=frozenset(wire.status.declared_features or ()),
        images=_images(wire.status.images or ()),
        boot=wire.status.node_info.boot_id if wire.status.node_info else "",
    )


def _images(images: tuple[ContainerImage, ...]) -> tuple[tuple[str, int], ...]:
    """Names and sizes of the images on a node; equal ones of different nodes are one object."""
    pairs = (_image(name, one.size_bytes) for one in images for name in one.names or ())
    return tuple(islice(pairs, NODE_IMAGES_MAX))


@lru_cache(maxsize=16384)
def _image(name: str, size: int) -> tuple[str, int]:
    return sys.intern(name), max(0, size)


def _gpus(capacity: Amounts | None) -> dict[str, int]:
    """The GPU resources of a node's capacity."""
    found = {r: amount for r, amount in (capacity or {}).items() if well_known.is_gpu_device(r)}
    return {r: max(0, amount) for r, amount in resources.amounts(found).items()}


def to_namespace(wire: NamespaceWire) -> Namespace:
    """A Namespace of the model."""
    meta = wire.metadata
    return Namespace(name=meta.name, labels=meta.labels or {}, annotations=kept(meta.annotations))
