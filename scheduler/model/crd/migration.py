"""One migration of a pod to another MIG tier, or to the first choice of its ResourceClaims, as its
PodMigration object holds it.

A migration evicts a pod so that the admission of its replacement gets another tier (design 5.16)::

    Restore   a degraded pod, when the tier that it requested is free
    Rescue    a pod that stays pending, when another tier of its ladder is free

Of a claim the first subrequest of ``firstAvailable`` is the requested tier. Every decision tries
the others too, so a claim needs no rescue.

The object ``podmigrations.gpu-scheduler.io`` holds everything that must survive a crash. It has no
pod template, so the replacement is created from the owner's current template.
"""

from __future__ import annotations

import enum
import re
from collections.abc import Mapping
from typing import Final

import msgspec

from scheduler.model import well_known
from scheduler.model.crd.migration_result import MigrationEnd
from scheduler.model.dra.allocation import Allocation, DeviceResult
from scheduler.model.dra.claim_plan import ClaimPlan, PlannedClaim
from scheduler.model.dra.device import DeviceId
from scheduler.model.pods.pod import Owner, Pod

#: At most ``limits.ATTEMPT_MAX`` and ``limits.TICKET_LENGTH_MAX``.
_NAME: Final = re.compile(r"(?:restore|rescue)-([1-9][0-9]{0,5})-[0-9a-z]{1,40}")


class MigrationKind(enum.Enum):
    """The type of a migration."""

    RESTORE = "Restore"
    RESCUE = "Rescue"


class WorkloadMatch(msgspec.Struct, frozen=True, cache_hash=True):
    """Pods with equal values are interchangeable: a migration for one may be used by any of
    them.
    """

    namespace: str
    owner_uid: str
    revision: str
    index: int | None


class Migration(msgspec.Struct, frozen=True, kw_only=True):
    """One migration. Times are seconds since 1970.

    ``owner`` controls the pod, and ``event_target`` is the object that gets the event about the
    result (the Deployment above a ReplicaSet); ``workload`` is ``Pod.workload``. ``source`` and
    ``target`` are resources with counts, before and after, and subrequests of claims
    (``claim/request/subrequest``, with 1); ``requests`` are all requests of the replacement on
    ``node_name``, and ``devices`` those of its claims. ``attempt`` counts the attempts of this
    workload including the failed ones before. A migration with an ``end`` is finished: the object
    is kept, so that a restart knows it.
    """

    id: str
    move: MigrationKind
    namespace: str
    owner: Owner
    event_target: Owner
    workload: str
    revision: str
    index: int | None = None
    pod_name: str
    pod_uid: str
    source: dict[str, int]
    target: dict[str, int]
    node_name: str
    requests: dict[str, int]
    devices: tuple[DeviceId, ...] = ()
    priority: int = 0
    attempt: int = 1
    replicas: int = 1
    made_at: float = 0.0
    deadline: float = 0.0
    uid: str = ""
    end: MigrationEnd | None = None

    @property
    def match(self) -> WorkloadMatch:
        """The match of its replacement."""
        return WorkloadMatch(self.namespace, self.owner.uid, self.revision, self.index)

    @property
    def change(self) -> str:
        """``1g.10gb->2g.20gb``, for messages."""
        return f"{profiles(self.source)}->{profiles(self.target)}"


def match_of(pod: Pod) -> WorkloadMatch | None:
    """The match of this pod; None without a controller."""
    if pod.owner is None:
        return None
    index = pod.index()
    known = index if isinstance(index, int) else None
    return WorkloadMatch(pod.namespace, pod.owner.uid, pod.revision, known)


def holder(migration: Migration) -> Pod:
    """A pod that holds the capacity of the replacement until it is created."""
    return Pod(
        uid=migration.id,
        name=migration.id,
        namespace=migration.namespace,
        owner=migration.owner,
        nominated_node=migration.node_name,
        priority=migration.priority,
        requests=dict(migration.requests),
    )


def held_devices(migration: Migration) -> ClaimPlan | None:
    """The devices that are held for the claims of the replacement; None where it has none."""
    if not migration.devices:
        return None
    results = tuple(
        DeviceResult(request="", driver=one.driver, pool=one.pool, device=one.device)
        for one in migration.devices
    )
    held = PlannedClaim(key=migration.id, uid="", allocation=Allocation(results=results))
    return ClaimPlan(migration.node_name, (held,))


def is_for(held: Pod, pod: Pod) -> bool:
    """Whether this holder is for the pod. The annotation alone is not sufficient."""
    return (
        pod.annotations.get(well_known.MIGRATION) == held.uid
        and pod.namespace == held.namespace
        and pod.owner is not None
        and pod.owner == held.owner
    )


def awaited_node(held: Mapping[str, Pod], pod: Pod) -> str:
    """The node on which one of these holders holds capacity for the pod; empty if none does."""
    found = held.get(pod.annotations.get(well_known.MIGRATION, ""))
    return found.nominated_node if found is not None and is_for(found, pod) else ""


def is_subrequest(name: str) -> bool:
    """Whether a name in ``Migration.target`` is ``claim/request/subrequest``, not a resource.

    >>> is_subrequest("accel/gpu/large"), is_subrequest("nvidia.com/mig-2g.20gb")
    (True, False)
    """
    return name.count("/") == 2


def profiles(devices: Mapping[str, int]) -> str:
    """``2g.20gb``, ``2 x 1g.10gb`` or several of them, in a fixed order.

    >>> profiles({"nvidia.com/mig-2g.20gb": 1}), profiles({"nvidia.com/mig-1g.10gb": 2})
    ('2g.20gb', '2 x 1g.10gb')
    """
    return " and ".join(
        well_known.mig_profile(resource)
        if count == 1
        else f"{count} x {well_known.mig_profile(resource)}"
        for resource, count in sorted(devices.items())
    )


def name_of(move: MigrationKind, attempt: int, digest: str) -> str:
    """The name of the migration object. It is also an annotation of the pod, so it contains the
    number of the attempt.
    """
    return f"{move.value.lower()}-{attempt}-{digest}"


def attempt_of(name: str) -> int:
    """The attempt in a migration's name; 1 for any other text.

    >>> attempt_of("restore-3-5f2a"), attempt_of("x")
    (3, 1)
    """
    found = _NAME.fullmatch(name)
    return int(found[1]) if found else 1


def is_name(text: str) -> bool:
    """Whether a text has the form of a migration's name; the annotation of a pod is untrusted.

    >>> is_name("rescue-1-0a3f"), is_name("rescue-1")
    (True, False)
    """
    return _NAME.fullmatch(text) is not None
