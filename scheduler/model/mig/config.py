"""MIG configuration documents: the MIG instances that each GPU shall have.

Two kinds of document have the same shape: the node annotation ``run.ai/mig.config`` of simulated
nodes, and the files of NVIDIA's mig-parted, of which a node's label ``nvidia.com/mig.config`` names
one configuration. The instances of a GPU have four notations, all in use::

    mig-devices: {0: 2g.20gb, 2: 2g.20gb}                        first slice: profile
    mig-devices: [1g.10gb, 1g.10gb]                              profiles
    mig-devices: [{name: 2g.20gb, position: 0, size: 2}]         profile, first slice, size
    mig-devices: {2g.20gb: 3, 1g.10gb: 1}                        profile: how many

This module only parses. ``model/mig/node_geometry`` checks the instances against the board.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import Any, Final

import msgspec

from scheduler.model.integer_text import whole
from scheduler.model.limits import (
    MIG_CONFIG_ENTRIES_MAX,
    MIG_CONFIG_INSTANCES_MAX,
    MIG_CONFIG_LENGTH_MAX,
    MIG_GPUS_MAX,
)
from scheduler.model.mig.profile import canonical

INDEX_MAX: Final = MIG_GPUS_MAX - 1
SELECTED: Final = "selected"
_WRITTEN_OUT_MAX: Final = 10**40


class MigConfigError(ValueError):
    """An invalid document; ``str()`` has the place and the problem."""


class MigDeviceSpec(msgspec.Struct, frozen=True):
    """One wanted instance; ``start`` and ``size`` if the document has them."""

    profile: str
    start: int | None = None
    size: int | None = None


class MigConfigEntry(msgspec.Struct, frozen=True):
    """One entry for some GPUs: ``devices`` by index, None for all; with MIG or without.

    ``gpu_models`` are PCI ids: the entry is only for nodes with such a board. ``where`` names the
    entry in messages.
    """

    where: str
    devices: tuple[int, ...] | None
    is_enabled: bool
    mig_devices: tuple[MigDeviceSpec, ...] = ()
    gpu_models: tuple[str, ...] = ()


@lru_cache(maxsize=512)
def parse_config(text: str, name: str = "") -> tuple[MigConfigEntry, ...]:
    """The entries of one configuration of a document; MigConfigError describes the problem.

    ``name`` selects the configuration; else it is the one called ``selected``, else the only one.
    """
    try:
        return _chosen(_configs(_load(text)), name)
    except MigConfigError:
        raise
    except ValueError as problem:  # a hexadecimal number that is too long to print
        raise MigConfigError(f"cannot be read: {str(problem)[:200]}") from None


def _chosen(configs: dict[str, object], name: str) -> tuple[MigConfigEntry, ...]:
    chosen = name or (SELECTED if SELECTED in configs else "")
    if not chosen:
        if len(configs) != 1:
            raise MigConfigError(
                f"mig-configs has {len(configs)} configurations; call the one that holds {SELECTED}"
            )
        chosen = next(iter(configs))
    if chosen not in configs:
        raise MigConfigError(f"mig-configs has no configuration {chosen[:60]!r}")
    where = f"mig-configs.{chosen}"
    entries = _list(configs[chosen], where, MIG_CONFIG_ENTRIES_MAX)
    return tuple(_entry(entry, f"{where}[{at}]") for at, entry in enumerate(entries))


def _load(text: str) -> object:
    if len(text) > MIG_CONFIG_LENGTH_MAX:
        raise MigConfigError(
            f"has {len(text)} characters; at most {MIG_CONFIG_LENGTH_MAX} are read"
        )
    try:
        return msgspec.yaml.decode(text.encode())
    except (msgspec.DecodeError, RecursionError, ValueError) as problem:
        first = " ".join(str(problem).split())
        raise MigConfigError(f"is not YAML: {first[:200]}") from None


def _configs(document: object) -> dict[str, object]:
    if not isinstance(document, dict) or not isinstance(document.get("mig-configs"), dict):
        raise MigConfigError("has no mapping mig-configs")
    version = document.get("version", "v1")
    if version != "v1":
        raise MigConfigError(f"version: {str(version)[:20]!r} is not v1")
    return {str(key): value for key, value in document["mig-configs"].items()}


def _entry(value: object, where: str) -> MigConfigEntry:
    if not isinstance(value, dict):
        raise MigConfigError(f"{where} is not a mapping with devices and mig-devices")
    mig_devices = tuple(_mig_devices(value.get("mig-devices"), f"{where}.mig-devices"))
    is_enabled = _flag(value.get("mig-enabled", bool(mig_devices)), f"{where}.mig-enabled")
    if mig_devices and not is_enabled:
        raise MigConfigError(f"{where} has mig-devices and mig-enabled: false")
    filters = value.get("device-filter") or []
    if isinstance(filters, str):
        filters = [filters]
    return MigConfigEntry(
        where=where,
        devices=_devices(value.get("devices"), f"{where}.devices"),
        is_enabled=is_enabled,
        mig_devices=mig_devices,
        gpu_models=tuple(
            map(str, _list(filters, f"{where}.device-filter", MIG_CONFIG_ENTRIES_MAX))
        ),
    )


def _devices(value: object, where: str) -> tuple[int, ...] | None:
    if value == "all" or value == ["all"]:
        return None
    many = value if isinstance(value, list) else str(value).split(",")
    return tuple(_number(one, where, INDEX_MAX) for one in many[: INDEX_MAX + 1])


def _mig_devices(value: object, where: str) -> Iterator[MigDeviceSpec]:
    if isinstance(value, dict):
        yield from _mapped(value, where)
    elif value is not None:
        for at, one in enumerate(_list(value, where, MIG_CONFIG_INSTANCES_MAX)):
            yield _mig_device(one, f"{where}[{at}]")


def _mapped(value: Mapping[Any, Any], where: str) -> Iterator[MigDeviceSpec]:
    """Both mappings: profile to count, and first slice to profile."""
    total = 0
    for key, what in value.items():
        is_count = isinstance(what, int) and not isinstance(what, bool)
        if not is_count:
            yield MigDeviceSpec(
                _profile(what, where), _number(key, where, MIG_CONFIG_INSTANCES_MAX)
            )
            continue
        total += what
        if what < 0 or total > MIG_CONFIG_INSTANCES_MAX:
            raise MigConfigError(
                f"{where}: {str(what)[:20]} x {str(key)[:40]} is more than a GPU holds"
            )
        yield from [MigDeviceSpec(_profile(key, where))] * what


def _mig_device(value: object, where: str) -> MigDeviceSpec:
    if not isinstance(value, dict):
        return MigDeviceSpec(_profile(value, where))
    start, size = value.get("position"), value.get("size")
    return MigDeviceSpec(
        profile=_profile(value.get("name"), f"{where}.name"),
        start=None
        if start is None
        else _number(start, f"{where}.position", MIG_CONFIG_INSTANCES_MAX),
        size=None if size is None else _number(size, f"{where}.size", MIG_CONFIG_INSTANCES_MAX),
    )


def _profile(value: object, where: str) -> str:
    if not isinstance(value, str) or not value.strip():
        raise MigConfigError(f"{where}: {str(value)[:40]!r} is not a profile such as 1g.10gb")
    return canonical(value[:60])


def _number(value: object, where: str, most: int) -> int:
    # YAML reads numbers of any length; the time to print one grows with its square.
    is_huge = isinstance(value, int) and abs(value) > _WRITTEN_OUT_MAX
    text = "a huge number" if is_huge else str(value).strip()
    number = None if isinstance(value, bool) else whole(text, most)
    if number is None:
        raise MigConfigError(f"{where}: {text[:40]!r} is not a number from 0 to {most}")
    return number


def _flag(value: object, where: str) -> bool:
    words = {"true": True, "false": False}
    found = words.get(str(value).strip().lower())
    if found is None:
        raise MigConfigError(f"{where}: {str(value)[:40]!r} is neither true nor false")
    return found


def _list(value: object, where: str, most: int) -> list[object]:
    if not isinstance(value, list):
        raise MigConfigError(f"{where} is not a list")
    if len(value) > most:
        raise MigConfigError(f"{where} has {len(value)} entries; at most {most} are read")
    return value
