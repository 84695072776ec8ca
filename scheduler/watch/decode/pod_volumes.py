"""The claims and disks of a pod spec."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from scheduler.model.pods.pod_fields import DiskSource, VolumeFields
from scheduler.model.volumes.csi_volume import BY_FIELD, CsiVolume, inline_handle
from scheduler.model.volumes.pod_volumes import NO_VOLUMES, ClaimUse, InlineDisk, PodVolumes

#: Where the disk itself is the only source: any two pods that name it name the same.
_ANY: Final = ("",)


def pod_volumes(volumes: tuple[VolumeFields, ...], pod_name: str) -> PodVolumes:
    """What decisions read of ``spec.volumes``; the claim of an ephemeral volume has its name.

    The name of that claim is ``VolumeClaimName`` of ``component-helpers/storage/ephemeral``.
    """
    claims: list[ClaimUse] = []
    disks: list[InlineDisk] = []
    for one in volumes:
        if one.persistent_volume_claim is not None:
            claims.append(ClaimUse(one.persistent_volume_claim.claim_name))
        elif one.ephemeral is not None:
            claims.append(ClaimUse(f"{pod_name}-{one.name}", is_ephemeral=True))
        elif (disk := _disk(one)) is not None:
            disks.append(disk)
    return PodVolumes(tuple(claims), tuple(disks)) if claims or disks else NO_VOLUMES


#: Attribute of a volume, its name in the API, and how a disk of it is called.
_DISKS: Final[tuple[tuple[str, str, Callable[[DiskSource], str]], ...]] = (
    ("gce_persistent_disk", "gcePersistentDisk", lambda disk: disk.pd_name),
    ("aws_elastic_block_store", "awsElasticBlockStore", lambda disk: disk.volume_id),
    ("azure_disk", "azureDisk", lambda disk: disk.disk_uri),
    ("cinder", "cinder", lambda disk: disk.volume_id),
    ("portworx_volume", "portworxVolume", lambda disk: disk.volume_id),
    ("iscsi", "iscsi", lambda disk: disk.iqn),
    ("rbd", "rbd", lambda disk: f"{disk.pool}/{disk.image}"),
)
#: VolumeRestrictions compares these with the disks of the other pods on a node.
_RESTRICTED: Final = frozenset(("gcePersistentDisk", "awsElasticBlockStore", "iscsi", "rbd"))
#: Of an EBS volume not even two read-only mounts are allowed.
_NEVER_SHARED: Final = "awsElasticBlockStore"


def _disk(volume: VolumeFields) -> InlineDisk | None:
    for attribute, field, name_of in _DISKS:
        disk: DiskSource | None = getattr(volume, attribute)
        if disk is not None:
            return InlineDisk(
                field,
                name_of(disk),
                sources=disk.monitors if field == "rbd" else _ANY,
                is_read_only=bool(disk.read_only) and field != _NEVER_SHARED,
                restricts=field in _RESTRICTED,
                csi=_as_csi(field, disk),
            )
    return None


def _as_csi(field: str, disk: DiskSource) -> CsiVolume | None:
    plugin = BY_FIELD.get(field)
    handle = inline_handle(plugin, disk) if plugin is not None else ""
    return CsiVolume(plugin.driver, handle) if plugin is not None and handle else None
