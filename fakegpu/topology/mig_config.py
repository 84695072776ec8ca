"""The MIG configuration of a node: its document -> a layout for each GPU, or the problem.

``scheduler.model.mig.config`` parses the document in all its shapes, and
``scheduler.model.mig.node_geometry`` knows the possible layouts: the scheduler and the fake
hardware must never differ. This module adds the number of GPUs. GPUs without an entry are whole.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import msgspec

from fakegpu.topology.invalid import Invalid
from scheduler.model.mig import layout as mig_layout
from scheduler.model.mig import named_config
from scheduler.model.mig.config import (
    SELECTED,
    MigConfigEntry,
    MigConfigError,
    MigDeviceSpec,
    parse_config,
)
from scheduler.model.mig.node_geometry import is_for, layout_for

#: For each GPU its layout, or None while it is not in MIG mode.
Layouts = tuple[mig_layout.Layout | None, ...]
GpuModels = Sequence[mig_layout.GpuModel | None]

NO_MIG: Final = "its product has no MIG"


def read(text: str, gpu_models: GpuModels, name: str = "") -> Layouts:
    """The layouts of a node with these boards; Invalid has the impossible part.

    ``name`` is one of the document's configurations; if it has none of that name, its own choice
    applies.
    """
    try:
        entries = parse_config(text, name) if name else parse_config(text)
    except MigConfigError as problem:
        if name:
            return read(text, gpu_models)
        raise Invalid("", str(problem)) from problem
    found: list[mig_layout.Layout | None] = [None] * len(gpu_models)
    named: set[int] = set()
    for entry in entries:
        for gpu in _indexes(entry, len(gpu_models)):
            if not is_for(entry, gpu_models[gpu]):
                continue
            if gpu in named:
                raise Invalid(entry.where, f"GPU {gpu} is named by an earlier entry too")
            named.add(gpu)
            if entry.is_enabled:
                found[gpu] = _layout(
                    gpu_models[gpu], entry.mig_devices, f"{entry.where}: GPU {gpu}"
                )
    return tuple(found)


def from_document(document: object, gpu_models: GpuModels, path: str) -> Layouts:
    """The same from a part of another document; there an entry may be without a name."""
    if not (isinstance(document, dict) and "mig-configs" in document):
        entries = document if isinstance(document, list) else [document]
        entries = [{"devices": "all", **one} if isinstance(one, dict) else one for one in entries]
        document = {"mig-configs": {SELECTED: entries}}
    try:
        return read(msgspec.yaml.encode(document).decode(), gpu_models)
    except Invalid as problem:
        raise Invalid(path, str(problem)) from problem


def by_name(name: str, gpu_models: GpuModels) -> Layouts:
    """The built-in configurations of every mig-manager: ``all-disabled``, ``all-1g.10gb`` ..."""
    if name == named_config.DISABLED:
        return (None,) * len(gpu_models)
    return tuple(_named(name, gpu_model, gpu) for gpu, gpu_model in enumerate(gpu_models))


def _named(name: str, gpu_model: mig_layout.GpuModel | None, gpu: int) -> mig_layout.Layout:
    if gpu_model is None:
        raise Invalid(name, f"GPU {gpu}: {NO_MIG}")
    wanted = named_config.instances(name, gpu_model)
    if wanted is None:
        raise Invalid(name, f"no such configuration for {gpu_model.name}")
    return _layout(gpu_model, tuple(map(MigDeviceSpec, wanted)), name)


def _indexes(entry: MigConfigEntry, count: int) -> Sequence[int]:
    if entry.devices is None:
        return range(count)
    for gpu in entry.devices:
        if gpu >= count:
            raise Invalid(entry.where, f"there is no GPU {gpu}, the node has {count}")
    return entry.devices


def _layout(
    gpu_model: mig_layout.GpuModel | None, mig_devices: tuple[MigDeviceSpec, ...], where: str
) -> mig_layout.Layout:
    if gpu_model is None:
        raise Invalid(where, NO_MIG)
    layout, flaw = layout_for(gpu_model, mig_devices)
    if layout is None:
        raise Invalid(where, flaw or "has no such MIG layout")
    return layout
