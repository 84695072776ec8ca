"""PersistentVolumeClaims and PersistentVolumes as they arrive, as far as they are read."""

from __future__ import annotations

from typing import Final

import msgspec

from scheduler.model import quantity, well_known
from scheduler.model.pods.pod_affinity import pod_selector
from scheduler.model.pods.pod_fields import NodeSelector
from scheduler.model.selector import LabelSelector
from scheduler.model.volumes import csi_volume
from scheduler.model.volumes.claim import Claim
from scheduler.model.volumes.csi_volume import BY_FIELD, CsiVolume, Disk, InTreePlugin
from scheduler.model.volumes.persistent_volume import ClaimRef, PersistentVolume
from scheduler.watch.decode.api_types import Amounts
from scheduler.watch.decode.object_decoder import STORAGE, ObjectDecoder, VersionedMeta

_STORAGE: Final = "storage"


class _Requests(msgspec.Struct, frozen=True):
    requests: Amounts | None = None


class _ClaimSpec(msgspec.Struct, frozen=True, rename="camel"):
    access_modes: tuple[str, ...] | None = None
    resources: _Requests | None = None
    selector: LabelSelector | None = None
    storage_class_name: str | None = None
    volume_attributes_class_name: str | None = None
    volume_mode: str | None = None
    volume_name: str = ""


class _Status(msgspec.Struct, frozen=True):
    phase: str = ""


class ClaimWire(msgspec.Struct, frozen=True):
    """A PersistentVolumeClaim."""

    metadata: VersionedMeta
    spec: _ClaimSpec = _ClaimSpec()
    status: _Status = _Status()


class _CsiSource(msgspec.Struct, frozen=True, rename="camel"):
    driver: str = ""
    volume_handle: str = ""


class _Affinity(msgspec.Struct, frozen=True):
    required: NodeSelector | None = None


class _VolumeSpec(msgspec.Struct, frozen=True, rename="camel"):
    access_modes: tuple[str, ...] | None = None
    aws_elastic_block_store: Disk | None = None
    azure_disk: Disk | None = None
    capacity: Amounts | None = None
    cinder: Disk | None = None
    claim_ref: ClaimRef | None = None
    csi: _CsiSource | None = None
    gce_persistent_disk: Disk | None = None
    node_affinity: _Affinity | None = None
    portworx_volume: Disk | None = None
    storage_class_name: str = ""
    volume_attributes_class_name: str | None = None
    volume_mode: str | None = None


class VolumeWire(msgspec.Struct, frozen=True):
    """A PersistentVolume."""

    metadata: VersionedMeta
    spec: _VolumeSpec = _VolumeSpec()
    status: _Status = _Status()


def to_claim(wire: ClaimWire) -> Claim:
    """A Claim of the model."""
    meta, spec = wire.metadata, wire.spec
    annotations = meta.annotations or {}
    asked = (spec.resources.requests or {}).get(_STORAGE) if spec.resources else None
    owners = (one.uid for one in meta.owner_references or () if one.controller)
    return Claim(
        namespace=meta.namespace,
        name=meta.name,
        uid=meta.uid,
        version=meta.resource_version,
        class_name=annotations.get(well_known.BETA_STORAGE_CLASS, spec.storage_class_name or ""),
        access_modes=spec.access_modes or (),
        mode=spec.volume_mode or "Filesystem",
        attributes_class=spec.volume_attributes_class_name or "",
        selector=pod_selector(spec.selector) if spec.selector is not None else None,
        request=quantity.value(asked) if asked is not None else None,
        volume_name=spec.volume_name,
        is_completed=well_known.BIND_COMPLETED in annotations,
        selected_node=annotations.get(well_known.SELECTED_NODE),
        phase=wire.status.phase,
        is_deleting=meta.deletion_timestamp is not None,
        owner_uid=next(owners, ""),
    )


def to_volume(wire: VolumeWire) -> PersistentVolume:
    """A PersistentVolume of the model."""
    meta, spec = wire.metadata, wire.spec
    annotations, labels = meta.annotations or {}, meta.labels or {}
    plugin, csi = _source(spec, labels)
    required = spec.node_affinity.required if spec.node_affinity else None
    return PersistentVolume(
        name=meta.name,
        uid=meta.uid,
        version=meta.resource_version,
        labels=labels,
        class_name=annotations.get(well_known.BETA_STORAGE_CLASS, spec.storage_class_name),
        capacity=quantity.value((spec.capacity or {}).get(_STORAGE, 0)),
        access_modes=spec.access_modes or (),
        mode=spec.volume_mode or "Filesystem",
        attributes_class=spec.volume_attributes_class_name or "",
        phase=wire.status.phase,
        claim=spec.claim_ref,
        is_bound_by_controller=well_known.BOUND_BY_CONTROLLER in annotations,
        is_deleting=meta.deletion_timestamp is not None,
        required_terms=required.node_selector_terms if required is not None else None,
        csi=csi,
        plugin=plugin,
    )


def _source(
    spec: _VolumeSpec, labels: dict[str, str]
) -> tuple[InTreePlugin | None, CsiVolume | None]:
    if spec.csi is not None:
        return None, CsiVolume(spec.csi.driver, spec.csi.volume_handle)
    disks = {
        "awsElasticBlockStore": spec.aws_elastic_block_store,
        "azureDisk": spec.azure_disk,
        "cinder": spec.cinder,
        "gcePersistentDisk": spec.gce_persistent_disk,
        "portworxVolume": spec.portworx_volume,
    }
    for field, disk in disks.items():
        if disk is not None:
            plugin = BY_FIELD[field]
            handle = csi_volume.volume_handle(plugin, disk, labels)
            return plugin, CsiVolume(plugin.driver, handle) if handle else None
    return None, None


CLAIMS: Final = ObjectDecoder(
    STORAGE,
    Claim,
    ClaimWire,
    to_claim,
    lambda namespace, name, _, unread: Claim(namespace=namespace, name=name, unread=unread),
)
VOLUMES: Final = ObjectDecoder(
    STORAGE,
    PersistentVolume,
    VolumeWire,
    to_volume,
    lambda _, name, __, unread: PersistentVolume(name=name, unread=unread),
)
