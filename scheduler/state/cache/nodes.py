"""The nodes of the cluster state, their aliases in maps, and their index.

The NodeInfo of a deleted node stays, without its node, while pods name it: it is no candidate, and
the deletions of its pods may follow later.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from scheduler.model import well_known
from scheduler.model.crd.mig_partition import NodePartitions
from scheduler.model.gpu.device import Devices
from scheduler.model.node import Node
from scheduler.model.pods.pod import Pod
from scheduler.state.cache.advertised_resources import AdvertisedResources
from scheduler.state.cache.image_nodes import ImageNodes
from scheduler.state.cache.namespaces import NamespaceStore
from scheduler.state.cache.placed_priorities import PlacedPriorities
from scheduler.state.dra.store import DraStore
from scheduler.state.index.filter_cache import FilterResultCache
from scheduler.state.index.node_index import NodeIndex
from scheduler.state.index.node_memo import NodeMemo
from scheduler.state.mig.coming_layouts import ComingLayouts
from scheduler.state.mig.layout_wait import LayoutWait
from scheduler.state.mig.partition_store import PartitionStore
from scheduler.state.node_info import NodeInfo
from scheduler.state.pod_allocation import PodAllocation, allocation_of
from scheduler.state.teams.books import TeamBooks
from scheduler.state.topology.topology import Topology
from scheduler.state.volumes.store import VolumeStore


class Nodes:
    """The NodeInfo of every node, in step with the index; ``namespaces`` allow maps."""

    def __init__(
        self,
        scheduler_name: str,
        namespaces: NamespaceStore,
        volumes: VolumeStore,
        dra: DraStore,
        teams: TeamBooks,
    ) -> None:
        self.node_info: dict[str, NodeInfo] = {}
        self.index = NodeIndex()
        self.filter_results = FilterResultCache(self.node_info)
        self.memo = NodeMemo()
        #: Nodes that changed since a reader emptied this set.
        self.changed_names: set[str] = set()
        self._scheduler_name = scheduler_name
        self._namespaces = namespaces
        self._volumes = volumes
        self._dra = dra
        self._teams = teams
        self._aliases: dict[str, set[str]] = {}
        self.partitions = PartitionStore()
        self.offers = AdvertisedResources()
        self.topology = Topology(namespaces.of)
        self.images = ImageNodes()
        self.priorities = PlacedPriorities(scheduler_name)
        self._settling = LayoutWait()
        self.coming = ComingLayouts()
        self._count = 0
        #: The nodes of which pods changed, while a list of pods is folded; else None.
        self._unindexed: dict[str, None] | None = None

    def __len__(self) -> int:
        """Number of nodes that exist."""
        return self._count

    def candidates(self) -> Iterator[NodeInfo]:
        """The NodeInfo of every node that exists."""
        return (node_info for node_info in self.node_info.values() if node_info.node is not None)

    def at(self, name: str) -> NodeInfo | None:
        """The NodeInfo of one node, or None if it does not exist."""
        node_info = self.node_info.get(name)
        return node_info if node_info is not None and node_info.node is not None else None

    def resolve(self, token: str) -> frozenset[str]:
        """The nodes that match a map's node name: the node of that name, else nodes with that
        alias.

        The name of a node has precedence over alias labels: otherwise the owner of one node could
        take over the maps of another.
        """
        if self.at(token) is not None:
            return frozenset((token,))
        return self.aliased(token)

    def aliased(self, token: str) -> frozenset[str]:
        """The nodes with this alias label."""
        return frozenset(self._aliases.get(token, ()))

    def upsert(self, node: Node) -> bool:
        """Fold a node's newest state; returns whether a pod that it rejected before may fit now.

        A heartbeat changes nothing, nor does a label that no pod has named.
        """
        node_info = self.node_info.get(node.name)
        if node_info is None:
            node_info = self.node_info[node.name] = NodeInfo(None)
        if node_info.node == node:
            return False
        before = node_info.node
        if before is not None:
            self._unalias(before)
        else:
            self._count += 1
            # In the order in which nodes were added, even if pods named them before.
            self.node_info[node.name] = self.node_info.pop(node.name)
        self.offers.change(before, node)
        self.images.change(before, node)
        node_info.is_settled = (
            node_info.is_settled and before is not None and before.uid == node.uid
        )
        node_info.set_node(node)
        self._settling.see(node)
        if node.dynamic_mig is not None:
            node_info.upsert_partitions(*self.partitions.of(node.name))
        for alias in _aliases(node):
            self._aliases.setdefault(alias, set()).add(node.name)
        self._count_devices(node_info)
        self.coming.see(node_info)
        if self._teams.table is not None:
            self._teams.put_node(node_info, self._dra)
        self.topology.upsert_node(node)
        self.index.put(node_info)
        self.index.shrink_classes(self.node_info)
        self._touch(node.name, added=before is None)
        return before is None or self._is_better(before, node)

    def delete(self, name: str) -> bool:
        """Fold a node's deletion; False if it did not exist."""
        node_info = self.at(name)
        if node_info is None or node_info.node is None:
            return False
        self._unalias(node_info.node)
        self.offers.change(node_info.node, None)
        self.offers.change_devices(node_info.dra, None)
        node_info.upsert_devices(None)
        self.images.change(node_info.node, None)
        self.topology.delete_node(name)
        self.index.drop(name)
        self._touch(name)
        self.memo.delete(name)
        self._teams.drop_node(name)
        self._count -= 1
        node_info.set_node(None)
        node_info.avoided, node_info.is_settled = frozenset(), False
        self._settling.lose(name)
        self.coming.lose(name)
        if not node_info.pods:
            del self.node_info[name]
        return True

    def add_pod(self, pod: Pod, name: str, devices: Devices | None) -> None:
        """Add a placed pod; its node may not be known yet."""
        node_info = self.node_info.get(name)
        if node_info is None:
            node_info = self.node_info[name] = NodeInfo(None)
        self.priorities.change(node_info.pod(pod.uid), pod, name)
        node_info.add(pod, self.allocation(pod, devices))
        if self._teams.table is not None:
            self._teams.put_pod(node_info, pod)
        self.topology.add_pod(pod, name)
        if pod.volumes:
            self._volumes.users.add(pod, name)
        if node_info.node is not None:
            self._put(node_info)
            self._touch(name)

    @contextmanager
    def indexed_once(self) -> Iterator[None]:
        """Fold a list of pods: a node is indexed at the end, once for all its pods."""
        self._unindexed = {}
        try:
            yield
        finally:
            names, self._unindexed = self._unindexed, None
            for name in names:
                if (node_info := self.at(name)) is not None:
                    self.index.put(node_info)

    def _put(self, node_info: NodeInfo) -> None:
        if self._unindexed is None:
            self.index.put(node_info)
        elif node_info.node is not None:
            self._unindexed[node_info.node.name] = None

    def renew(self, pod: Pod) -> None:
        """A placed pod changed, and holds what it held."""
        node_info = self.node_info[pod.node_name]
        self.priorities.change(node_info.pod(pod.uid), pod, pod.node_name)
        node_info.renew(pod)
        if node_info.node is not None:
            self.memo.change(pod.node_name)
        self.topology.add_pod(pod, pod.node_name)

    def allocation(self, pod: Pod, devices: Devices | None) -> PodAllocation:
        """The allocation of a placed pod; ``devices`` is the own choice for a new placement."""
        may_map = pod.map_text is not None and self._namespaces.may_map(pod.namespace)
        return allocation_of(pod, devices, self._scheduler_name, may_map=may_map)

    def recount(self, pod: Pod) -> bool:
        """Update a placed pod if its allocation changed; returns whether it changed."""
        known = self.node_info[pod.node_name].pods.get(pod.uid)
        if known is None or known[1] == self.allocation(pod, None):
            return False
        self.add_pod(pod, pod.node_name, None)
        return True

    def avoid(self, name: str, scopes: frozenset[str]) -> bool:
        """Set the scopes for which a node is avoided; returns whether a scope was removed."""
        node_info = self.at(name)
        if node_info is None or node_info.avoided == scopes:
            return False
        helps = not node_info.avoided <= scopes
        node_info.avoided = scopes
        self._touch(name)
        return helps

    def pass_time(self, now: float) -> list[str]:
        """The nodes that stop waiting for their MIG layout at ``now`` (Unix time)."""
        return [name for name in self._settling.old(now) if self.settle(name)]

    def settle(self, name: str) -> bool:
        """Stop waiting for a node's MIG layout; returns whether the node was waiting."""
        node_info = self.at(name)
        if node_info is None or node_info.is_settled:
            return False
        node_info.is_settled = True
        self.coming.see(node_info)
        self._touch(name)
        return True

    def upsert_partitions(self, partitions: NodePartitions) -> bool:
        """Fold the MIG instances in a node's MigPartition status; returns whether they changed."""
        self.partitions.upsert(partitions)
        return self._update_partitions(partitions.node_name)

    def set_gpu_backoff(self, name: str, gpus: frozenset[int]) -> bool:
        """Set the GPUs of a node in backoff; returns whether they changed."""
        self.partitions.set_backoff(name, gpus)
        return self._update_partitions(name)

    def _update_partitions(self, name: str) -> bool:
        node_info = self.at(name)
        if node_info is None or not node_info.upsert_partitions(*self.partitions.of(name)):
            return False
        self.index.put(node_info)
        self._touch(name)
        return True

    def update_devices(self) -> dict[str, frozenset[str]]:
        """Fold what ResourceSlices, claims and classes say now of the devices of nodes; returns by
        node the extended resources of which more is free.
        """
        changed = self._dra.changed.take()
        freed: dict[str, frozenset[str]] = {}
        for name in self.node_info if changed is None else changed:
            node_info = self.at(name)
            before = node_info.dra if node_info is not None else None
            if node_info is not None and self._count_devices(node_info):
                self.coming.see(node_info)
                self.index.put(node_info)
                self._touch(name)
                if self._teams.table is not None:
                    self._teams.put_node(node_info, self._dra)
                after = node_info.dra
                if after is not None and (more := after.more_than(before)):
                    freed[name] = more
        if self._teams.table is not None:
            self._teams.put_claims(self._dra)
        return freed

    def _count_devices(self, node_info: NodeInfo) -> bool:
        """Count the devices of a node's pools; returns whether the node has or had one."""
        assert node_info.node is not None
        before, after = node_info.dra, self._dra.devices_on(node_info.node)
        if before is None and after is None:
            return False
        self.offers.change_devices(before, after)
        node_info.upsert_devices(after)
        return True

    def remove_pod(self, pod: Pod, name: str) -> bool:
        """Remove a pod from its node; False if it was not there."""
        node_info = self.node_info.get(name)
        if node_info is None or (removed := node_info.remove(pod.uid)) is None:
            return False
        self.priorities.change(removed, None, name)
        if self._teams.table is not None:
            self._teams.drop_pod(node_info, removed)
        if pod.volumes:
            self._volumes.users.remove(pod)
        self.topology.remove_pod(pod.uid)
        if node_info.node is not None:
            self._put(node_info)
            self._touch(name)
        elif not node_info.pods:
            del self.node_info[name]
        return True

    def _touch(self, name: str, *, added: bool = False) -> None:
        self.filter_results.touch(name, added=added)
        self.memo.change(name)
        self.changed_names.add(name)

    def _is_better(self, before: Node, after: Node) -> bool:
        more = any(amount > before.allocatable.get(r, 0) for r, amount in after.allocatable.items())
        return (
            more
            or (before.devices, before.dynamic_mig) != (after.devices, after.dynamic_mig)
            or before.capacity != after.capacity
            or before.declared_features != after.declared_features
            or (before.unschedulable, before.taints) != (after.unschedulable, after.taints)
            or self._are_distinct(before.labels, after.labels)
        )

    def _are_distinct(self, before: Mapping[str, str], after: Mapping[str, str]) -> bool:
        """Whether labels differ under a key that a pod or a filter reads."""
        if before == after:
            return False
        return any(
            before.get(key) != after.get(key)
            for key in (*before, *after)
            if self.index.labels.is_named(key)
            or well_known.is_read_by_filters(key)
            or self._volumes.reads_label(key)
        )

    def _unalias(self, node: Node) -> None:
        for alias in _aliases(node):
            holders = self._aliases.get(alias, set())
            holders.discard(node.name)
            if not holders:
                self._aliases.pop(alias, None)


def _aliases(node: Node) -> set[str]:
    return {node.labels[key] for key in well_known.NODE_ALIASES if key in node.labels}
