"""ResourceSlices and DeviceTaintRules as they arrive, as far as they are read."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, Final

import msgspec
from msgspec import Meta as Bound

from scheduler.model import quantity
from scheduler.model.dra.device import (
    NO_NODE,
    AttributeValue,
    Capacity,
    CounterUse,
    Device,
    DeviceTaint,
    NodeChoice,
    RequestPolicy,
    ValidRange,
    Version,
)
from scheduler.model.dra.resource_slice import CounterSet, DeviceTaintRule, ResourceSlice
from scheduler.model.json_bounds import UNREADABLE, shallow
from scheduler.model.limits import DEVICE_ITEMS_MAX, SLICE_COUNTER_SETS_MAX, SLICE_DEVICES_MAX
from scheduler.model.pods.pod_fields import NodeSelector
from scheduler.watch.decode.api_types import Amount, Meta
from scheduler.watch.decode.object_decoder import DRA, ObjectDecoder

_FEW: Final = Bound(max_length=DEVICE_ITEMS_MAX)
_Texts = Annotated[tuple[str, ...], _FEW]


class _Attribute(msgspec.Struct, frozen=True, gc=False):
    """One of the fields is set."""

    int_value: int | None = msgspec.field(default=None, name="int")
    bool_value: bool | None = msgspec.field(default=None, name="bool")
    text: str | None = msgspec.field(default=None, name="string")
    version: str | None = None
    ints: Annotated[tuple[int, ...], _FEW] | None = None
    bools: Annotated[tuple[bool, ...], _FEW] | None = None
    texts: _Texts | None = msgspec.field(default=None, name="strings")
    versions: _Texts | None = None


class _ValidRange(msgspec.Struct, frozen=True, gc=False):
    min: Amount | None = None
    max: Amount | None = None
    step: Amount | None = None


class _Policy(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    default: Amount | None = None
    valid_values: Annotated[tuple[Amount, ...], _FEW] | None = None
    valid_range: _ValidRange | None = None


class _Capacity(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    value: Amount = "0"
    request_policy: _Policy | None = None


class _Counter(msgspec.Struct, frozen=True, gc=False):
    value: Amount = "0"


_Counters = Annotated[dict[str, _Counter], _FEW]


class _CounterUse(msgspec.Struct, frozen=True, rename="camel"):
    counter_set: str = ""
    counters: _Counters | None = None
    compatibility_groups: _Texts | None = None


class _Nodes(msgspec.Struct, frozen=True, rename="camel", kw_only=True):
    """Where the devices can be used; one of the fields is set."""

    node_name: str | None = None
    node_selector: NodeSelector | None = None
    all_nodes: bool | None = None


class _Device(_Nodes, frozen=True, rename="camel", kw_only=True):
    name: str
    attributes: Annotated[dict[str, _Attribute], _FEW] | None = None
    capacity: Annotated[dict[str, _Capacity], _FEW] | None = None
    consumes_counters: Annotated[tuple[_CounterUse, ...], _FEW] | None = None
    taints: Annotated[tuple[DeviceTaint, ...], _FEW] | None = None
    binds_to_node: bool | None = None
    binding_conditions: _Texts | None = None
    binding_failure_conditions: _Texts | None = None
    allow_multiple_allocations: bool | None = None


class _Pool(msgspec.Struct, frozen=True, rename="camel"):
    name: str
    generation: int = 0
    resource_slice_count: int = 0


class _CounterSet(msgspec.Struct, frozen=True):
    name: str
    counters: _Counters | None = None


class _SliceSpec(_Nodes, frozen=True, rename="camel", kw_only=True):
    driver: str
    pool: _Pool
    devices: Annotated[tuple[_Device, ...], Bound(max_length=SLICE_DEVICES_MAX)] | None = None
    per_device_node_selection: bool | None = None
    shared_counters: (
        Annotated[tuple[_CounterSet, ...], Bound(max_length=SLICE_COUNTER_SETS_MAX)] | None
    ) = None
    skip_node_operations: _Texts | None = None


class SliceWire(msgspec.Struct, frozen=True):
    """A ResourceSlice."""

    metadata: Meta
    spec: _SliceSpec


class _DeviceSelector(msgspec.Struct, frozen=True, rename="camel"):
    """The last two exist in v1alpha3 of Kubernetes 1.33 and 1.34 only."""

    driver: str | None = None
    pool: str | None = None
    device: str | None = None
    device_class_name: str | None = None
    selectors: tuple[msgspec.Raw, ...] | None = None


class _RuleSpec(msgspec.Struct, frozen=True, rename="camel"):
    taint: DeviceTaint
    device_selector: _DeviceSelector | None = None


class RuleWire(msgspec.Struct, frozen=True):
    """A DeviceTaintRule."""

    metadata: Meta
    spec: _RuleSpec


def to_slice(wire: SliceWire) -> ResourceSlice:
    """A ResourceSlice of the model."""
    spec = wire.spec
    return ResourceSlice(
        name=wire.metadata.name,
        driver=spec.driver,
        pool=spec.pool.name,
        generation=spec.pool.generation,
        slice_count=spec.pool.resource_slice_count,
        nodes=_nodes(spec),
        per_device_nodes=bool(spec.per_device_node_selection),
        devices=tuple(_device(spec, one) for one in spec.devices or ()),
        counter_sets=tuple(
            CounterSet(one.name, _amounts(one.counters)) for one in spec.shared_counters or ()
        ),
        skip_node_operations=spec.skip_node_operations or (),
    )


def _device(spec: _SliceSpec, wire: _Device) -> Device:
    return Device(
        driver=spec.driver,
        pool=spec.pool.name,
        name=wire.name,
        attributes=dict(_attributes((wire.attributes or {}).items())),
        capacities={name: _capacity(one) for name, one in (wire.capacity or {}).items()},
        consumes=tuple(
            CounterUse(one.counter_set, _amounts(one.counters), one.compatibility_groups or ())
            for one in wire.consumes_counters or ()
        ),
        nodes=_nodes(wire),
        taints=wire.taints or (),
        binds_to_node=bool(wire.binds_to_node),
        binding_conditions=wire.binding_conditions or (),
        binding_failure_conditions=wire.binding_failure_conditions or (),
        allow_multiple=bool(wire.allow_multiple_allocations),
    )


def _attributes(items: Iterable[tuple[str, _Attribute]]) -> Iterable[tuple[str, AttributeValue]]:
    """The attributes with a value; one of a type of a later Kubernetes has none."""
    for name, one in items:
        value = _value(one)
        if value is not None:
            yield name, value


def _value(wire: _Attribute) -> AttributeValue | None:
    if wire.version is not None:
        return Version(wire.version)
    for scalar in (wire.int_value, wire.bool_value, wire.text):
        if scalar is not None:
            return scalar
    if wire.versions is not None:
        return tuple(map(Version, wire.versions))
    for several in (wire.ints, wire.bools, wire.texts):
        if several is not None:
            return several
    return None


def _capacity(wire: _Capacity) -> Capacity:
    policy = wire.request_policy
    return Capacity(
        quantity.nano_value(wire.value), None if policy is None else _request_policy(policy)
    )


def _request_policy(wire: _Policy) -> RequestPolicy:
    limits = wire.valid_range
    return RequestPolicy(
        default=_amount(wire.default),
        valid_values=tuple(map(quantity.nano_value, wire.valid_values or ())),
        valid_range=None
        if limits is None
        else ValidRange(_amount(limits.min), _amount(limits.max), _amount(limits.step)),
    )


def _amount(wire: Amount | None) -> int | None:
    return None if wire is None else quantity.nano_value(wire)


def _amounts(wire: dict[str, _Counter] | None) -> dict[str, int]:
    return {name: quantity.nano_value(one.value) for name, one in (wire or {}).items()}


def _nodes(wire: _Nodes) -> NodeChoice:
    """Where the devices can be used; most devices leave that to their slice."""
    selector = wire.node_selector
    if not wire.node_name and not wire.all_nodes and selector is None:
        return NO_NODE
    terms = None if selector is None else selector.node_selector_terms
    return NodeChoice(wire.node_name or "", bool(wire.all_nodes), terms)


def to_rule(wire: RuleWire) -> DeviceTaintRule:
    """A DeviceTaintRule of the model; ValueError for one that selects by class or by CEL."""
    selector = wire.spec.device_selector or _DeviceSelector()
    if selector.device_class_name is not None or selector.selectors is not None:
        raise ValueError("deviceSelector: deviceClassName and selectors are not read")
    return DeviceTaintRule(
        name=wire.metadata.name,
        taint=wire.spec.taint,
        driver=selector.driver,
        pool=selector.pool,
        device=selector.device,
        selects_none=wire.spec.device_selector is None,
    )


class _BarePool(msgspec.Struct, frozen=True):
    name: str = ""
    generation: int = 0


class _BareSpec(msgspec.Struct, frozen=True):
    driver: str = ""
    pool: _BarePool = _BarePool()


class _BareSlice(msgspec.Struct, frozen=True):
    spec: _BareSpec = _BareSpec()


def bare_slice(_: str, name: str, content: bytes, problem: str) -> ResourceSlice:
    """A slice that cannot be read: its pool is invalid in its generation, if that can be read."""
    try:
        spec = msgspec.json.decode(shallow(content), type=_BareSlice).spec
    except UNREADABLE:
        spec = _BareSpec()
    return ResourceSlice(
        name=name,
        driver=spec.driver,
        pool=spec.pool.name,
        generation=spec.pool.generation,
        unread=problem,
    )


SLICES: Final = ObjectDecoder(DRA, ResourceSlice, SliceWire, to_slice, bare_slice)
RULES: Final = ObjectDecoder(
    DRA,
    DeviceTaintRule,
    RuleWire,
    to_rule,
    lambda _, name, __, unread: DeviceTaintRule(
        name=name, taint=DeviceTaint(""), selects_none=True, unread=unread
    ),
)
