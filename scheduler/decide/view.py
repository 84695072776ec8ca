"""The cluster with placements tried out on top, as plugins and searches see it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from scheduler.framework.view import View
from scheduler.model import well_known
from scheduler.model.crd.migration import is_for
from scheduler.model.gpu.device import Devices
from scheduler.model.pods.pod import Pod
from scheduler.plugins.dynamic_mig import instance_plan
from scheduler.state.cache.cluster import Cluster
from scheduler.state.node_info import NodeInfo


class WhatIfView:
    """The cluster with some pods placed on top; the cluster itself is never changed."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self.index = cluster.index
        self.nodes = cluster.nodes
        self.verdicts = cluster.verdicts
        self.changed: dict[str, NodeInfo] = {}
        self.nominated: Mapping[str, Pod] = {}
        self.resolve = cluster.resolve
        self.namespace = cluster.namespace
        self.indexes_held = cluster.indexes_held

    def candidates(self) -> Iterator[NodeInfo]:
        """Books of all existing nodes, those that were tried out replaced by copies."""
        for node_info in self._cluster.candidates():
            assert node_info.node is not None
            yield self.changed.get(node_info.node.name, node_info)

    def at(self, name: str) -> NodeInfo | None:
        """The books of one node as tried out, or None when it does not exist."""
        return self.changed.get(name) or self._cluster.at(name)

    def hold(self, pods: Iterable[Pod]) -> None:
        """Enter pods on the nodes that they are nominated for."""
        for pod in pods:
            self.place(pod, pod.nominated_node, None)

    def place(self, pod: Pod, node_name: str, devices: Devices | None) -> None:
        """Enter a pod on a copy of the node's books; an unknown node is ignored."""
        node_info = self.at(node_name)
        if node_info is None:
            return
        if node_name not in self.changed:
            node_info = self.changed[node_name] = node_info.copy()
        if devices is None and (chosen := instance_plan.spots(pod, node_info)):
            # It stands for somebody who is not placed yet: some place that it could have.
            devices = Devices(spots=chosen)
        node_info.add(pod, self.nodes.holding(pod, devices))

    def lift(self, pod: Pod) -> None:
        """Take a pod off again that was entered on the node it is nominated for."""
        node_info = self.changed.get(pod.nominated_node)
        if node_info is not None:
            node_info.remove(pod.uid)


def beside_nominated(view: View, pod: Pod) -> View:
    """The view that a pod must see: equally strong preemptors hold the nodes they wait for.

    A courtesy to other schedulers' preemption (``pkg/scheduler/framework/runtime``
    RunFilterPluginsWithNominatedPods): what they freed is not ours to take.
    """
    held = stronger(view.nominated, pod)
    if not held or not isinstance(view, Cluster):
        return view
    overlay = WhatIfView(view)
    overlay.hold(held)
    return overlay


def stronger(nominated: Mapping[str, Pod], pod: Pod) -> list[Pod]:
    """The nominated pods that this one must respect; what a move holds for it is its own.

    A pod that waits for what a move holds for it is nominated as well, and counts once.
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
