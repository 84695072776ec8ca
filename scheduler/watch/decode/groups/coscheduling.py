"""The PodGroups of scheduler-plugins: their minimum."""

from __future__ import annotations

from typing import Final

import msgspec

from scheduler.model.pods.gang import GangSource, PodGroup
from scheduler.watch.decode.api_types import Meta
from scheduler.watch.decode.groups.group_decoder import GroupDecoder


class _Spec(msgspec.Struct, frozen=True, rename="camel"):
    """The queue, the timeout and ``minResources`` are the business of scheduler-plugins."""

    min_member: int = 1


class _Wire(msgspec.Struct, frozen=True):
    """A PodGroup as far as it is read."""

    metadata: Meta
    spec: _Spec = _Spec()


_WIRE: Final = msgspec.json.Decoder(_Wire)


def _read(content: bytes) -> PodGroup:
    wire = _WIRE.decode(content)
    minimum = max(1, wire.spec.min_member)
    return PodGroup(wire.metadata.namespace, wire.metadata.name, minimum)


POD_GROUPS: Final = GroupDecoder(GangSource.COSCHEDULING, _read)
