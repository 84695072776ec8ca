"""The fields of Nodes and ConfigMaps that are read, and their conversion into facts."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, TypeVar

import msgspec

from fakegpu import names
from scheduler.model import quantity
from scheduler.model import well_known as words
from scheduler.model.crd import mig_partition_codec
from scheduler.model.crd.mig_partition import NodePartitions
from scheduler.watch.reflector import WatchSource

Amounts = dict[str, str | int | float]
#: Annotations of nodes that are read; others can be large and change often.
NODE_ANNOTATIONS = frozenset(
    {
        *(names.KWOK_ANNOTATION, names.MIG_CONFIG, names.MIG_MAPPING),
        *(names.FAILURES, names.ALLOCATABLE, names.MIG_FAULTS, names.UNUSABLE, names.GPU_IDS),
    }
)


class Meta(msgspec.Struct, frozen=True, rename="camel"):
    """The fields of ObjectMeta that are read."""

    name: str
    namespace: str = ""
    uid: str = ""
    resource_version: str = "0"
    creation_timestamp: str | None = None
    labels: dict[str, str] | None = None
    annotations: dict[str, str] | None = None


class _NodeStatus(msgspec.Struct, frozen=True):
    conditions: tuple[msgspec.Raw, ...] | None = None
    capacity: Amounts | None = None
    allocatable: Amounts | None = None


class _Node(msgspec.Struct, frozen=True):
    metadata: Meta
    status: _NodeStatus = _NodeStatus()


class _ConfigMap(msgspec.Struct, frozen=True):
    metadata: Meta
    data: dict[str, str] | None = None


class NodeFacts(msgspec.Struct, frozen=True, kw_only=True):
    """A node; amounts are whole numbers of extended resources.

    ``is_begun`` once KWOK simulates it. ``version`` is the resource version; own later writes are
    not in it.
    """

    name: str
    uid: str = ""
    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}
    capacity: dict[str, int] = {}
    allocatable: dict[str, int] = {}
    is_ready_for_status: bool = True
    is_begun: bool = True
    version: int = 0

    @property
    def is_kwok(self) -> bool:
        """Whether it has no kubelet, so that the operator writes its status."""
        return self.annotations.get(names.KWOK_ANNOTATION) == "fake"


class MapFacts(msgspec.Struct, frozen=True, kw_only=True):
    """A ConfigMap."""

    name: str
    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}
    data: dict[str, str] = {}
    version: int = 0


T = TypeVar("T")


class Seen(msgspec.Struct, Generic[T], frozen=True):
    """The current state of an object; None: deleted, or ignored."""

    key: str
    value: T | None


class Listed(msgspec.Struct, Generic[T], frozen=True):
    """All objects of a kind."""

    values: dict[str, T]


News = Seen[T] | Listed[T]

_NODE = msgspec.json.Decoder(_Node)
_MAP = msgspec.json.Decoder(_ConfigMap)


def node(content: bytes) -> tuple[str, NodeFacts | None]:
    """A node by its name."""
    wire = _NODE.decode(content)
    meta, annotations = wire.metadata, wire.metadata.annotations or {}
    capacity = wire.status.capacity or {}
    return meta.name, NodeFacts(
        name=meta.name,
        uid=meta.uid,
        labels=meta.labels or {},
        annotations={k: v for k, v in annotations.items() if k in NODE_ANNOTATIONS},
        capacity=_extended(capacity),
        allocatable=_extended(wire.status.allocatable or {}),
        # KWOK adds CPU and memory only while the status is empty.
        is_ready_for_status=words.CPU in capacity,
        is_begun=bool(wire.status.conditions),
        version=int(meta.resource_version),
    )


def _extended(amounts: Amounts) -> dict[str, int]:
    """Extended resources have a domain in their name."""
    return {name: quantity.value(amount) for name, amount in amounts.items() if "/" in name}


def config_map(content: bytes) -> tuple[str, MapFacts | None]:
    """A ConfigMap by its name."""
    wire = _MAP.decode(content)
    meta = wire.metadata
    return meta.name, MapFacts(
        name=meta.name,
        labels=meta.labels or {},
        annotations=meta.annotations or {},
        data=wire.data or {},
        version=int(meta.resource_version),
    )


def mig_partitions(content: bytes) -> tuple[str, NodePartitions | None]:
    """The scheduler's requests for MIG instances on a node; none if undecodable."""
    try:
        found = mig_partition_codec.decode(content)
    except msgspec.ValidationError:
        return mig_partition_codec.name_in(content), None
    return found.node_name, found


def source(
    kind: str,
    path: str,
    read: Callable[[bytes], tuple[str, T | None]],
    wrap: Callable[[News[T]], Any],
    selector: str = "",
    *,
    is_optional: bool = False,
) -> WatchSource[Any]:
    """A watched kind; ``wrap`` converts its updates into an event of the cluster cache."""

    def decode(content: bytes, is_gone: bool) -> Any:
        key, value = read(content)
        return wrap(Seen(key, None if is_gone else value))

    def decode_list(items: list[msgspec.Raw]) -> Any:
        pairs = (read(bytes(item)) for item in items)
        return wrap(Listed({key: value for key, value in pairs if value is not None}))

    return WatchSource(kind, path, decode, decode_list, selector, is_optional)
