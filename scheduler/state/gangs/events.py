"""Events of PodGroups, and the change of a gang that members wait for."""

from __future__ import annotations

import msgspec

from scheduler.model.pods.gang import GangKey, GangSource, PodGroup


class PodGroupUpdated(msgspec.Struct, frozen=True):
    """A PodGroup was added or changed."""

    group: PodGroup


class PodGroupDeleted(msgspec.Struct, frozen=True):
    """A PodGroup was deleted, or cannot be decoded any more."""

    namespace: str
    name: str
    source: str = GangSource.COSCHEDULING.value


class PodGroupsReplaced(msgspec.Struct, frozen=True):
    """All PodGroups of a source; ``is_served`` is false where the cluster lacks the kind."""

    groups: tuple[PodGroup, ...]
    is_served: bool = True
    source: str = GangSource.COSCHEDULING.value


PodGroupEvent = PodGroupUpdated | PodGroupDeleted | PodGroupsReplaced


class GangChanged(msgspec.Struct, frozen=True):
    """The minimum of a gang changed, or another scheduler placed a member."""

    key: GangKey
