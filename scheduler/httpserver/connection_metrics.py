"""Metrics of one listener's connections; every label is from a closed list."""

from __future__ import annotations

from typing import Final, Literal

from prometheus_client import CollectorRegistry, Counter, Gauge

Port = Literal["webhook", "aggregated", "socket", "replicas", "health", "decisions"]
#: The reason why an open connection was closed: the total limit, the limit of its address, no file
#: descriptors left, or a timeout of the handshake, a head, a body or an unread response.
Dropped = Literal["crowded", "address", "files", "handshake", "head", "body", "unread"]
#: The reason why a new connection was not accepted: all others, or all of its address, were being
#: answered, or no file descriptors were left.
Refused = Literal["crowded", "address", "files"]

COUNTERS: Final[dict[str, tuple[str, tuple[str, ...]]]] = {
    "connections_dropped": (
        "Connections closed by a limit: crowded, address, files, handshake, head, body or unread"
        " (docs/security.md).",
        ("port", "reason"),
    ),
    "connections_refused": (
        "Connections that were not accepted: crowded, address or files.",
        ("port", "reason"),
    ),
}
GAUGES: Final[dict[str, tuple[str, tuple[str, ...]]]] = {
    "connections": ("Open connections by port.", ("port",)),
}


class Connections:
    """The metrics of all listeners of one process."""

    def __init__(self, registry: CollectorRegistry, prefix: str) -> None:
        """``prefix`` ends in an underscore."""
        self.open = Gauge(prefix + "connections", *GAUGES["connections"], registry=registry)
        self.dropped, self.refused = (
            Counter(prefix + name, text, labels, registry=registry)
            for name, (text, labels) in COUNTERS.items()
        )

    def of(self, port: Port) -> ConnectionMetrics:
        """The metrics of one listener."""
        return ConnectionMetrics(self, port)


class ConnectionMetrics:
    """The metrics of one listener."""

    def __init__(self, metrics: Connections, port: Port) -> None:
        self.port = port
        self._metrics = metrics
        self._open = metrics.open.labels(port)

    def open(self, count: int) -> None:
        """Set the number of open connections."""
        self._open.set(count)

    def dropped(self, reason: Dropped) -> None:
        """Count an open connection that was closed by a limit."""
        self._metrics.dropped.labels(self.port, reason).inc()

    def refused(self, reason: Refused) -> None:
        """Count a new connection that was closed at once."""
        self._metrics.refused.labels(self.port, reason).inc()


def uncounted(port: Port) -> ConnectionMetrics:
    """Metrics in a registry that is not scraped."""
    return Connections(CollectorRegistry(), "gpu_scheduler_").of(port)
