"""Gauges of the state: its sizes, and the number of over-committed devices.

Only nodes that changed are summed again, so an idle cluster of any size costs nothing.
"""

from __future__ import annotations

from scheduler.report.metrics import Metrics
from scheduler.state.effects import NOTHING, Effects
from scheduler.state.node_info import over_committed
from scheduler.state.scheduler_state import SchedulerState


class Gauges:
    """Sets the gauges of one state."""

    name = "gauges"

    def __init__(self, metrics: Metrics, state: SchedulerState) -> None:
        self._metrics = metrics
        self._state = state
        self._excess: dict[str, int] = {}

    def tick(self, now: float, *, leads: bool) -> Effects:
        """Set every gauge."""
        cluster = self._state.cluster
        for name, size in self._state.queue.sizes().items():
            self._metrics.pending.labels(name).set(size)
        self._metrics.cache_size.labels("pods").set(len(cluster.pods))
        self._metrics.cache_size.labels("nodes").set(len(cluster.nodes))
        self._metrics.cache_size.labels("assumed_pods").set(len(cluster.assumed))
        self._metrics.reservations.set(len(self._state.reservations))
        self._metrics.over_committed.set(self._over_committed())
        if cluster.teams.table is not None:
            for resource, part in zip(("slices", "memory"), cluster.teams.scale, strict=True):
                self._metrics.covered.labels(resource).set(float(part))
        return NOTHING

    def _over_committed(self) -> int:
        nodes = self._state.cluster.nodes
        changed_names = nodes.changed_names
        for name in changed_names:
            node_info = nodes.at(name)
            excess = sum(over_committed(node_info).values()) if node_info is not None else 0
            if excess:
                self._excess[name] = excess
            else:
                self._excess.pop(name, None)
        changed_names.clear()
        return sum(self._excess.values())
