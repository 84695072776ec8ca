"""What a ResourceClaim was allocated, as it arrives."""

from __future__ import annotations

from typing import Annotated, TypeVar

import msgspec

from scheduler.model import quantity
from scheduler.model.dra.allocation import AllocatedConfig, Allocation, DeviceResult
from scheduler.model.dra.device import DeviceToleration
from scheduler.model.json_bounds import UNREADABLE
from scheduler.model.pods.pod_fields import NodeSelector
from scheduler.watch.decode.api_types import Amounts
from scheduler.watch.decode.dra.classes import FEW, ConfigWire, opaque

T = TypeVar("T")
Texts = Annotated[tuple[str, ...], FEW]


class _Toleration(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    key: str = ""
    operator: str = ""
    value: str = ""
    effect: str = ""
    toleration_seconds: int | None = None


Tolerations = Annotated[tuple[_Toleration, ...], FEW]


class ClaimConfigWire(ConfigWire, frozen=True):
    """Configuration of the devices of the named requests."""

    requests: Texts | None = None


class _Result(msgspec.Struct, frozen=True, rename="camel", kw_only=True):
    request: str = ""
    driver: str
    pool: str
    device: str
    admin_access: bool | None = None
    tolerations: Tolerations | None = None
    binding_conditions: Texts | None = None
    binding_failure_conditions: Texts | None = None
    share_id: str | None = msgspec.field(default=None, name="shareID")
    consumed_capacity: Annotated[Amounts, FEW] | None = None
    skip_node_operations: Texts | None = None


class _AllocatedConfig(ClaimConfigWire, frozen=True):
    source: str = ""


class _Allocated(msgspec.Struct, frozen=True):
    results: Annotated[tuple[_Result, ...], FEW] | None = None
    config: Annotated[tuple[_AllocatedConfig, ...], FEW] | None = None


class AllocationWire(msgspec.Struct, frozen=True, rename="camel"):
    """``status.allocation``."""

    devices: _Allocated = _Allocated()
    node_selector: NodeSelector | None = None
    allocation_timestamp: str | None = None


def allocation(wire: AllocationWire) -> Allocation:
    """An Allocation of the model."""
    selector = wire.node_selector
    return Allocation(
        results=tuple(map(_result, wire.devices.results or ())),
        config=tuple(
            AllocatedConfig(one.source, found, one.requests or ())
            for one in wire.devices.config or ()
            if (found := opaque(one)) is not None
        ),
        terms=None if selector is None else selector.node_selector_terms,
        timestamp=wire.allocation_timestamp or "",
    )


def _result(wire: _Result) -> DeviceResult:
    return DeviceResult(
        request=wire.request,
        driver=wire.driver,
        pool=wire.pool,
        device=wire.device,
        admin_access=bool(wire.admin_access),
        tolerations=tolerations(wire.tolerations),
        binding_conditions=wire.binding_conditions or (),
        binding_failure_conditions=wire.binding_failure_conditions or (),
        is_shared=bool(wire.share_id or wire.consumed_capacity),
        share_id=wire.share_id or "",
        consumed=amounts(wire.consumed_capacity),
        skip_node_operations=wire.skip_node_operations or (),
    )


def tolerations(wire: Tolerations | None) -> tuple[DeviceToleration, ...]:
    """The tolerations of a request or of a result."""
    return tuple(
        DeviceToleration(one.key, one.operator, one.value, one.effect, one.toleration_seconds)
        for one in wire or ()
    )


def amounts(wire: Amounts | None) -> dict[str, int]:
    """Amounts of capacities, in nano units."""
    return {name: quantity.nano_value(one) for name, one in (wire or {}).items()}


class _RawDevices(msgspec.Struct, frozen=True):
    results: tuple[msgspec.Raw, ...] | None = None


class _RawAllocation(msgspec.Struct, frozen=True):
    devices: _RawDevices = _RawDevices()


class _BareResult(msgspec.Struct, frozen=True):
    driver: str
    pool: str
    device: str


def bare_allocation(content: msgspec.Raw) -> Allocation | None:
    """What can be read of an allocation in a claim that cannot be read as a whole."""
    found = read(content, AllocationWire)
    if found is not None:
        try:
            return allocation(found)
        except UNREADABLE:
            pass
    raw = read(content, _RawAllocation)  # None where there is no allocation
    return None if raw is None else Allocation(results=_bare_results(raw.devices.results or ()))


def _bare_results(results: tuple[msgspec.Raw, ...]) -> tuple[DeviceResult, ...]:
    """Whole devices: what a share of one takes cannot be read either."""
    found = (read(one, _BareResult) for one in results)
    return tuple(
        DeviceResult(request="", driver=one.driver, pool=one.pool, device=one.device)
        for one in found
        if one is not None
    )


def read(content: bytes | msgspec.Raw, kind: type[T]) -> T | None:
    """A part of an object; None where it cannot be read."""
    try:
        return msgspec.json.decode(content, type=kind)
    except UNREADABLE:
        return None
