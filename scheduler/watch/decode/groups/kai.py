"""The PodGroups of KAI Scheduler (``scheduling.run.ai/v2alpha2``): the minimum of each subgroup.

The leaves of the tree of subgroups are the roles. A group that may start with some of its subgroups
only cannot be expressed here: its pods wait, and say so.
"""

from __future__ import annotations

from collections import Counter
from typing import Final

import msgspec

from scheduler.model.pods.gang import GangSource, PodGroup
from scheduler.watch.decode.api_types import Meta
from scheduler.watch.decode.groups.group_decoder import GroupDecoder


class _SubGroup(msgspec.Struct, frozen=True, rename="camel"):
    """A node of the tree; one without a parent is below the PodGroup itself."""

    name: str = ""
    min_member: int | None = None
    min_sub_group: int | None = None
    parent: str | None = None


class _Spec(msgspec.Struct, frozen=True, rename="camel"):
    """The part of the spec that is read."""

    min_member: int | None = None
    min_sub_group: int | None = None
    sub_groups: tuple[_SubGroup, ...] | None = None


class _Wire(msgspec.Struct, frozen=True):
    """A PodGroup as far as it is read."""

    metadata: Meta
    spec: _Spec = _Spec()


_WIRE: Final = msgspec.json.Decoder(_Wire)


def _read(content: bytes) -> PodGroup:
    wire = _WIRE.decode(content)
    meta, spec, roles = wire.metadata, wire.spec, _roles(wire.spec)
    least = sum(roles.values()) if spec.sub_groups else _least(spec.min_member)
    return PodGroup(
        namespace=meta.namespace,
        name=meta.name,
        minimum=least or None,
        source=GangSource.KAI.value,
        roles=roles,
        problem="spec.minSubGroup" if _is_partial(spec) else "",
    )


def _roles(spec: _Spec) -> dict[str, int]:
    """The minima of the subgroups that have pods; 0 is no minimum."""
    every = spec.sub_groups or ()
    parents = {one.parent for one in every}
    found = {one.name: _least(one.min_member) for one in every if one.name not in parents}
    return {name: least for name, least in found.items() if least}


def _least(minimum: int | None) -> int:
    return 1 if minimum is None else max(0, minimum)


def _is_partial(spec: _Spec) -> bool:
    """Whether fewer subgroups suffice than there are."""
    every = spec.sub_groups or ()
    children = Counter(one.parent or "" for one in every)
    wanted = {"": spec.min_sub_group} | {one.name: one.min_sub_group for one in every}
    return any(least is not None and least < children[name] for name, least in wanted.items())


POD_GROUPS: Final = GroupDecoder(GangSource.KAI, _read)
