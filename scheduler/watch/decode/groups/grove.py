"""The PodGangs of Grove (``scheduler.grove.io/v1alpha1``): the minimum of each PodClique.

Topology constraints and the priority class are not read.
"""

from __future__ import annotations

from typing import Final

import msgspec

from scheduler.model.pods.gang import GangSource, PodGroup
from scheduler.watch.decode.api_types import Meta
from scheduler.watch.decode.groups.group_decoder import GroupDecoder


class _Part(msgspec.Struct, frozen=True, rename="camel"):
    """The pods of one PodClique, which has the same name."""

    name: str = ""
    min_replicas: int = 1


class _Spec(msgspec.Struct, frozen=True):
    """The part of the spec that is read."""

    podgroups: tuple[_Part, ...] = ()


class _Wire(msgspec.Struct, frozen=True):
    """A PodGang as far as it is read."""

    metadata: Meta
    spec: _Spec = _Spec()


_WIRE: Final = msgspec.json.Decoder(_Wire)


def _read(content: bytes) -> PodGroup:
    wire = _WIRE.decode(content)
    meta = wire.metadata
    roles = {one.name: one.min_replicas for one in wire.spec.podgroups if one.min_replicas > 0}
    least = sum(roles.values()) or None
    return PodGroup(meta.namespace, meta.name, least, GangSource.GROVE.value, roles)


POD_GANGS: Final = GroupDecoder(GangSource.GROVE, _read)
