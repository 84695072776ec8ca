"""What a decision may look at: the cluster, or the cluster with placements tried out on top."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Protocol

from scheduler.model.node import Namespace
from scheduler.model.pods.pod import Pod
from scheduler.state.cache.nodes import Nodes
from scheduler.state.index.filter_cache import FilterResultCache
from scheduler.state.index.node_index import NodeIndex
from scheduler.state.node_info import NodeInfo


class View(Protocol):
    """The read side of :class:`scheduler.state.cache.cluster.Cluster`."""

    @property
    def index(self) -> NodeIndex:
        """Finds nodes in best-fit order."""

    @property
    def verdicts(self) -> FilterResultCache:
        """What nodes said to pods that were refused, without what was tried out."""

    @property
    def nodes(self) -> Nodes:
        """All nodes, as many as exist."""

    @property
    def changed(self) -> Mapping[str, NodeInfo]:
        """Nodes on which something was tried out; the index knows them as they were."""

    @property
    def nominated(self) -> Mapping[str, Pod]:
        """Pods that preempted for a node and are not on the books there yet, and what open
        moves hold for their replacements."""

    def at(self, name: str) -> NodeInfo | None:
        """Books of one existing node."""

    def candidates(self) -> Iterator[NodeInfo]:
        """Books of all existing nodes."""

    def resolve(self, token: str) -> frozenset[str]:
        """Nodes that a map's node name fits."""

    def namespace(self, name: str) -> Namespace:
        """A namespace's labels and annotations."""

    def indexes_held(self, pod: Pod) -> Mapping[int, Pod]:
        """Index -> live placed pod of the pod's workload that has the same map text."""
