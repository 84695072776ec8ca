"""A pool of nodes, independent of its input format."""

from __future__ import annotations

import msgspec

from fakegpu.topology.mig_config import Layouts
from fakegpu.topology.node_topology import MigStrategy, OtherDevice, Sharing
from fakegpu.topology.numa import Numa
from scheduler.model.mig import layout


class GpuKind(msgspec.Struct, frozen=True):
    """One GPU: its product name and memory."""

    product: str
    memory_mib: int

    @property
    def gpu_model(self) -> layout.GpuModel | None:
        """Its MIG geometry; None without MIG."""
        return layout.gpu_model_of(self.product, self.memory_mib)


class Pool(msgspec.Struct, frozen=True, kw_only=True):
    """The hardware of each node of a pool, and its initial layout.

    ``layouts`` apply unless a node has its own; None leaves all GPUs whole.
    """

    name: str
    gpus: tuple[GpuKind, ...]
    driver: str = ""
    cuda: str = ""
    backend: str = "fake"
    mig_strategy: MigStrategy | None = None
    layouts: Layouts | None = None
    sharing: Sharing | None = None
    others: tuple[OtherDevice, ...] = ()
    numa: Numa | None = None

    @property
    def gpu_models(self) -> tuple[layout.GpuModel | None, ...]:
        """The MIG geometry of each GPU."""
        return tuple(gpu.gpu_model for gpu in self.gpus)


class Topology(msgspec.Struct, frozen=True, kw_only=True):
    """The cluster's pools. ``problems`` are the invalid ones, with the reason."""

    label_key: str
    mig_strategy: MigStrategy = "mixed"
    pools: dict[str, Pool] = {}
    problems: dict[str, str] = {}
