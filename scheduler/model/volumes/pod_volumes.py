"""What a pod mounts, as far as it matters to placement: claims, and disks without a claim."""

from __future__ import annotations

from typing import Final

import msgspec

from scheduler.model.volumes.csi_volume import CsiVolume


class ClaimUse(msgspec.Struct, frozen=True, gc=False):
    """A claim that a pod names, or one that is made for its generic ephemeral volume."""

    name: str
    is_ephemeral: bool = False


class InlineDisk(msgspec.Struct, frozen=True, gc=False):
    """A disk that a pod names without a claim.

    ``field`` is the field of ``spec.volumes`` and ``name`` the disk; ``sources`` are the servers
    that have it. ``csi`` is how the CSI driver that replaced the plugin knows it, where there is
    one. Two pods on a node may mount a disk that ``restricts`` only if both are read-only.
    """

    field: str
    name: str
    sources: tuple[str, ...] = ()
    is_read_only: bool = False
    restricts: bool = False
    csi: CsiVolume | None = None

    def excludes(self, other: InlineDisk) -> bool:
        """Whether another pod on the node may not mount this disk (``isVolumeConflict``)."""
        if not self.restricts or (self.field, self.name) != (other.field, other.name):
            return False
        if self.is_read_only and other.is_read_only:
            return False
        return not set(self.sources).isdisjoint(other.sources)


class PodVolumes(msgspec.Struct, frozen=True, gc=False, cache_hash=True):
    """The claims and disks of one pod, in the order of ``spec.volumes``."""

    claims: tuple[ClaimUse, ...] = ()
    disks: tuple[InlineDisk, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.claims or self.disks)

    def __len__(self) -> int:
        return len(self.claims) + len(self.disks)


NO_VOLUMES: Final = PodVolumes()
