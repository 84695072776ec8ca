"""Storage classes and the objects of CSI drivers as they arrive, as far as they are read."""

from __future__ import annotations

from typing import Final

import msgspec

from scheduler.model import quantity, well_known
from scheduler.model.pods.pod_affinity import pod_selector
from scheduler.model.selector import LabelSelector
from scheduler.model.volumes.storage import (
    WAIT_FOR_FIRST_CONSUMER,
    CsiDriver,
    CsiNode,
    StorageCapacity,
    StorageClass,
    VolumeAttachment,
)
from scheduler.watch.decode.api_types import Amount, Meta
from scheduler.watch.decode.object_decoder import STORAGE, ObjectDecoder


class _LabelValues(msgspec.Struct, frozen=True):
    key: str = ""
    values: tuple[str, ...] | None = None


class _TopologyTerm(msgspec.Struct, frozen=True, rename="camel"):
    match_label_expressions: tuple[_LabelValues, ...] | None = None


class ClassWire(msgspec.Struct, frozen=True, rename="camel"):
    """A StorageClass."""

    metadata: Meta
    provisioner: str = ""
    volume_binding_mode: str | None = None
    allowed_topologies: tuple[_TopologyTerm, ...] | None = None


class _Allocatable(msgspec.Struct, frozen=True):
    count: int | None = None


class _NodeDriver(msgspec.Struct, frozen=True):
    name: str
    allocatable: _Allocatable | None = None


class _CsiNodeSpec(msgspec.Struct, frozen=True):
    drivers: tuple[_NodeDriver, ...] | None = None


class CsiNodeWire(msgspec.Struct, frozen=True):
    """A CSINode."""

    metadata: Meta
    spec: _CsiNodeSpec = _CsiNodeSpec()


class _DriverSpec(msgspec.Struct, frozen=True, rename="camel"):
    storage_capacity: bool | None = None
    prevent_pod_scheduling_if_missing: bool | None = None


class CsiDriverWire(msgspec.Struct, frozen=True):
    """A CSIDriver."""

    metadata: Meta
    spec: _DriverSpec = _DriverSpec()


class CapacityWire(msgspec.Struct, frozen=True, rename="camel"):
    """A CSIStorageCapacity."""

    metadata: Meta
    storage_class_name: str = ""
    capacity: Amount | None = None
    maximum_volume_size: Amount | None = None
    node_topology: LabelSelector | None = None


class _AttachmentSource(msgspec.Struct, frozen=True, rename="camel"):
    persistent_volume_name: str | None = None


class _AttachmentSpec(msgspec.Struct, frozen=True, rename="camel"):
    attacher: str = ""
    node_name: str = ""
    source: _AttachmentSource = _AttachmentSource()


class AttachmentWire(msgspec.Struct, frozen=True):
    """A VolumeAttachment."""

    metadata: Meta
    spec: _AttachmentSpec = _AttachmentSpec()


def to_class(wire: ClassWire) -> StorageClass:
    """A StorageClass of the model."""
    return StorageClass(
        name=wire.metadata.name,
        provisioner=wire.provisioner,
        is_delayed=wire.volume_binding_mode == WAIT_FOR_FIRST_CONSUMER,
        topologies=tuple(
            tuple((one.key, one.values or ()) for one in term.match_label_expressions or ())
            for term in wire.allowed_topologies or ()
        ),
    )


def to_csi_node(wire: CsiNodeWire) -> CsiNode:
    """A CsiNode of the model."""
    migrated = (wire.metadata.annotations or {}).get(well_known.MIGRATED_PLUGINS, "")
    return CsiNode(
        name=wire.metadata.name,
        limits={
            one.name: one.allocatable.count if one.allocatable else None
            for one in wire.spec.drivers or ()
        },
        migrated=frozenset(migrated.split(",")) - {""},
    )


def to_csi_driver(wire: CsiDriverWire) -> CsiDriver:
    """A CsiDriver of the model."""
    return CsiDriver(
        name=wire.metadata.name,
        has_capacity=bool(wire.spec.storage_capacity),
        is_required=bool(wire.spec.prevent_pod_scheduling_if_missing),
    )


def to_capacity(wire: CapacityWire) -> StorageCapacity:
    """A StorageCapacity of the model; ``maximumVolumeSize`` is the more exact number."""
    largest = wire.capacity if wire.maximum_volume_size is None else wire.maximum_volume_size
    return StorageCapacity(
        namespace=wire.metadata.namespace,
        name=wire.metadata.name,
        class_name=wire.storage_class_name,
        largest=None if largest is None else quantity.value(largest),
        left=0 if wire.capacity is None else quantity.value(wire.capacity),
        nodes=pod_selector(wire.node_topology),
    )


def to_attachment(wire: AttachmentWire) -> VolumeAttachment:
    """A VolumeAttachment of the model."""
    spec = wire.spec
    return VolumeAttachment(
        name=wire.metadata.name,
        driver=spec.attacher,
        node_name=spec.node_name,
        volume_name=spec.source.persistent_volume_name or "",
    )


CLASSES: Final = ObjectDecoder(STORAGE, StorageClass, ClassWire, to_class)
CSI_NODES: Final = ObjectDecoder(STORAGE, CsiNode, CsiNodeWire, to_csi_node)
CSI_DRIVERS: Final = ObjectDecoder(STORAGE, CsiDriver, CsiDriverWire, to_csi_driver)
CAPACITIES: Final = ObjectDecoder(STORAGE, StorageCapacity, CapacityWire, to_capacity)
ATTACHMENTS: Final = ObjectDecoder(STORAGE, VolumeAttachment, AttachmentWire, to_attachment)
