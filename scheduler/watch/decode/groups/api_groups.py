"""The PodGroups of the API server (``scheduling.k8s.io``): minimum, priority and condition.

v1beta1 and v1alpha3 have the same fields here. Topology and disruption mode are not read, and
neither is the composite group above a PodGroup: each PodGroup starts for itself.
"""

from __future__ import annotations

from typing import Final

import msgspec

from scheduler.model import well_known
from scheduler.model.pods.gang import GangSource, GroupState, PodGroup
from scheduler.watch.decode.api_types import ConditionWire, Meta
from scheduler.watch.decode.groups.group_decoder import GroupDecoder


class _Gang(msgspec.Struct, frozen=True, rename="camel"):
    """The policy of a gang."""

    min_count: int = 1


class _Policy(msgspec.Struct, frozen=True):
    """Exactly one policy is set; ``basic`` has no fields."""

    gang: _Gang | None = None


class _Claim(msgspec.Struct, frozen=True):
    """A ResourceClaim that the pods of the group share."""

    name: str = ""


class _Spec(msgspec.Struct, frozen=True, rename="camel"):
    """The part of the spec that is read."""

    scheduling_policy: _Policy = _Policy()
    resource_claims: tuple[_Claim, ...] | None = None
    priority: int | None = None


class _Status(msgspec.Struct, frozen=True):
    """The conditions."""

    conditions: tuple[ConditionWire, ...] | None = None


class _VersionedMeta(Meta, frozen=True, rename="camel", kw_only=True):
    """Meta with the version that a write of the condition requires."""

    resource_version: str = ""


class _Wire(msgspec.Struct, frozen=True):
    """A PodGroup as far as it is read."""

    metadata: _VersionedMeta
    spec: _Spec
    status: _Status = _Status()


_WIRE: Final = msgspec.json.Decoder(_Wire)


def _read(content: bytes) -> PodGroup:
    wire = _WIRE.decode(content)
    meta, gang = wire.metadata, wire.spec.scheduling_policy.gang
    return PodGroup(
        namespace=meta.namespace,
        name=meta.name,
        minimum=None if gang is None else max(1, gang.min_count),
        source=GangSource.API.value,
        priority=wire.spec.priority,
        problem="spec.resourceClaims" if wire.spec.resource_claims else "",
        uid=meta.uid,
        version=meta.resource_version,
        state=_state(wire.status.conditions or ()),
    )


def _state(conditions: tuple[ConditionWire, ...]) -> GroupState | None:
    for one in conditions:
        if one.type == well_known.GROUP_SCHEDULED:
            since = one.last_transition_time or ""
            return GroupState(one.status == "True", one.reason, one.message, since)
    return None


POD_GROUPS: Final = GroupDecoder(GangSource.API, _read)
