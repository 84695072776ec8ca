"""Answers ``GET /capacity``: the devices of every node, their holders, and the waiting pods.

A large cluster is summed in parts, and the loop runs between them: no decision waits for more than
one part. A node is consistent in itself, the sums may be a few milliseconds apart.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import datetime
from typing import Final, Protocol

import msgspec

from scheduler.model.timestamps import micro_time
from scheduler.report.decisions.api_types import API_VERSION, Capacity
from scheduler.state.cache.cluster import Cluster
from scheduler.state.capacity.node_devices import NodeDevices, devices_of, requested_by
from scheduler.state.capacity.summary import CapacitySummary, WaitingPod
from scheduler.state.queue.position import order
from scheduler.state.queue.scheduling_queue import QueuedPodInfo, SchedulingQueue

#: Nodes that are summed before the loop runs again.
PART: Final = 25
#: The same for waiting pods.
PODS_PART: Final = 500
NODES_MAX: Final = 10_000
WAITING_MAX: Final = 1_000


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

    async def take(self, *, with_nodes: bool, with_holders: bool) -> Capacity:
        """The sums, and on request each node and its holders."""
        cluster = self._context.cluster
        summary = CapacitySummary()
        nodes: list[NodeDevices] = []
        names = [one.node.name for one in cluster.candidates() if one.node is not None]
        for at, name in enumerate(sorted(names), start=1):
            node_info = cluster.at(name)
            if node_info is not None and node_info.node is not None:
                one = devices_of(node_info, cluster.dra)
                summary.add_node(one)
                if with_nodes and (one.devices or one.holders):
                    nodes.append(_shown(one, with_holders=with_holders))
            if at % PART == 0:
                await asyncio.sleep(0)
        entries, now = sorted(self._context.queue.entries(), key=order), self._clock()
        waiting: list[WaitingPod] = []
        for position, entry in enumerate(entries, start=1):
            pod = _waiting_pod(entry, position, now)
            summary.add_waiting(pod)
            if position <= WAITING_MAX:
                waiting.append(pod)
            if position % PODS_PART == 0:
                await asyncio.sleep(0)
        return Capacity(
            api_version=API_VERSION,
            leads=self._leads(),
            time=micro_time(self._wall()),
            nodes_total=len(names),
            models=summary.models(),
            namespaces=summary.namespaces(cluster.quotas.every()),
            nodes=tuple(nodes[:NODES_MAX]),
            nodes_left_out=max(0, len(nodes) - NODES_MAX),
            waiting=tuple(waiting),
            waiting_left_out=len(entries) - len(waiting),
        )


def _waiting_pod(entry: QueuedPodInfo, position: int, now: float) -> WaitingPod:
    return WaitingPod(
        namespace=entry.pod.namespace,
        pod=entry.pod.name,
        devices=requested_by(entry.pod),
        waits_s=round(max(0.0, now - entry.since), 3),
        place=entry.place,
        position=position,
        priority=entry.pod.priority,
        code=entry.code,
    )


def _shown(one: NodeDevices, *, with_holders: bool) -> NodeDevices:
    holders = one.holders if with_holders else ()
    return msgspec.structs.replace(one, holders=holders, by_namespace={}, degraded={})
