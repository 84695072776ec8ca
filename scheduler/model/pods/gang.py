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


class GangSource(enum.Enum):
    """Where a gang is defined, in the order of precedence; the value is for messages."""

    OWN = well_known.GROUP
    COSCHEDULING = "PodGroup.scheduling.x-k8s.io"
    KUEUE = well_known.KUEUE_GROUP


class GangKey(msgspec.Struct, frozen=True, cache_hash=True, order=True):
    """A gang within the cluster; ``source`` is the value of its GangSource."""

    namespace: str
    source: str
    name: str

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}"


class GangMark(msgspec.Struct, frozen=True):
    """The gang that a pod names; ``minimum`` is None where an object has it."""

    key: GangKey
    minimum: int | None


class PodGroup(msgspec.Struct, frozen=True):
    """A PodGroup of scheduler-plugins as far as it is read."""

    namespace: str
    name: str
    minimum: int

    @property
    def key(self) -> GangKey:
        """The gang that it defines."""
        return GangKey(self.namespace, GangSource.COSCHEDULING.value, self.name)


#: The labels of scheduler-plugins, the present one first.
COSCHEDULING_LABELS: Final = (
    "scheduling.x-k8s.io/pod-group",
    "pod-group.scheduling.sigs.k8s.io",
)


def gang_mark(
    namespace: str, labels: Mapping[str, str], annotations: Mapping[str, str]
) -> GangMark | None:
    """What the pod says about its gang; None if it names none, or a group without a minimum."""
    name = labels.get(well_known.GROUP)
    if name:
        minimum = whole(annotations.get(well_known.GROUP_MIN, ""), GANG_MEMBERS_MAX)
        return _mark(namespace, GangSource.OWN, name, minimum) if minimum else None
    for label in COSCHEDULING_LABELS:
        name = labels.get(label)
        if name:
            return _mark(namespace, GangSource.COSCHEDULING, name, None)
    name = labels.get(well_known.KUEUE_GROUP)
    if name:
        minimum = whole(annotations.get(well_known.KUEUE_TOTAL, ""), GANG_MEMBERS_MAX)
        return _mark(namespace, GangSource.KUEUE, name, minimum) if minimum else None
    return None


def gang_problem(labels: Mapping[str, str], annotations: Mapping[str, str]) -> str:
    """What is wrong with the minimum that the pod's author wrote; else empty."""
    text = annotations.get(well_known.GROUP_MIN) if labels.get(well_known.GROUP) else None
    if text is None or whole(text, GANG_MEMBERS_MAX):
        return ""
    return f"{well_known.GROUP_MIN}: {text[:20]!r} is no whole number from 1 to {GANG_MEMBERS_MAX}"


def _mark(namespace: str, source: GangSource, name: str, minimum: int | None) -> GangMark:
    return GangMark(GangKey(namespace, source.value, name), minimum)
