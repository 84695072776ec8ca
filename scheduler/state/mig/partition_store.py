"""What the operators of dynamic nodes say they have cut, and the GPUs that rest.

Kept beside the nodes, because either may become known first and either may come again.
"""

from __future__ import annotations

from collections.abc import Iterable

from scheduler.model.crd.mig_partition import MigInstance, NodePartitions

_NONE: frozenset[int] = frozenset()


class PartitionStore:
    """The newest word of each node's operator; ``resting`` are GPUs by node."""

    def __init__(self) -> None:
        self.known: dict[str, NodePartitions] = {}
        self.resting: dict[str, frozenset[int]] = {}

    def of(self, node_name: str) -> tuple[tuple[MigInstance, ...], frozenset[int]]:
        """What there is on a node, and which of its GPUs rest."""
        known = self.known.get(node_name)
        return known.instances if known else (), self.resting.get(node_name, _NONE)

    def upsert(self, cuts: NodePartitions) -> None:
        """A node's newest word."""
        if cuts.orders or cuts.instances:
            self.known[cuts.node_name] = cuts
        else:
            self.known.pop(cuts.node_name, None)

    def rest(self, node_name: str, gpus: frozenset[int]) -> None:
        """These GPUs of a node rest from now on, and no others."""
        if gpus:
            self.resting[node_name] = gpus
        else:
            self.resting.pop(node_name, None)

    def delete(self, listed: Iterable[NodePartitions]) -> list[NodePartitions]:
        """An empty word for each node that a whole list lacks."""
        names = {cuts.node_name for cuts in listed}
        return [NodePartitions(name) for name in self.known if name not in names]
