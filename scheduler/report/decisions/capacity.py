"""Answers ``GET /capacity``: the devices of every node, their holders, and the waiting pods.

A large cluster is summed in parts, and the loop runs between them: no decision waits for more
than one part. A node is consistent in itself, the sums may be a few milliseconds apart.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Final, Protocol

import msgspec

from scheduler.model.timestamps import micro_time
from scheduler.report.decisions.api_types import API_VERSION, Capacity
from scheduler.state.cache.cluster import Cluster
from scheduler.state.capacity.node_devices import NodeDevices, devices_of, requested_by
from scheduler.state.capacity.summary import CapacitySummary, WaitingPod
from scheduler.state.node_info import NodeInfo
from scheduler.state.parts import Parts
from scheduler.state.queue.position import first, in_slices
from scheduler.state.queue.scheduling_queue import QueuedPodInfo, SchedulingQueue

#: A part ends after so many steps: one for each pod of a node, and some for the node.
PART: Final = 500
NODE_STEPS: Final = 10
#: A share of a GPU takes about twice as long as an amount of devices.
SHARES_WEIGHT: Final = 2
NODES_MAX: Final = 10_000
WAITING_MAX: Final = 1_000


#: What is done at each node.
OnNode = Callable[[NodeInfo], None]


class CapacityContext(Protocol):
    """The state that is summed."""

    @property
    def cluster(self) -> Cluster:
        """The cluster."""

    @property
    def queue(self) -> SchedulingQueue:
        """The pending pods."""


class CapacityReport:
    """Sums the state of one process; ``clock`` is the loop's, ``wall`` the wall clock."""

    def __init__(
        self,
        context: CapacityContext,
        leads: Callable[[], bool],
        clock: Callable[[], float],
        wall: Callable[[], datetime],
    ) -> None:
        self._context = context
        self._leads = leads
        self._clock = clock
        self._wall = wall

    def take(
        self, *, with_nodes: bool, with_holders: bool, beside: OnNode | None = None
    ) -> Parts[Capacity]:
        """The sums, and on request each node and its holders.

        ``beside`` is another sum over the same nodes, which is made in the same pass.
        """
        cluster, summary = self._context.cluster, CapacitySummary()
        nodes: list[NodeDevices] = []

        def add(node_info: NodeInfo) -> None:
            one = devices_of(node_info, cluster.dra)
            summary.add_node(one)
            if with_nodes and (one.devices or one.holders):
                nodes.append(_shown(one, with_holders=with_holders))
            if beside is not None:
                beside(node_info)

        weight = 1 if beside is None else 1 + SHARES_WEIGHT
        count = yield from over_nodes(cluster, add, weight)
        entries = list(self._context.queue.entries())
        waiting = yield from self._waiting(entries, summary)
        return Capacity(
            api_version=API_VERSION,
            leads=self._leads(),
            time=micro_time(self._wall()),
            nodes_total=count,
            models=summary.models(),
            namespaces=summary.namespaces(cluster.quotas.every()),
            nodes=tuple(nodes[:NODES_MAX]),
            nodes_left_out=max(0, len(nodes) - NODES_MAX),
            waiting=waiting,
            waiting_left_out=len(entries) - len(waiting),
        )

    def _waiting(
        self, entries: Sequence[QueuedPodInfo], summary: CapacitySummary
    ) -> Parts[tuple[WaitingPod, ...]]:
        """The first waiting pods in their order; every one counts in the sums."""
        now = self._clock()
        for part in in_slices(entries):
            for entry in part:
                pod, waits_s = entry.pod, _waits_s(entry, now)
                summary.add_waiting(pod.namespace, requested_by(pod), waits_s, entry.code)
            yield len(part)
        waiting: list[WaitingPod] = []
        for part in in_slices((yield from first(entries, WAITING_MAX))):
            for at, entry in enumerate(part, start=len(waiting) + 1):
                waiting.append(_waiting_pod(entry, at, now))
            yield len(part)
        return tuple(waiting)


def over_nodes(cluster: Cluster, on_node: OnNode, weight: int = 1) -> Parts[int]:
    """Pass each node once, in the order of the names; returns the number of all nodes.

    A step of this pass takes ``weight`` times as long as one that sums devices.
    """
    names = sorted(one.node.name for one in cluster.candidates() if one.node is not None)
    steps = 0
    for name in names:
        node_info = cluster.at(name)
        if node_info is None or node_info.node is None:
            continue
        on_node(node_info)
        steps += weight * (NODE_STEPS + len(node_info.pods))
        if steps >= PART:
            yield steps
            steps = 0
    yield steps
    return len(names)


def _waiting_pod(entry: QueuedPodInfo, position: int, now: float) -> WaitingPod:
    return WaitingPod(
        namespace=entry.pod.namespace,
        pod=entry.pod.name,
        devices=requested_by(entry.pod),
        waits_s=_waits_s(entry, now),
        place=entry.place,
        position=position,
        priority=entry.pod.priority,
        code=entry.code,
    )


def _waits_s(entry: QueuedPodInfo, now: float) -> float:
    return round(max(0.0, now - entry.since), 3)


def _shown(one: NodeDevices, *, with_holders: bool) -> NodeDevices:
    holders = one.holders if with_holders else ()
    return msgspec.structs.replace(one, holders=holders, by_namespace={}, degraded={})
