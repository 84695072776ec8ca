"""The webhook's metrics. Label values come from closed lists."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, Literal

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

from scheduler.httpserver.connection_metrics import Connections

#: ``patched``, ``unchanged`` and ``denied`` are decisions. ``ignored``: not a pod of this webhook.
#: ``malformed``: the review is invalid. ``error``: the webhook raised an exception.
Result = Literal["patched", "unchanged", "denied", "ignored", "malformed", "error"]

# The scheduler has one second to answer, the webhook two.
_BUCKETS_S: Final = (
    0.00025,
    0.0005,
    0.00075,
    0.001,
    0.0025,
    0.005,
    0.01,
    0.025,
    0.05,
    0.1,
    0.25,
    0.5,
    1.0,
    2.0,
)
_PREFIX: Final = "gpu_scheduler_webhook_"


class Metrics:
    """One registry per server, so that two servers in one process do not share numbers."""

    def __init__(self, seconds_to_expiry: Callable[[], float]) -> None:
        self._registry = CollectorRegistry()
        self._reviews = Counter(
            _PREFIX + "reviews",
            "Admission reviews by path and result.",
            ["path", "outcome"],
            registry=self._registry,
        )
        self._duration = Histogram(
            _PREFIX + "review_duration_seconds",
            "Time from the first byte of a review to its response.",
            ["path"],
            buckets=_BUCKETS_S,
            registry=self._registry,
        )
        self._unanswered = Counter(
            _PREFIX + "unanswered_queries",
            "Reviews decided without the scheduler, because it did not answer in time.",
            registry=self._registry,
        )
        connections = Connections(self._registry, _PREFIX)
        #: Of the TLS port's connections, and of those to the aggregated decisions API.
        self.connections = connections.of("webhook")
        self.aggregated = connections.of("aggregated")
        expiry = Gauge(
            _PREFIX + "certificate_expiry_seconds",
            "Seconds until the serving certificate expires; negative after that.",
            registry=self._registry,
        )
        expiry.set_function(seconds_to_expiry)

    def reviewed(self, path: str, result: Result, duration_s: float) -> None:
        """Count one review."""
        self._reviews.labels(path=path, outcome=result).inc()
        self._duration.labels(path=path).observe(duration_s)

    def unanswered(self) -> None:
        """Count one query without an answer."""
        self._unanswered.inc()

    def render(self) -> bytes:
        """The metrics in Prometheus' text format."""
        return generate_latest(self._registry)
