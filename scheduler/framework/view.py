"""The state that a decision may read: the cluster, optionally with hypothetical placements on
top.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import Protocol

from scheduler.model.node import Namespace
from scheduler.model.pods.pod import Pod
from scheduler.state.cache.nodes import Nodes
from scheduler.state.cache.preemptions import Preemptions
from scheduler.state.dra.store import DraStore
from scheduler.state.gangs.index import GangIndex
from scheduler.state.index.filter_cache import FilterResultCache
from scheduler.state.index.node_index import NodeIndex
from scheduler.state.node_info import NodeInfo
from scheduler.state.teams.books import TeamBooks
from scheduler.state.topology.reader import TopologyReader
from scheduler.state.volumes.store import VolumeStore


class View(Protocol):
    """The read side of :class:`scheduler.state.cache.cluster.Cluster`."""

    @property
    def index(self) -> NodeIndex:
        """Finds nodes in best-fit order."""

    @property
    def filter_results(self) -> FilterResultCache:
        """Filter results of rejected pods, without hypothetical placements."""

    @property
    def nodes(self) -> Nodes:
        """All nodes, as many as exist."""

    @property
    def changed(self) -> Mapping[str, NodeInfo]:
        """Nodes with hypothetical placements; the index has their state without these."""

    @property
    def nominated(self) -> Mapping[str, Pod]:
        """Nominated pods that are not placed on their node yet, and capacity that open migrations
        hold for their replacements.
        """

    @property
    def pods(self) -> Mapping[str, Pod]:
        """All living pods by uid, as the API server has them."""

    @property
    def assumed(self) -> Collection[str]:
        """The uids of pods that are on their way to a node."""

    @property
    def preemptions(self) -> Preemptions:
        """Disruption budgets, and what preemptors did."""

    @property
    def gangs(self) -> GangIndex:
        """The gangs of placed and waiting pods, without hypothetical placements."""

    @property
    def topology(self) -> TopologyReader:
        """Placed pods per value of a node label, with what is tried out."""

    @property
    def volumes(self) -> VolumeStore:
        """Claims, volumes and what CSI drivers say of nodes."""

    @property
    def dra(self) -> DraStore:
        """ResourceClaims, classes and devices, and what allocations use of them."""

    @property
    def teams(self) -> TeamBooks:
        """What teams use, and what they are entitled to."""

    def at(self, name: str) -> NodeInfo | None:
        """The NodeInfo of one existing node."""

    def candidates(self) -> Iterator[NodeInfo]:
        """The NodeInfos of all existing nodes."""

    def resolve(self, token: str) -> frozenset[str]:
        """The nodes that match a map's node name."""

    def namespace(self, name: str) -> Namespace:
        """A namespace's labels and annotations."""

    def indexes_held(self, pod: Pod) -> Mapping[int, Pod]:
        """Index -> live placed pod of the pod's workload that has the same map text."""
