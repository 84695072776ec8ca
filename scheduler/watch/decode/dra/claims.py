"""ResourceClaims as they arrive, as far as they are read.

What an unreadable claim was allocated is read separately: its devices are in use, whatever else of
it cannot be read.
"""

from __future__ import annotations

from typing import Annotated, Final

import msgspec
from msgspec import Meta as Bound

from scheduler.model import well_known
from scheduler.model.dra.claim import (
    EXACT_COUNT,
    ClaimConfig,
    ClaimConsumer,
    Constraint,
    DeviceRequest,
    DeviceStatus,
    ExactRequest,
    ResourceClaim,
)
from scheduler.model.dra.device import DeviceId
from scheduler.model.json_bounds import shallow
from scheduler.model.limits import CLAIM_CONSUMERS_MAX
from scheduler.watch.decode.api_types import Amounts, ConditionWire
from scheduler.watch.decode.dra.allocations import (
    AllocationWire,
    ClaimConfigWire,
    Texts,
    Tolerations,
    allocation,
    amounts,
    bare_allocation,
    read,
    tolerations,
)
from scheduler.watch.decode.dra.classes import FEW, Selectors, expressions, opaque
from scheduler.watch.decode.object_decoder import DRA, ObjectDecoder, VersionedMeta

_MANY: Final = Bound(max_length=CLAIM_CONSUMERS_MAX)


class _CapacityRequests(msgspec.Struct, frozen=True):
    requests: Annotated[Amounts, FEW] | None = None


class _Exact(msgspec.Struct, frozen=True, rename="camel", kw_only=True):
    """``exactly``, or a subrequest, which has a name."""

    name: str = ""
    device_class_name: str = ""
    selectors: Selectors | None = None
    allocation_mode: str = ""
    count: int = 0
    admin_access: bool | None = None
    tolerations: Tolerations | None = None
    capacity: _CapacityRequests | None = None
    derived_attributes: tuple[msgspec.Raw, ...] | None = None


class _Request(msgspec.Struct, frozen=True, rename="camel"):
    name: str
    exactly: _Exact | None = None
    first_available: Annotated[tuple[_Exact, ...], FEW] | None = None


class _Constraint(msgspec.Struct, frozen=True, rename="camel"):
    requests: Texts | None = None
    match_attribute: str | None = None
    distinct_attribute: str | None = None


class _DeviceClaim(msgspec.Struct, frozen=True):
    requests: Annotated[tuple[_Request, ...], FEW] | None = None
    constraints: Annotated[tuple[_Constraint, ...], FEW] | None = None
    config: Annotated[tuple[ClaimConfigWire, ...], FEW] | None = None


class _ClaimSpec(msgspec.Struct, frozen=True):
    devices: _DeviceClaim = _DeviceClaim()


