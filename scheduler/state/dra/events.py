"""The events of dynamic resource allocation: its objects, and what was written of claims."""

from __future__ import annotations

import msgspec

from scheduler.model.dra.claim import ResourceClaim
from scheduler.model.dra.objects import DraObject


class DraUpdated(msgspec.Struct, frozen=True):
    """A ResourceSlice, DeviceTaintRule, DeviceClass or ResourceClaim was added or changed."""

    item: DraObject


class DraDeleted(msgspec.Struct, frozen=True):
    """Such an object was deleted."""

    kind: type[DraObject]
    key: str


class DraReplaced(msgspec.Struct, frozen=True):
    """All objects of one such kind that exist."""

    kind: type[DraObject]
    items: tuple[DraObject, ...]


class ClaimsReserved(msgspec.Struct, frozen=True):
    """The result of allocating and reserving the claims of a pod.

    ``claims`` are those that are reserved for the pod now, as the API server answered. ``attempt``
    is the number of the request; ``problem`` is empty where all was written; ``is_unsent`` where we
    stopped leading before that.
    """

    uid: str
    attempt: int
    claims: tuple[ResourceClaim, ...] = ()
    problem: str = ""
    is_unsent: bool = False


class ClaimsReleased(msgspec.Struct, frozen=True):
    """Claims whose reservation for a pod was taken back, as the API server answered."""

    uid: str
    claims: tuple[ResourceClaim, ...] = ()


DraEvent = DraUpdated | DraDeleted | DraReplaced
