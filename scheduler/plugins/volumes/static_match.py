"""The smallest existing volume that fits a claim (``FindMatchingVolume`` of component-helpers).

What does not depend on the node is compared once per decision; on a node only its own volumes and
those that are not local to a host remain.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

import msgspec

from scheduler.model.volumes.claim import Claim
from scheduler.model.volumes.persistent_volume import PersistentVolume
from scheduler.model.well_known import HOSTNAME
from scheduler.state.volumes.store import VolumeStore


class Candidates(msgspec.Struct, frozen=True):
    """The volumes that one claim may get.

    ``promised`` is bound to the claim in advance: it is given to no other claim, and the claim gets
    no other. ``anywhere`` are free volumes that are not local to a host.
    """

    claim: Claim
    promised: tuple[PersistentVolume, ...]
    anywhere: tuple[PersistentVolume, ...]

    def on_node(
        self, store: VolumeStore, labels: Mapping[str, str], chosen: Collection[str]
    ) -> PersistentVolume | None:
        """The volume for the claim on a node; ``chosen`` are given to other claims of the pod."""
        for volume in self.promised:
            if volume.name not in chosen:
                return volume if volume.admits(labels) else None
        anywhere = (one for one in self.anywhere if one.name not in chosen and one.admits(labels))
        best = next(anywhere, None)
        for name in store.index.local(self.claim.class_name, labels.get(HOSTNAME)):
            local = store.volume(name)
            if name in chosen or local is None or local.claim is not None:
                continue
            is_smaller = best is None or by_size(local) < by_size(best)
            if is_smaller and is_match(self.claim, local) and local.admits(labels):
                best = local
        return best


def by_size(volume: PersistentVolume) -> tuple[int, str]:
    """The smallest first; equal ones by name."""
    return volume.capacity, volume.name


def candidates(store: VolumeStore, claim: Claim) -> Candidates:
    """What a claim may get anywhere in the cluster."""
    free = store.free(store.index.anywhere(claim.class_name))
    return Candidates(
        claim,
        promised=tuple(one for one in store.volumes_for(claim) if _fits(claim, one)),
        anywhere=tuple(one for one in free if is_match(claim, one)),
    )


def by_request(claims: Iterable[Claim]) -> list[Claim]:
    """The smallest request first, so that a small claim does not take the large volume."""
    return sorted(claims, key=lambda claim: claim.request or 0)


def is_match(claim: Claim, volume: PersistentVolume) -> bool:
    """Whether a free volume of the class may be given to the claim on any node at all."""
    return (
        _fits(claim, volume)
        and (claim.selector is None or claim.selector.matches(volume.labels))
        and set(claim.access_modes) <= set(volume.access_modes)
    )


def _fits(claim: Claim, volume: PersistentVolume) -> bool:
    """What must hold even of a volume that is bound to the claim in advance."""
    return (
        volume.capacity >= (claim.request or 0)
        and volume.mode == claim.mode
        and volume.attributes_class == claim.attributes_class
        and not volume.is_deleting
    )
