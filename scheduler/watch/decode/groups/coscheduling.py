"""The bytes of PodGroups of scheduler-plugins -> the minimum of a gang.

One that cannot be read counts as one that does not exist: its pods wait and say so.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import msgspec

from scheduler.model.json_bounds import UNREADABLE
from scheduler.model.limits import GANG_MEMBERS_MAX
from scheduler.model.pods.gang import PodGroup
from scheduler.state import event as ev
from scheduler.watch.decode.api_types import Meta
from scheduler.watch.decode.unreadable import identity


class _Spec(msgspec.Struct, frozen=True, rename="camel"):
    """The queue, the timeout and ``minResources`` are the business of scheduler-plugins."""

    min_member: int = 1


class PodGroupWire(msgspec.Struct, frozen=True):
    """A PodGroup as far as it is read."""

    metadata: Meta
    spec: _Spec = _Spec()


POD_GROUP = msgspec.json.Decoder(PodGroupWire)


def pod_group_event(content: bytes, is_gone: bool) -> ev.Event:
    """A line of the watch."""
    group = None if is_gone else _read(content)
    if group is None:
        namespace, name, _ = identity(content)
        return ev.PodGroupDeleted(namespace, name)
    return ev.PodGroupUpdated(group)


def pod_groups_listed(items: Iterable[msgspec.Raw]) -> ev.Event:
    """The whole list."""
    return ev.PodGroupsReplaced(tuple(_readable(items)))


def no_pod_groups() -> ev.Event:
    """The cluster lacks the kind."""
    return ev.PodGroupsReplaced((), is_served=False)


def _readable(items: Iterable[msgspec.Raw]) -> Iterator[PodGroup]:
    for item in items:
        if (group := _read(bytes(item))) is not None:
            yield group


def _read(content: bytes) -> PodGroup | None:
    try:
        wire = POD_GROUP.decode(content)
    except UNREADABLE:
        return None
    minimum = max(1, wire.spec.min_member)
    if minimum > GANG_MEMBERS_MAX:
        return None
    return PodGroup(wire.metadata.namespace, wire.metadata.name, minimum)
