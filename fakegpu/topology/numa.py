"""NUMA zones in pools and in nodes' topologies."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec

TopologyPolicy = Literal["none", "best-effort", "restricted", "single-numa-node"]


class _Part(msgspec.Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """A part of the document."""


class Distances(_Part, frozen=True):
    """The distance of a zone from itself and from the others, as in ACPI's tables."""

    own: int = msgspec.field(default=10, name="self")
    remote: int = 21


class Numa(_Part, frozen=True):
    """The NUMA zones of a machine. GPUs are numbered zone by zone. Without counts the zones have
    equally many, and the first ones the remainder.
    """

    zones: Annotated[int, msgspec.Meta(ge=1, le=64)] = 1
    gpus_per_zone: tuple[int, ...] = ()
    topology_manager_policy: TopologyPolicy = "single-numa-node"
    topology_manager_scope: Literal["container", "pod"] = "container"
    cpu_per_zone: int | str = ""
    mem_per_zone: int | str = ""
    distances: Distances = Distances()
