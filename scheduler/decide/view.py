"""What a decision may look at: the cluster, or the cluster with things tried out on top."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Protocol

import msgspec

from scheduler.decide.mig import instance_plan
from scheduler.model import well_known
from scheduler.model.crd.migration import is_for
from scheduler.model.device import Devices
from scheduler.model.limits import DECISION_STEPS_MAX
from scheduler.model.node import Namespace
from scheduler.model.pod import Pod
from scheduler.state.cache.cluster import Cluster
from scheduler.state.cache.nodes import Nodes
from scheduler.state.index.filter_cache import FilterResultCache
from scheduler.state.index.node_index import NodeIndex
from scheduler.state.node_info import NodeInfo
from scheduler.state.webhook_scope import WebhookScope


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


class Profile(msgspec.Struct, frozen=True, kw_only=True):
    """How this scheduler decides; made from the configuration once.

    With ``expects_webhook`` a mapped pod that came past the webhook is not bound; the webhook is
    never asked about pods in ``own_namespace``. ``fallback_scope`` is the configuration's.
    ``decision_steps_max`` is what one decision, or one admission, may cost (``decide/budget``).
    """

    scheduler_name: str = "gpu-scheduler"
    placement: str = "pack"
    maps_allow: str = "labelled"
    expects_webhook: bool = False
    own_namespace: str = ""
    fallback_scope: str = "ours"
    decision_steps_max: int = DECISION_STEPS_MAX

    @property
    def reach(self) -> WebhookScope:
        """About which pods the webhook is asked."""
        return WebhookScope(
            scheduler_name=self.scheduler_name,
            own_namespace=self.own_namespace,
            scope=self.fallback_scope,
        )


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
    move = nominated.get(pod.annotations.get(well_known.MOVE, ""))
    return move is not None and is_for(move, pod)
