"""What a pool of nodes has, whichever way it was written."""

from __future__ import annotations

import msgspec

from fakegpu.topology.mig_config import Layouts
from fakegpu.topology.node_topology import MigStrategy, OtherDevice, Sharing
from fakegpu.topology.numa import Numa
from scheduler.model.mig import layout


class GpuKind(msgspec.Struct, frozen=True):
    """One GPU: the product as it is shown, and its memory."""

    product: str
    memory_mib: int

    @property
    def board(self) -> layout.GpuModel | None:
        """Its MIG geometry; None where it has none."""
        return layout.board_of(self.product, self.memory_mib)


class Pool(msgspec.Struct, frozen=True, kw_only=True):
    """The hardware of each node of a pool, and how it begins.

    ``layouts`` are cut where a node does not say otherwise; None leaves all GPUs whole.
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
    def boards(self) -> tuple[layout.GpuModel | None, ...]:
        """The MIG geometry of each GPU."""
        return tuple(gpu.board for gpu in self.gpus)


class Topology(msgspec.Struct, frozen=True, kw_only=True):
    """The cluster's pools. ``problems`` are those that cannot be used, with the reason."""

    label_key: str
    mig_strategy: MigStrategy = "mixed"
    pools: dict[str, Pool] = {}
    problems: dict[str, str] = {}
