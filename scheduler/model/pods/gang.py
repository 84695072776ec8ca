"""What a pod says about its gang: members that are bound together or not at all.

A gang is a group with a minimum (docs/decisions/0039). The sources are asked in the order of
``GangSource``; the first one that the pod names counts. A group without a minimum is no gang: its
pods are placed one by one.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from typing import Final

import msgspec

from scheduler.model import well_known
from scheduler.model.integer_text import whole
from scheduler.model.limits import GANG_MEMBERS_MAX
from scheduler.model.owners.owner_group import OwnerKind, owner_group, owner_problem


class GangSource(enum.Enum):
    """Where a gang is defined, in the order of precedence; the value is for messages."""

    API = "PodGroup.scheduling.k8s.io"
    OWN = well_known.GROUP
    COSCHEDULING = "PodGroup.scheduling.x-k8s.io"
    KUEUE = well_known.KUEUE_GROUP
    LEADER_WORKER_SET = OwnerKind.LEADER_WORKER_SET.value
    JOB_SET = OwnerKind.JOB_SET.value
    RAY_CLUSTER = OwnerKind.RAY_CLUSTER.value
    MPI_JOB = OwnerKind.MPI_JOB.value
    VOLCANO = "PodGroup.scheduling.volcano.sh"
    KAI = "PodGroup.scheduling.run.ai"
    GROVE = "PodGang.scheduler.grove.io"


#: The sources whose minimum is in the owner's object, which is read when a pod names it.
READ_ON_DEMAND: Final = frozenset(
    one.value for one in (GangSource.JOB_SET, GangSource.RAY_CLUSTER, GangSource.MPI_JOB)
)


class GangKey(msgspec.Struct, frozen=True, cache_hash=True, order=True):
    """A gang within the cluster; ``source`` is the value of its GangSource."""

    namespace: str
    source: str
    name: str

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}"


class GangMark(msgspec.Struct, frozen=True):
    """The gang that a pod names; ``minimum`` is None where an object has it.

    ``role`` is that of the pod, where the object has a minimum for each role.
    """

    key: GangKey
    minimum: int | None
    role: str = ""


class GroupState(msgspec.Struct, frozen=True):
    """The condition PodGroupInitiallyScheduled of a PodGroup of the API server's own."""

    is_scheduled: bool
    reason: str
    message: str = ""
    since: str = ""


class PodGroup(msgspec.Struct, frozen=True):
    """An object that defines a gang, as far as it is read.

    ``source`` is the value of its GangSource. ``roles`` are the minima of those roles that have
    one of their own; ``minimum`` is their sum. Without one the pods are placed one by one.
    ``problem`` is what the group asks for and does not get here: its pods wait. ``priority`` is
    that of all members. ``state`` is its condition; ``uid`` and ``version`` are read to write it.
    """

    namespace: str
    name: str
    minimum: int | None
    source: str = GangSource.COSCHEDULING.value
    roles: dict[str, int] = {}
    priority: int | None = None
    problem: str = ""
    uid: str = ""
    version: str = ""
    state: GroupState | None = None

    @property
    def key(self) -> GangKey:
        """The gang that it defines."""
        return GangKey(self.namespace, self.source, self.name)

    @property
    def is_gang(self) -> bool:
        """Whether its pods are placed together, or wait together."""
        return self.minimum is not None or bool(self.problem)


#: The labels of scheduler-plugins, the present one first.
COSCHEDULING_LABELS: Final = (
    "scheduling.x-k8s.io/pod-group",
    "pod-group.scheduling.sigs.k8s.io",
)


def gang_mark(
    namespace: str,
    labels: Mapping[str, str],
    annotations: Mapping[str, str],
    in_spec: str = "",
) -> GangMark | None:
    """What the pod says about its gang; None if it names none, or a group without a minimum.

    ``in_spec`` is the PodGroup that its spec names.
    """
    if in_spec:
        return _mark(namespace, GangSource.API, in_spec, None)
    name = labels.get(well_known.GROUP)
    if name:
        minimum = whole(annotations.get(well_known.GROUP_MIN, ""), GANG_MEMBERS_MAX)
        return _mark(namespace, GangSource.OWN, name, minimum) if minimum else None
    for label in COSCHEDULING_LABELS:
        name = labels.get(label)
        if name:
            return _mark(namespace, GangSource.COSCHEDULING, name, None)
    name = kueue_group(labels, annotations)
    if name:
        minimum = whole(annotations.get(well_known.KUEUE_TOTAL, ""), GANG_MEMBERS_MAX)
        return _mark(namespace, GangSource.KUEUE, name, minimum) if minimum else None
    owned = owner_group(labels, annotations)
    if owned is None:
        return _of_others(namespace, labels, annotations)
    source = GangSource(owned.kind.value)
    return GangMark(GangKey(namespace, source.value, owned.name), owned.minimum, owned.role)


def kueue_group(labels: Mapping[str, str], annotations: Mapping[str, str]) -> str:
    """The pod group of Kueue in which all pods start together; else empty.

    Kueue admits the other groups before all of their pods exist: those that it makes of the pods of
    a StatefulSet or LeaderWorkerSet, and those with fast admission. The controller may create their
    next pod after the former one runs.
    """
    if well_known.KUEUE_PARENT in annotations or annotations.get(well_known.KUEUE_FAST) == "true":
        return ""
    name = annotations.get(well_known.KUEUE_GROUP) or labels.get(well_known.KUEUE_GROUP)
    return name or ""


def gang_problem(labels: Mapping[str, str], annotations: Mapping[str, str]) -> str:
    """What is wrong with what the pod's author wrote about its gang; else empty."""
    if problem := owner_problem(annotations):
        return problem
    text = annotations.get(well_known.GROUP_MIN) if labels.get(well_known.GROUP) else None
    if text is None or whole(text, GANG_MEMBERS_MAX):
        return ""
    return f"{well_known.GROUP_MIN}: {text[:20]!r} is no whole number from 1 to {GANG_MEMBERS_MAX}"


def _of_others(
    namespace: str, labels: Mapping[str, str], annotations: Mapping[str, str]
) -> GangMark | None:
    """The groups of other schedulers; they are gangs where the configuration has their source."""
    for key in well_known.VOLCANO_GROUPS:
        if name := annotations.get(key):
            role = annotations.get(well_known.VOLCANO_TASK, "")
            return _mark(namespace, GangSource.VOLCANO, name, None, role)
    if name := annotations.get(well_known.KAI_GROUP):
        role = labels.get(well_known.KAI_PART, "")
        return _mark(namespace, GangSource.KAI, name, None, role)
    if name := labels.get(well_known.GROVE_GANG):
        role = labels.get(well_known.GROVE_CLIQUE, "")
        return _mark(namespace, GangSource.GROVE, name, None, role)
    return None


def _mark(
    namespace: str, source: GangSource, name: str, minimum: int | None, role: str = ""
) -> GangMark:
    return GangMark(GangKey(namespace, source.value, name), minimum, role)
