"""The controller's view of the cluster, folded from watches, and the nodes to reconcile.

Pure: updates come in, names of nodes come out. ``plan`` computes the desired state of a node.
"""

from __future__ import annotations

from collections.abc import Mapping

from fakegpu import names
from fakegpu.api_types import MapFacts, NodeFacts
from fakegpu.catalog.profiles import Document
from fakegpu.controller.node_events import (
    ConfigMapEvents,
    Event,
    NodeEvents,
    PartitionEvents,
    PluginConfigEvents,
    PodEvents,
    PodGroupEvents,
    ResourceClaimEvents,
    ResourceSliceEvents,
)
from fakegpu.controller.pods import Pods
from fakegpu.dra.store import Claims, Slices
from fakegpu.node.pod_devices import PodUse
from fakegpu.store import apply
from fakegpu.topology.document import read_config_map, read_profile
from fakegpu.topology.invalid import Invalid
from fakegpu.topology.pools import Pool, Topology
from fakegpu.topology.sharing import PluginConfig, chosen, read_plugin_config
from scheduler.model.crd.mig_partition import NodePartitions


class ClusterCache:
    """One cluster; ``dirty`` are nodes to reconcile, ``problems`` are to be logged, each once."""

    def __init__(self, topology_name: str) -> None:
        self._topology_name = topology_name
        self.nodes: dict[str, NodeFacts] = {}
        self.maps: dict[str, MapFacts] = {}
        #: Names of ConfigMaps whose deletion was observed.
        self.lost: set[str] = set()
        self.mig_partitions: dict[str, NodePartitions] = {}
        self.slices = Slices()
        self.claims = Claims()
        self._plugin: dict[str, MapFacts] = {}
        self._pods = Pods()
        #: None until one was decoded; then the last valid one.
        self.topology: Topology | None = None
        self._read_from: tuple[object, ...] = ()
        self._pools: dict[str, Pool] = {}
        self._configs: dict[str, PluginConfig] = {}
        self.dirty: dict[str, None] = {}
        self.problems: list[str] = []

    def fold(self, event: Event) -> None:
        """Fold an event."""
        match event:
            case NodeEvents(news):
                self._touch(*apply(self.nodes, news))
            case PodEvents(news):
                self._touch(*self._pods.fold(news))
            case PodGroupEvents(news):
                self._touch(*self._pods.fold_groups(news))
            case ConfigMapEvents(news):
                changed = apply(self.maps, news)
                self.lost |= set(changed) - self.maps.keys()
                self.lost -= self.maps.keys()
                self._touch(*filter(None, map(self._node_of, changed)))
                if any(self._node_of(name) is None for name in changed):
                    self._read_topology()
            case PartitionEvents(news):
                self._touch(*apply(self.mig_partitions, news))
            case ResourceSliceEvents(news):
                self._touch(*self.slices.fold(news))
            case ResourceClaimEvents(news):
                self._touch(*self.claims.fold(news))
            case PluginConfigEvents(news):
                apply(self._plugin, news)
                self._read_plugin()

    def touch_all(self) -> None:
        """Reconcile every node, and the leftovers of deleted nodes."""
        self._touch(*self.nodes, *filter(None, map(self._node_of, self.maps)))

    def take(self) -> str | None:
        """The next node to reconcile."""
        name = next(iter(self.dirty), None)
        if name is not None:
            del self.dirty[name]
        return name

    def map_name(self, node: str) -> str:
        """The name of a node's ConfigMap."""
        return f"{self._topology_name}-{node}"

    def map_of(self, node: str) -> MapFacts | None:
        """A node's ConfigMap."""
        return self.maps.get(self.map_name(node))

    def pods_on(self, node: str) -> list[PodUse]:
        """The pods on a node."""
        return self._pods.on(node)

    def pool_name(self, node: NodeFacts) -> str:
        """The pool in a node's label; an empty text if there is none."""
        return node.labels.get(self.topology.label_key, "") if self.topology else ""

    def pool(self, name: str) -> Pool | None:
        """A pool; the last valid version of one that became invalid."""
        return self._pools.get(name)

    def plugin_config(self, node: NodeFacts) -> PluginConfig | None:
        """The device plugin's configuration for a node."""
        files = {key: key for key in self._configs}
        return self._configs.get(chosen(files, node.labels.get(names.PLUGIN_CONFIG_LABEL, "")))

    def _touch(self, *nodes: str) -> None:
        for node in nodes:
            self.dirty[node] = None

    def _node_of(self, map_name: str) -> str | None:
        """The node of a ConfigMap; None for other ConfigMaps."""
        prefix = f"{self._topology_name}-"
        return map_name.removeprefix(prefix) if map_name.startswith(prefix) else None

    def _read_topology(self) -> None:
        """Decode changed pools and profiles; an invalid document changes nothing."""
        profiles = {
            name.removeprefix(names.PROFILE_CM_PREFIX): one.data.get(names.PROFILE_KEY, "")
            for name, one in self.maps.items()
            if name.startswith(names.PROFILE_CM_PREFIX)
        }
        source = self.maps.get(self._topology_name)
        read_from = (source.data if source else None, profiles)
        if read_from == self._read_from:
            return
        self._read_from = read_from
        if source is None:
            self.problems.append(f"there is no ConfigMap {self._topology_name} with the pools")
            return
        try:
            self.topology = read_config_map(source.data, self._documents(profiles))
        except Invalid as problem:
            self.problems.append(str(problem))
            return
        self.problems += self.topology.problems.values()
        kept = {n: p for n, p in self._pools.items() if n in self.topology.problems}
        self._pools = kept | self.topology.pools
        self.touch_all()

    def _documents(self, profiles: Mapping[str, str]) -> dict[str, Document]:
        found = {}
        for name, text in profiles.items():
            try:
                found[name] = read_profile(text)
            except Invalid as problem:
                self.problems.append(f"profile {name}: {problem}")
        return found

    def _read_plugin(self) -> None:
        configs: dict[str, PluginConfig] = {}
        for one in self._plugin.values():
            for key, text in one.data.items():
                try:
                    configs[key] = read_plugin_config(text)
                except Invalid as problem:
                    self.problems.append(f"device plugin configuration {one.name}/{key}: {problem}")
                    if key in self._configs:
                        configs[key] = self._configs[key]
        if configs != self._configs:
            self._configs = configs
            self.touch_all()
