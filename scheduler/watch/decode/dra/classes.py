"""DeviceClasses as they arrive, and the parts that they have in common with ResourceClaims."""

from __future__ import annotations

from typing import Annotated, Final

import msgspec
from msgspec import Meta as Bound

from scheduler.model.dra.device_class import DeviceClass, OpaqueConfig
from scheduler.model.limits import CLAIM_ITEMS_MAX, DEVICE_CONFIG_LENGTH_MAX
from scheduler.watch.decode.api_types import Meta
from scheduler.watch.decode.object_decoder import DRA, ObjectDecoder

FEW: Final = Bound(max_length=CLAIM_ITEMS_MAX)


class _Expression(msgspec.Struct, frozen=True, gc=False):
    expression: str = ""


class _Selector(msgspec.Struct, frozen=True, gc=False):
    cel: _Expression | None = None


Selectors = Annotated[tuple[_Selector, ...], FEW]


class _Opaque(msgspec.Struct, frozen=True):
    driver: str = ""
    parameters: msgspec.Raw = msgspec.Raw(b"{}")


class ConfigWire(msgspec.Struct, frozen=True):
    """Configuration for a driver; one of another kind than ``opaque`` is left out."""

    opaque: _Opaque | None = None


class _ClassSpec(msgspec.Struct, frozen=True, rename="camel"):
    selectors: Selectors | None = None
    config: Annotated[tuple[ConfigWire, ...], FEW] | None = None
    extended_resource_name: str | None = None


class ClassWire(msgspec.Struct, frozen=True):
    """A DeviceClass."""

    metadata: Meta
    spec: _ClassSpec = _ClassSpec()


def expressions(selectors: Selectors | None) -> tuple[str, ...]:
    """The CEL expressions; a selector of a later kind is one that cannot be compiled."""
    return tuple("" if one.cel is None else one.cel.expression for one in selectors or ())


def opaque(wire: ConfigWire) -> OpaqueConfig | None:
    """The configuration, with its parameters as they were written."""
    if wire.opaque is None:
        return None
    parameters = bytes(wire.opaque.parameters)
    if len(parameters) > DEVICE_CONFIG_LENGTH_MAX:
        raise ValueError(
            f"opaque.parameters has {len(parameters)} bytes; at most {DEVICE_CONFIG_LENGTH_MAX}"
            " are read"
        )
    return OpaqueConfig(wire.opaque.driver, parameters.decode())


def to_class(wire: ClassWire) -> DeviceClass:
    """A DeviceClass of the model."""
    meta, spec = wire.metadata, wire.spec
    found = map(opaque, spec.config or ())
    return DeviceClass(
        name=meta.name,
        selectors=expressions(spec.selectors),
        config=tuple(one for one in found if one is not None),
        extended_resource=spec.extended_resource_name or "",
        created=meta.creation_timestamp or "",
    )


CLASSES: Final = ObjectDecoder(
    DRA,
    DeviceClass,
    ClassWire,
    to_class,
    lambda _, name, __, unread: DeviceClass(name=name, unread=unread),
)
