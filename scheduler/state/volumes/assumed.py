"""Volumes and claims as placements leave them, before the API server has the change.

The rules are those of ``volumebinding/passive_assume_cache.go``: an assumption ends when a newer
version of the object arrives, or when its placement is taken back before it was written.
"""

from __future__ import annotations

from scheduler.model.volumes.claim import Claim
from scheduler.model.volumes.persistent_volume import PersistentVolume


class AssumedObjects:
    """Assumed volumes and claims by key, and whose placement assumed them."""

    def __init__(self) -> None:
        self.volumes: dict[str, PersistentVolume] = {}
        self.claims: dict[str, Claim] = {}
        #: Claim -> the volume that it is assumed to get.
        self.volume_of: dict[str, str] = {}
        self._volumes_by: dict[str, dict[str, None]] = {}
        self._claims_by: dict[str, dict[str, None]] = {}

    def copy(self) -> AssumedObjects:
        """The same assumptions, to be extended; they are taken back in the original only."""
        other = AssumedObjects()
        other.volumes, other.claims = self.volumes.copy(), self.claims.copy()
        other.volume_of = self.volume_of.copy()
        return other

    def give(self, uid: str, claim: Claim, volume: PersistentVolume) -> None:
        """A pod's placement gives a volume to its claim."""
        self.volumes[volume.name] = volume
        self.volume_of[claim.key] = volume.name
        self._volumes_by.setdefault(uid, {})[volume.name] = None

    def select(self, uid: str, claim: Claim) -> None:
        """A pod's placement selects the node of a claim."""
        self.claims[claim.key] = claim
        self._claims_by.setdefault(uid, {})[claim.key] = None

    def keep(self, uid: str, key: str) -> None:
        """An object was written: what is assumed of it ends with its newer version only."""
        self._volumes_by.get(uid, {}).pop(key, None)
        self._claims_by.get(uid, {}).pop(key, None)

    def restore(self, uid: str) -> bool:
        """The placement is taken back; whether anything was assumed that is not written."""
        if uid not in self._volumes_by and uid not in self._claims_by:
            return False  # nearly all pods
        volumes, claims = self._volumes_by.pop(uid, {}), self._claims_by.pop(uid, {})
        for name in volumes:
            self.drop_volume(name)
        for key in claims:
            self.claims.pop(key, None)
        return bool(volumes or claims)

    def end(self, uid: str) -> None:
        """The pod is bound, or gone: its assumptions end with the newer versions."""
        self._volumes_by.pop(uid, None)
        self._claims_by.pop(uid, None)

    def drop_volume(self, name: str) -> None:
        """There is a newer version of a volume, or none any more."""
        volume = self.volumes.pop(name, None)
        if volume is not None and volume.claim is not None:
            self.volume_of.pop(f"{volume.claim.namespace}/{volume.claim.name}", None)
