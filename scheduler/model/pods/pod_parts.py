"""The parts of a pod that decisions read: owner, group, containers, ports."""

from __future__ import annotations

import enum
from collections.abc import Iterator, Mapping
from typing import Final

import msgspec

from scheduler.model import well_known
from scheduler.model.owners.owner_group import owner_group, owner_problem
from scheduler.model.pods.gang import COSCHEDULING_LABELS, kueue_group

#: Kubernetes' own controllers: their kinds are known only in these API groups.
_HOMES: Final = {
    **dict.fromkeys(("ReplicaSet", "Deployment", "StatefulSet", "DaemonSet"), "apps"),
    **dict.fromkeys(("Job", "CronJob"), "batch"),
}


class Owner(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """The controlling owner reference.

    ``group`` is the API group; empty for a kind of Kubernetes in its own group, which distinguishes
    a ``ReplicaSet`` of another group from that of ``apps``.
    """

    kind: str
    name: str
    uid: str
    group: str = ""

    @property
    def word(self) -> str:
        """The owner's kind: ``ReplicaSet``, or ``RayCluster.ray.io`` in another API group."""
        return f"{self.kind}.{self.group}" if self.group else self.kind


def owner_of(api_version: str, kind: str, name: str, uid: str) -> Owner:
    """An owner as a reference names it; ``api_version`` is ``apps/v1``, or ``v1`` for the core.

    >>> owner_of("apps/v1", "ReplicaSet", "w", "1").word
    'ReplicaSet'
    >>> owner_of("x.example/v1", "ReplicaSet", "w", "1").word
    'ReplicaSet.x.example'
    """
    group = api_version.rpartition("/")[0]
    home = _HOMES.get(kind, "")
    is_home = group == home or not api_version
    return Owner(kind, name, uid, "" if is_home else group or "core")


class Role(enum.Enum):
    """How a container counts towards the pod's effective request."""

    APP = "app"
    SIDECAR = "sidecar"
    INIT = "init"


class ExtendedRequest(msgspec.Struct, frozen=True, gc=False):
    """A container's request for an extended resource, which a device plugin or DRA serves.

    ``position`` is its place among the names of all resources that the container requests.
    """

    resource: str
    count: int
    position: int


class Container(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """One container: its device requests and its CUDA_VISIBLE_DEVICES.

    ``extended`` are its requests for extended resources, GPUs too. ``cuda_literal`` is the literal
    value (None: no entry or no literal), ``cuda_key`` the annotation from which the downward API
    reads the value.
    """

    name: str
    role: Role = Role.APP
    devices: dict[str, int] = {}
    extended: tuple[ExtendedRequest, ...] = ()
    cuda_literal: str | None = None
    cuda_key: str | None = None


class Unread(msgspec.Struct, frozen=True, gc=False):
    """The undecodable parts of a pod, in one line each; empty for nearly every pod.

    ``requests``: its requests on a node are unknown. ``rest``: anything else.
    """

    requests: str = ""
    rest: str = ""

    def __bool__(self) -> bool:
        return bool(self.requests or self.rest)

    @property
    def text(self) -> str:
        """Both, as text for messages."""
        return "; ".join(filter(None, (self.requests, self.rest)))


class HostPort(msgspec.Struct, frozen=True, gc=False):
    """A port on the node; an empty address means every address."""

    address: str
    protocol: str
    port: int


class Condition(msgspec.Struct, frozen=True, gc=False):
    """The PodScheduled condition from the API server.

    ``waits_for`` is its nominated node, if this scheduler writes one.
    """

    status: str = ""
    reason: str = ""
    message: str = ""
    since: str = ""
    waits_for: str = ""


GROUP_LABELS: Final = (well_known.GROUP, *COSCHEDULING_LABELS)
GROUP_ANNOTATIONS: Final = (*well_known.VOLCANO_GROUPS, well_known.KAI_GROUP)
#: A member of a group with an unknown name.
UNNAMED_GROUP: Final = "?"


def group_of(labels: Mapping[str, str], annotations: Mapping[str, str], in_spec: str | None) -> str:
    """The group of a pod; empty without one. With a minimum it is a gang (``model/pods/gang``).

    ``in_spec`` is the group in the pod's spec. The name is unique only within the namespace. A
    member keeps the requested tier unless it has a ladder of its own; then all members have one
    tier (design 5.10).
    """
    if in_spec is not None:
        return in_spec or UNNAMED_GROUP
    if name := next(filter(None, _names(labels, annotations)), ""):
        return name
    if well_known.GROUP_FROM not in annotations:
        return ""
    owned = owner_group(labels, annotations)
    return UNNAMED_GROUP if owner_problem(annotations) else owned.name if owned else ""


def _names(labels: Mapping[str, str], annotations: Mapping[str, str]) -> Iterator[str | None]:
    """The names of groups that labels and annotations have, in the order in which they count."""
    yield from map(labels.get, GROUP_LABELS)
    yield kueue_group(labels, annotations)
    yield from map(annotations.get, GROUP_ANNOTATIONS)
    yield labels.get(well_known.GROVE_GANG)
