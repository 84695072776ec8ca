"""Gauges that are measured now and then: sizes of the state, and whether its books are sound.

Only nodes that changed are added up again, so an idle cluster of any size costs nothing.
"""

from __future__ import annotations

from scheduler.report.metrics import Metrics
from scheduler.state.cache.cluster import Cluster
from scheduler.state.node_info import over_committed
from scheduler.state.queue.scheduling_queue import SchedulingQueue
from scheduler.state.reservations import Reservations


class Gauges:
    """Measures one state."""

    def __init__(self, metrics: Metrics, cluster: Cluster) -> None:
        self._metrics = metrics
        self._cluster = cluster
        self._excess: dict[str, int] = {}

    def measure(self, queue: SchedulingQueue, promises: Reservations) -> None:
        """Set every gauge."""
        for name, size in queue.sizes().items():
            self._metrics.pending.labels(name).set(size)
        self._metrics.cache_size.labels("pods").set(len(self._cluster.pods))
        self._metrics.cache_size.labels("nodes").set(len(self._cluster.nodes))
        self._metrics.cache_size.labels("assumed_pods").set(len(self._cluster.assumed))
        self._metrics.promises.set(len(promises))
        self._metrics.over_committed.set(self._over_committed())

    def _over_committed(self) -> int:
        news = self._cluster.nodes.news
        for name in news:
            node_info = self._cluster.at(name)
            excess = sum(over_committed(node_info).values()) if node_info is not None else 0
            if excess:
                self._excess[name] = excess
            else:
                self._excess.pop(name, None)
        news.clear()
        return sum(self._excess.values())
