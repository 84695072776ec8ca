"""How many volumes a CSI driver can attach to a node (kube-scheduler: nodevolumelimits).

A volume counts once per node, whatever the number of its pods: by its driver and handle, or by its
claim until it has one. Disks of former in-tree plugins count as volumes of the CSI driver.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

from scheduler.framework import pod_reads
from scheduler.framework.plugin import FITS, BoundFilter, Plugin, Reasons
from scheduler.framework.settings import Settings
from scheduler.framework.view import View
from scheduler.model.pods.pod import Pod
from scheduler.model.reasons.reason import Reason
from scheduler.model.volumes.claim import Claim
from scheduler.model.volumes.csi_volume import MIGRATED, UNCOUNTED, CsiVolume
from scheduler.model.volumes.storage import CsiNode
from scheduler.plugins.volumes.codes import CSI_DRIVER_MISSING, VOLUME_LIMIT
from scheduler.state.node_info import NodeInfo
from scheduler.state.volumes.store import VolumeStore

#: Of the names by which volumes without a handle are told apart; no driver's handle begins so.
_UNBOUND: Final = "\0claim/"


def pre_filter(view: View, pod: Pod, _settings: Settings) -> BoundFilter | None:
    """Bind the filter to the storage objects, for a pod with volumes that may count."""
    if not pod.volumes.claims and not any(one.csi for one in pod.volumes.disks):
        return None
    return BoundFilter(_check(view.volumes, pod))


class _Wanted:
    """The volumes of a pod that count, on nodes with or without a CSINode."""

    def __init__(self, store: VolumeStore, pod: Pod, *, is_csi: bool) -> None:
        self.volumes = frozenset(_volumes(store, pod, is_csi=is_csi))
        self.drivers = tuple(sorted({one.driver for one in self.volumes}))
        drivers = (store.drivers.get(one) for one in self.drivers)
        #: Drivers that a node must have (``preventPodSchedulingIfMissing``).
        self.required = tuple(one.name for one in drivers if one is not None and one.is_required)


def _check(store: VolumeStore, pod: Pod) -> Callable[[NodeInfo], Reasons]:
    asked: dict[bool, _Wanted] = {}
    known: dict[tuple[str, int, int], Reasons] = {}

    def check(node_info: NodeInfo) -> Reasons:
        assert node_info.node is not None
        csi_node = store.csi_nodes.get(node_info.node.name)
        is_csi = csi_node is not None
        wanted = asked.get(is_csi)
        if wanted is None:
            wanted = asked[is_csi] = _Wanted(store, pod, is_csi=is_csi)
        limits = csi_node.limits if csi_node is not None else {}
        for driver in wanted.required:
            if driver not in limits:
                text = f"{driver} CSI driver is not installed on the node"
                return (Reason(code=CSI_DRIVER_MISSING, text=text),)
        if csi_node is None or all(limits.get(one) is None for one in wanted.drivers):
            return FITS
        over = _over(store, wanted, csi_node, node_info)
        if over is None:
            return FITS
        reasons = known.get(over)
        if reasons is None:
            reasons = known[over] = (_reason(*over),)
        return reasons

    return check


def _reason(driver: str, need: int, have: int) -> Reason:
    return Reason(
        code=VOLUME_LIMIT,
        text=f"node(s) exceed max volume count (driver {driver})",
        resource=f"volumes of {driver}",
        need=need,
        have=have,
    )


def _over(
    store: VolumeStore, wanted: _Wanted, csi_node: CsiNode, node_info: NodeInfo
) -> tuple[str, int, int] | None:
    """The first driver with too many volumes on a node, how many it has to attach there, and how
    many it can."""
    if _are_few(store, wanted, csi_node, node_info):
        return None
    there = {
        volume
        for one in node_info.with_volumes.values()
        for volume in _volumes(store, one, is_csi=True)
    }
    every = there.union(_attached(store, csi_node.name))
    for driver in wanted.drivers:
        limit = csi_node.limits.get(driver)
        if limit is None:
            continue
        need = sum(one.driver == driver and one not in there for one in wanted.volumes)
        count = sum(one.driver == driver for one in every)
        if need and count + need > limit:
            return driver, need, max(0, limit - count)
    return None


def _are_few(store: VolumeStore, wanted: _Wanted, csi_node: CsiNode, node_info: NodeInfo) -> bool:
    """Whether no limit is exceeded even if each claim, disk and attachment is a volume of its own:
    no claim need be looked up."""
    limits = (csi_node.limits.get(one) for one in wanted.drivers)
    room = min(one for one in limits if one is not None) - len(wanted.volumes)
    for pod in node_info.with_volumes.values():
        room -= len(pod.volumes.claims) + len(pod.volumes.disks)
    return room >= 0 and room >= sum(1 for _ in store.attachments(csi_node.name))


def _volumes(store: VolumeStore, pod: Pod, *, is_csi: bool) -> Iterator[CsiVolume]:
    """The volumes of a pod that count; ``is_csi`` where the node has a CSINode.

    Without one, nothing says that the driver of a former in-tree plugin works there.
    """
    for use, key in zip(pod.volumes.claims, pod.claims, strict=True):
        claim = store.claim(key)
        if claim is None or (use.is_ephemeral and claim.owner_uid != pod.uid):
            continue
        volume = _of_claim(store, claim, is_csi=is_csi)
        if volume is not None:
            yield volume
    if is_csi:
        yield from (disk.csi for disk in pod.volumes.disks if disk.csi is not None)


def _of_claim(store: VolumeStore, claim: Claim, *, is_csi: bool) -> CsiVolume | None:
    volume = store.volume(claim.volume_name) if claim.volume_name else None
    if volume is None:
        return _of_class(store, claim, is_csi=is_csi)
    return volume.csi if volume.plugin is None or is_csi else None


def _of_class(store: VolumeStore, claim: Claim, *, is_csi: bool) -> CsiVolume | None:
    """A claim without a volume counts as one of its class."""
    found = store.classes.get(claim.class_name) if claim.class_name else None
    if found is None or not found.provisioner or found.provisioner in UNCOUNTED:
        return None
    handle = f"{_UNBOUND}{claim.key}"
    plugin = MIGRATED.get(found.provisioner)
    if plugin is None:
        return CsiVolume(found.provisioner, handle)
    return CsiVolume(plugin.driver, handle) if is_csi else None


def _attached(store: VolumeStore, node_name: str) -> Iterator[CsiVolume]:
    """What VolumeAttachments say is attached, or about to be."""
    for one in store.attachments(node_name):
        volume = store.volume(one.volume_name) if one.volume_name else None
        if one.driver and volume is not None and volume.plugin is None and volume.csi is not None:
            yield CsiVolume(one.driver, volume.csi.handle)


PLUGIN: Final = Plugin(
    name="NodeVolumeLimits",
    skips_plain=True,
    reads=(pod_reads.VOLUMES,),
    codes=(VOLUME_LIMIT, CSI_DRIVER_MISSING),
    pre_filter=pre_filter,
)
