"""Profiles: documents that describe a machine's GPUs, by name, with overrides merged over them.

The seven names of the seed operator have the same meaning; every other product of the catalog is a
profile too. A user's own profile is a document of the same shape.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from fakegpu.catalog.products import PRODUCTS, Product

MIB: Final = 2**20
_OLD: Final = ("550.163.01", "12.4")
_DRIVERS: Final[Mapping[str, tuple[str, str]]] = {
    "b200": ("560.35.03", "12.6"),
    "gb200": ("580.65.06", "13.0"),
    "gb300": ("570.124.06", "12.8"),
    "b300": ("570.124.06", "12.8"),
    "rtx-pro-6000": ("570.124.06", "12.8"),
}
_COUNTS: Final[Mapping[str, int]] = {"t4": 4, "k80": 2, "gh200": 1}
COUNT: Final = 8

Document = dict[str, Any]


class Machine(msgspec.Struct, frozen=True, kw_only=True):
    """A machine: a number of GPUs of one name and size."""

    product: str
    memory_mib: int
    count: int
    driver: str = ""
    cuda: str = ""


class ProfileError(ValueError):
    """An incomplete or invalid profile; ``path`` is the place."""

    def __init__(self, path: str, problem: str) -> None:
        super().__init__(f"{path}: {problem}")
        self.path = path
        self.problem = problem


def builtin(name: str) -> Document | None:
    """The document of a built-in profile."""
    product = PRODUCTS.get(name)
    return None if product is None else _document(product)


def _document(product: Product) -> Document:
    driver, cuda = driver_of(product)
    return {
        "system": {"driver_version": driver, "cuda_version": cuda},
        "device_defaults": {
            "name": product.title,
            "architecture": product.family,
            "memory": {"total_bytes": product.memory_mib * MIB},
        },
        "devices": [{} for _ in range(_COUNTS.get(product.kind, COUNT))],
    }


def driver_of(product: Product | None) -> tuple[str, str]:
    """Driver and CUDA version of a product."""
    return _DRIVERS.get(product.kind, _OLD) if product else _OLD


def merge(base: Mapping[str, Any], over: Mapping[str, Any]) -> Document:
    """Maps are merged recursively, other values are replaced; ``base`` is not changed."""
    result = dict(base)
    for key, value in over.items():
        old = result.get(key)
        both = isinstance(old, Mapping) and isinstance(value, Mapping)
        result[key] = merge(old, value) if both else value  # type: ignore[arg-type] # both are mappings
    return result


def machine(document: Mapping[str, Any]) -> Machine:
    """The machine in a document, or ProfileError."""
    defaults, system = _section(document, "device_defaults"), _section(document, "system")
    name = defaults.get("name")
    if not isinstance(name, str) or not name:
        raise ProfileError("device_defaults.name", "expected the product's name")
    memory = _section(defaults, "memory").get("total_bytes")
    if not isinstance(memory, int) or memory < MIB:
        raise ProfileError("device_defaults.memory.total_bytes", "expected a number of bytes")
    return Machine(
        product=name,
        memory_mib=memory // MIB,
        count=_count(document),
        driver=str(system.get("driver_version", "")),
        cuda=str(system.get("cuda_version", "")),
    )


def _count(document: Mapping[str, Any]) -> int:
    count, devices = document.get("device_count"), document.get("devices", [])
    if isinstance(count, int) and not isinstance(count, bool) and count > 0:
        return count
    if not isinstance(devices, list):
        raise ProfileError("devices", "expected a list")
    return len(devices)


def _section(document: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    section = document.get(key)
    if section is None:
        return {}
    if not isinstance(section, Mapping):
        raise ProfileError(key, "expected a map")
    return section