class _Consumer(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    uid: str = ""
    name: str = ""
    resource: str = ""
    api_group: str = ""


class _DeviceStatus(msgspec.Struct, frozen=True, rename="camel"):
    driver: str = ""
    pool: str = ""
    device: str = ""
    share_id: str | None = msgspec.field(default=None, name="shareID")
    conditions: Annotated[tuple[ConditionWire, ...], FEW] | None = None


class _Status(msgspec.Struct, frozen=True, rename="camel"):
    allocation: AllocationWire | None = None
    reserved_for: Annotated[tuple[_Consumer, ...], _MANY] | None = None
    devices: Annotated[tuple[_DeviceStatus, ...], _MANY] | None = None


class _Meta(VersionedMeta, frozen=True, rename="camel", kw_only=True):
    finalizers: Texts | None = None


class ClaimWire(msgspec.Struct, frozen=True):
    """A ResourceClaim."""

    metadata: _Meta
    spec: _ClaimSpec = _ClaimSpec()
    status: _Status = _Status()


def to_claim(wire: ClaimWire) -> ResourceClaim:
    """A ResourceClaim of the model."""
    meta, devices, status = wire.metadata, wire.spec.devices, wire.status
    owners = (
        one.uid
        for one in meta.owner_references or ()
        if one.controller and (one.api_version, one.kind) == ("v1", "Pod")
    )
    return ResourceClaim(
        namespace=meta.namespace,
        name=meta.name,
        uid=meta.uid,
        version=meta.resource_version,
        owner_uid=next(owners, ""),
        is_extended=(meta.annotations or {}).get(well_known.EXTENDED_CLAIM) == "true",
        is_deleting=meta.deletion_timestamp is not None,
        finalizers=meta.finalizers or (),
        requests=tuple(map(_request, devices.requests or ())),
        constraints=tuple(
            Constraint(one.requests or (), one.match_attribute or "", one.distinct_attribute or "")
            for one in devices.constraints or ()
        ),
        config=tuple(
            ClaimConfig(found, one.requests or ())
            for one in devices.config or ()
            if (found := opaque(one)) is not None
        ),
        allocation=None if status.allocation is None else allocation(status.allocation),
        reserved_for=tuple(
            ClaimConsumer(one.uid, one.name, one.resource, one.api_group)
            for one in status.reserved_for or ()
        ),
        devices=tuple(map(_device_status, status.devices or ())),
    )


def _request(wire: _Request) -> DeviceRequest:
    return DeviceRequest(
        name=wire.name,
        exactly=None if wire.exactly is None else _exact(wire.exactly, wire.name),
        first_available=tuple(_exact(one, one.name) for one in wire.first_available or ()),
    )


def _exact(wire: _Exact, name: str) -> ExactRequest:
    """With the API server's defaults: one device."""
    asked = wire.capacity.requests if wire.capacity is not None else None
    return ExactRequest(
        name=name,
        class_name=wire.device_class_name,
        selectors=expressions(wire.selectors),
        mode=wire.allocation_mode or EXACT_COUNT,
        count=wire.count or 1,
        admin_access=bool(wire.admin_access),
        tolerations=tolerations(wire.tolerations),
        capacity=amounts(asked),
        is_derived=bool(wire.derived_attributes),
    )


def _device_status(wire: _DeviceStatus) -> DeviceStatus:
    return DeviceStatus(
        device=DeviceId(wire.driver, wire.pool, wire.device),
        share_id=wire.share_id or "",
        conditions={one.type: one.status for one in wire.conditions or ()},
    )


class _Parts(msgspec.Struct, frozen=True):
    metadata: msgspec.Raw
    status: msgspec.Raw = msgspec.Raw(b"{}")


class _StatusParts(msgspec.Struct, frozen=True, rename="camel"):
    allocation: msgspec.Raw = msgspec.Raw(b"null")
    reserved_for: msgspec.Raw = msgspec.Raw(b"null")


def bare_claim(namespace: str, name: str, content: bytes, problem: str) -> ResourceClaim:
    """A claim that cannot be read, with the devices that it was allocated."""
    # Its configuration may be nested deeper than a decoder can descend.
    parts = read(shallow(content), _Parts) or _Parts(msgspec.Raw(b"{}"))
    meta = read(parts.metadata, _Meta) or _Meta()
    status = read(parts.status, _StatusParts) or _StatusParts()
    consumers = read(status.reserved_for, tuple[_Consumer, ...]) or ()
    return ResourceClaim(
        namespace=namespace,
        name=name,
        uid=meta.uid,
        version=meta.resource_version,
        allocation=bare_allocation(status.allocation),
        reserved_for=tuple(
            ClaimConsumer(one.uid, one.name, one.resource, one.api_group)
            for one in consumers[:CLAIM_CONSUMERS_MAX]
        ),
        unread=problem,
    )


CLAIMS: Final = ObjectDecoder(DRA, ResourceClaim, ClaimWire, to_claim, bare_claim)


def read_claim(content: bytes) -> ResourceClaim:
    """A claim from an answer of the API server, as a watch would show it."""
    found = CLAIMS.read(content)
    assert found is not None, "an unreadable claim is kept too"
    return found
