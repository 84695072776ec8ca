"""The MIG instances in MigPartition status, and the GPUs in backoff.

They are stored apart from the nodes, because either may be watched first.
"""

from __future__ import annotations

from collections.abc import Iterable

from scheduler.model.crd.mig_partition import MigInstance, NodePartitions

_NONE: frozenset[int] = frozenset()


class PartitionStore:
    """The newest report of each node's operator, and the GPUs in backoff, by node."""

    def __init__(self) -> None:
        self.known: dict[str, NodePartitions] = {}
        self.gpus_in_backoff: dict[str, frozenset[int]] = {}

    def of(self, node_name: str) -> tuple[tuple[MigInstance, ...], frozenset[int]]:
        """The instances of a node, and its GPUs in backoff."""
        known = self.known.get(node_name)
        return known.instances if known else (), self.gpus_in_backoff.get(node_name, _NONE)

    def upsert(self, partitions: NodePartitions) -> None:
        """A node's newest report."""
        if partitions.orders or partitions.instances:
            self.known[partitions.node_name] = partitions
        else:
            self.known.pop(partitions.node_name, None)

    def set_backoff(self, node_name: str, gpus: frozenset[int]) -> None:
        """Set the GPUs of a node that are in backoff."""
        if gpus:
            self.gpus_in_backoff[node_name] = gpus
        else:
            self.gpus_in_backoff.pop(node_name, None)

    def delete(self, listed: Iterable[NodePartitions]) -> list[NodePartitions]:
        """An empty report for each node that a whole list lacks."""
        names = {partitions.node_name for partitions in listed}
        return [NodePartitions(name) for name in self.known if name not in names]
