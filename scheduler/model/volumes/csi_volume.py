"""How a CSI driver knows a volume, and what it calls the disk of a former in-tree plugin.

Mirrors ``k8s.io/csi-translation-lib/plugins``, as far as kube-scheduler reads the translation: the
driver and handle, by which NodeVolumeLimits counts a volume, and the node label of its zone, by
which VolumeBinding compares it with a node.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final
from urllib.parse import urlsplit

import msgspec

from scheduler.model.selector import Requirement, Term
from scheduler.model.well_known import BETA_REGION, BETA_ZONE, REGION, ZONE

#: Between the zones in the value of a volume's zone label.
SEPARATOR: Final = "__"

_UNSPECIFIED: Final = "UNSPECIFIED"
_EBS: Final = re.compile(r"vol-[^/]*")


class CsiVolume(msgspec.Struct, frozen=True, gc=False):
    """A volume by the name that its driver has for it."""

    driver: str
    handle: str


class InTreePlugin(msgspec.Struct, frozen=True, gc=False, cache_hash=True):
    """A former in-tree plugin; ``field`` is its name in the spec of a volume.

    ``zone_key`` is the node label of its driver's zones; empty where topologies stay as they are.
    """

    name: str
    field: str
    driver: str
    zone_key: str = ""


EBS: Final = InTreePlugin(
    "kubernetes.io/aws-ebs",
    "awsElasticBlockStore",
    "ebs.csi.aws.com",
    "topology.ebs.csi.aws.com/zone",
)
GCE: Final = InTreePlugin(
    "kubernetes.io/gce-pd", "gcePersistentDisk", "pd.csi.storage.gke.io", "topology.gke.io/zone"
)
AZURE: Final = InTreePlugin("kubernetes.io/azure-disk", "azureDisk", "disk.csi.azure.com")
CINDER: Final = InTreePlugin(
    "kubernetes.io/cinder",
    "cinder",
    "cinder.csi.openstack.org",
    "topology.cinder.csi.openstack.org/zone",
)
PORTWORX: Final = InTreePlugin(
    "kubernetes.io/portworx-volume", "portworxVolume", "pxd.portworx.com"
)
#: The plugins whose migration to CSI cannot be switched off, by the name of a provisioner.
MIGRATED: Final = {one.name: one for one in (EBS, GCE, AZURE, CINDER, PORTWORX)}
#: The same by the field of a volume.
BY_FIELD: Final = {one.field: one for one in MIGRATED.values()}
#: Plugins that have a translation and are not counted by kube-scheduler.
UNCOUNTED: Final = frozenset(("kubernetes.io/azure-file", "kubernetes.io/vsphere-volume"))


class Disk(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """The source of an in-tree volume, as far as any plugin names it."""

    volume_id: str = msgspec.field(default="", name="volumeID")
    pd_name: str = ""
    disk_uri: str = msgspec.field(default="", name="diskURI")
    kind: str | None = None


def inline_handle(plugin: InTreePlugin, disk: Disk) -> str:
    """The handle of a disk that a pod names itself; empty where it has none."""
    if plugin is GCE:
        return f"projects/{_UNSPECIFIED}/zones/{_UNSPECIFIED}/disks/{disk.pd_name}"
    return _handle(plugin, disk)


def volume_handle(plugin: InTreePlugin, disk: Disk, labels: Mapping[str, str]) -> str:
    """The handle of a PersistentVolume's disk; empty where it has none."""
    if plugin is not GCE:
        return _handle(plugin, disk)
    zones = (labels.get(BETA_ZONE) or labels.get(ZONE, "")).split(SEPARATOR)
    if len(zones) == 1:
        return f"projects/{_UNSPECIFIED}/zones/{zones[0] or _UNSPECIFIED}/disks/{disk.pd_name}"
    region = _gce_region(zones)
    return f"projects/{_UNSPECIFIED}/regions/{region}/disks/{disk.pd_name}" if region else ""


def _handle(plugin: InTreePlugin, disk: Disk) -> str:
    if plugin is AZURE:
        is_managed = disk.kind is None or disk.kind.lower() == "managed"
        return disk.disk_uri if is_managed else ""
    return _ebs_id(disk.volume_id) if plugin is EBS else disk.volume_id


def _ebs_id(volume_id: str) -> str:
    """``aws://zone/vol-1`` and ``vol-1`` are the same volume."""
    if not volume_id.startswith("aws://"):
        return volume_id
    try:
        path = urlsplit(volume_id).path.strip("/")
    except ValueError:
        return ""
    return path if _EBS.fullmatch(path) else ""


def _gce_region(zones: list[str]) -> str:
    parts = [zone.split("-") for zone in zones]
    regions = {"-".join(part[:2]) for part in parts}
    return regions.pop() if len(regions) == 1 and all(len(p) == 3 for p in parts) else ""


def translated_terms(
    plugin: InTreePlugin, terms: tuple[Term, ...] | None, labels: Mapping[str, str]
) -> tuple[Term, ...] | None:
    """A volume's node affinity in the driver's topology (``translateTopologyFromInTreeToCSI``).

    The zone labels of the volume count where its node affinity names no zone.
    """
    if not plugin.zone_key:
        return terms
    zone, region = _labels_used(terms or (), labels)
    if _values(terms or (), zone):
        terms = tuple(_renamed(term, zone, plugin.zone_key) for term in terms or ())
    elif zone in labels:
        terms = _with_zones(terms or (), plugin.zone_key, labels[zone])
    if region == BETA_REGION and _values(terms or (), region):
        terms = tuple(_renamed(term, region, REGION) for term in terms or ())
    return terms


def _labels_used(terms: tuple[Term, ...], labels: Mapping[str, str]) -> tuple[str, str]:
    """The labels of zone and region that a volume uses: of its affinity, else of itself."""
    keys = {one.key for term in terms for one in term.match_expressions}
    for known in (keys, labels):
        if ZONE in known:
            return ZONE, REGION
        if BETA_ZONE in known:
            return BETA_ZONE, BETA_REGION
    return ZONE, REGION


def _values(terms: tuple[Term, ...], key: str) -> bool:
    return any(one.key == key and one.values for term in terms for one in term.match_expressions)


def _renamed(term: Term, old: str, new: str) -> Term:
    expressions = tuple(
        msgspec.structs.replace(one, key=new) if one.key == old else one
        for one in term.match_expressions
    )
    return msgspec.structs.replace(term, match_expressions=expressions)


def _with_zones(terms: tuple[Term, ...], key: str, label: str) -> tuple[Term, ...] | None:
    zones = tuple(sorted({zone.strip() for zone in label.split(SEPARATOR)} - {""}))
    if not zones:
        return terms or None
    added = Requirement(key, "In", zones)
    return tuple(
        msgspec.structs.replace(term, match_expressions=(*term.match_expressions, added))
        for term in terms or (Term(),)
    )
