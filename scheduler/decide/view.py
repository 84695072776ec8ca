"""The cluster with hypothetical placements on top, as plugins and searches read it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from scheduler.framework.view import View
from scheduler.model import well_known
from scheduler.model.crd.migration import is_for
from scheduler.model.gpu.device import Devices
from scheduler.model.pods.pod import Pod
from scheduler.plugins.dynamic_mig import instance_plan
from scheduler.state.cache.cluster import Cluster
from scheduler.state.node_info import NodeInfo, PodAllocation
from scheduler.state.topology.reader import Change


class WhatIfView:
    """The cluster with some pods placed on top; the cluster itself is never changed."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self.index = cluster.index
        self.nodes = cluster.nodes
        self.filter_results = cluster.filter_results
        self.changed: dict[str, NodeInfo] = {}
        self.nominated: Mapping[str, Pod] = {}
        self.resolve = cluster.resolve
        self.namespace = cluster.namespace
        #: Without the pods that are removed.
        self._with_placed = cluster.topology
        self.topology = cluster.topology
        self.volumes = cluster.volumes
        self.indexes_held = cluster.indexes_held
        self.preemptions = cluster.preemptions
        self._removed: dict[str, tuple[Pod, str, PodAllocation]] = {}

    def candidates(self) -> Iterator[NodeInfo]:
        """NodeInfos of all existing nodes; copies replace those with placements on top."""
        for node_info in self._cluster.candidates():
            assert node_info.node is not None
            yield self.changed.get(node_info.node.name, node_info)

    def at(self, name: str) -> NodeInfo | None:
        """The NodeInfo of one node with the placements on top, or None if the node does not
        exist.
        """
        return self.changed.get(name) or self._cluster.at(name)

    def hold(self, pods: Iterable[Pod]) -> None:
        """Place pods on their nominated nodes."""
        expected = self._cluster.nominations.expected
        for pod in pods:
            self.place(pod, pod.nominated_node, expected.get(pod.uid))

    def place(self, pod: Pod, node_name: str, devices: Devices | None) -> None:
        """Place a pod on a copy of the NodeInfo; an unknown node is ignored."""
        node_info = self.at(node_name)
        if node_info is None:
            return
        node_info = self._copied(node_name, node_info)
        if devices is None and (chosen := instance_plan.mig_placements(pod, node_info)):
            # The pod has no placement yet: use one of its possible placements.
            devices = Devices(mig_placements=chosen)
        node_info.add(pod, self.nodes.allocation(pod, devices))
        self._count(Change(pod, node_name, 1))

    def lift(self, pod: Pod) -> None:
        """Remove a nominated pod from its node."""
        node_info = self.changed.get(pod.nominated_node)
        if node_info is not None and node_info.remove(pod.uid) is not None:
            self._count(Change(pod, pod.nominated_node, -1))

    def remove(self, uid: str, node_name: str) -> None:
        """Take a placed pod off its node, until ``put_back``."""
        node_info = self.at(node_name)
        assert node_info is not None, f"{node_name} does not exist"
        node_info = self._copied(node_name, node_info)
        pod, allocation = node_info.pods[uid]
        self._removed[uid] = (pod, node_name, allocation)
        node_info.remove(uid)
        self._count_removed()

    def put_back(self, uid: str) -> None:
        """Enter a pod again that was removed; it holds what it held."""
        pod, node_name, allocation = self._removed.pop(uid)
        self.changed[node_name].add(pod, allocation)
        self._count_removed()

    def _copied(self, node_name: str, node_info: NodeInfo) -> NodeInfo:
        """A copy of the node's books, made once."""
        if node_name not in self.changed:
            self.changed[node_name] = node_info.copy()
        return self.changed[node_name]

    def _count_removed(self) -> None:
        """Not one change after the other: a pod may be removed and put back many times."""
        removed = (Change(pod, name, -1) for pod, name, _ in self._removed.values())
        self.topology = self._with_placed.with_changes(removed)

    def discount(self, pod: Pod, node_name: str) -> None:
        """Do not count a placed pod in its topology domains."""
        self._count(Change(pod, node_name, -1))

    def _count(self, change: Change) -> None:
        self._with_placed = self._with_placed.with_changes((change,))
        self._count_removed()


def beside_nominated(view: View, pod: Pod) -> View:
    """The view for a pod: preemptors of equal or higher priority hold their nominated nodes.

    This respects the preemption of other schedulers (``pkg/scheduler/framework/runtime``
    RunFilterPluginsWithNominatedPods): the capacity that they freed is reserved for them.
    """
    held = stronger(view.nominated, pod)
    if not held or not isinstance(view, Cluster):
        return view
    overlay = WhatIfView(view)
    overlay.hold(held)
    return overlay


def stronger(nominated: Mapping[str, Pod], pod: Pod) -> list[Pod]:
    """The nominated pods that reserve capacity against this pod, without those of its own
    migration.

    The pod that a migration holds capacity for is nominated as well, and counts once.
    """
    return [
        other
        for other in nominated.values()
        if other.uid != pod.uid
        and other.priority >= pod.priority
        and not is_for(other, pod)
        and not _is_held_by_a_move(other, nominated)
    ]


def _is_held_by_a_move(pod: Pod, nominated: Mapping[str, Pod]) -> bool:
    move = nominated.get(pod.annotations.get(well_known.MIGRATION, ""))
    return move is not None and is_for(move, pod)
