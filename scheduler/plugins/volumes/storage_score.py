"""How much storage a pod leaves free where its claims are bound (kube-scheduler: volumebinding,
``scorer.go``, with the default shape of ``StorageCapacityScoring``).

A node scores SCORE_MAX where nothing of the storage is used, and 0 where all of it is.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

from scheduler.framework.plugin import SCORE_MAX
from scheduler.model.volumes.claim import Claim
from scheduler.model.volumes.persistent_volume import PersistentVolume
from scheduler.plugins.volumes.provisioner import Provisioned

#: Requested and existing bytes of one class.
_Use = tuple[int, int]


def score_of_volumes(given: Iterable[tuple[Claim, PersistentVolume]]) -> int:
    """The score of existing volumes: by class, what the claims request of what they get."""
    uses: dict[str, _Use] = {}
    for claim, volume in given:
        requested, capacity = uses.get(volume.class_name, (0, 0))
        more = requested + (claim.request or 0), capacity + volume.capacity
        uses[volume.class_name] = more
    return _score(uses.values())


def score_of_capacities(provisioned: Iterable[Provisioned]) -> int:
    """The score of provisioned volumes: by class, what the claims request of what is left."""
    uses: dict[str, _Use] = {}
    for one in provisioned:
        if one.capacity is not None:
            requested, _ = uses.get(one.found.name, (0, 0))
            # The claims of one class share what is left.
            uses[one.found.name] = requested + (one.claim.request or 0), one.capacity.left
    return _score(uses.values())


def _score(uses: Collection[_Use]) -> int:
    """The mean over the classes, rounded half up; 0 where nothing is known of any class."""
    if not uses:
        return 0
    total = sum(SCORE_MAX - _percent(requested, capacity) for requested, capacity in uses)
    return (2 * total + len(uses)) // (2 * len(uses))


def _percent(requested: int, capacity: int) -> int:
    return 100 if capacity == 0 or requested > capacity else requested * 100 // capacity
