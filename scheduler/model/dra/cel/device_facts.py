"""What a selector reads of a device, and how CEL sees it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

from scheduler.model.dra.cel import quantities, versions
from scheduler.model.dra.device import AttributeValue, Version


class DeviceFacts(Protocol):
    """The part of a device that its selectors read; it never changes, and has a ``__dict__``.

    The keys of ``attributes`` and ``capacity`` are ``domain/name``, or ``name`` in the domain of
    the driver. A capacity is the text of a quantity.
    """

    @property
    def driver(self) -> str: ...

    @property
    def attributes(self) -> Mapping[str, AttributeValue]: ...

    @property
    def capacity(self) -> Mapping[str, str]: ...

    @property
    def allow_multiple(self) -> bool: ...


def variable(device: DeviceFacts) -> dict[str, object]:
    """The variable ``device`` of an expression; ValueError for an invalid version or quantity."""
    attributes: dict[str, dict[str, object]] = {}
    for key, value in device.attributes.items():
        domain, name = _qualified(key, device.driver)
        attributes.setdefault(domain, {})[name] = _cel_value(value)
    capacity: dict[str, dict[str, object]] = {}
    for key, text in device.capacity.items():
        domain, name = _qualified(key, device.driver)
        capacity.setdefault(domain, {})[name] = quantities.quantity(text)
    return {
        "driver": device.driver,
        "allowMultipleAllocations": device.allow_multiple,
        "attributes": attributes,
        "capacity": capacity,
    }


def _qualified(key: str, driver: str) -> tuple[str, str]:
    domain, slash, name = key.partition("/")
    return (domain, name) if slash else (driver, key)


def _cel_value(value: AttributeValue) -> Any:
    if isinstance(value, tuple):
        return [_cel_value(one) for one in value]
    return versions.semver(value.text) if isinstance(value, Version) else value
