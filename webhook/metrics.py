"""The webhook's metrics. Label values come from closed lists."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, Literal

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    ProcessCollector,
    disable_created_metrics,
    generate_latest,
)

from scheduler.httpserver.build_info import version
from scheduler.httpserver.connection_metrics import Connections

# A "_created" series beside every counter doubles the scraped series and adds no information.
disable_created_metrics()  # type: ignore[no-untyped-call] # the library has no types here

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

COUNTERS: Final[dict[str, tuple[str, tuple[str, ...]]]] = {
    _PREFIX + "reviews": (
        "Admission reviews by path and result: patched, unchanged, denied, ignored (no pod of this"
        " webhook), malformed or error.",
        ("path", "result"),
    ),
    _PREFIX + "unanswered_queries": (
        "Reviews decided without the scheduler, because it did not answer in time.",
        (),
    ),
}
GAUGES: Final[dict[str, tuple[str, tuple[str, ...]]]] = {
    _PREFIX + "certificate_expiration_timestamp_seconds": (
        "When the serving certificate expires, in seconds since 1970.",
        (),
    ),
    _PREFIX + "build_info": ("Always 1; the label is the version of this program.", ("version",)),
}
HISTOGRAMS: Final[dict[str, tuple[str, tuple[str, ...]]]] = {
    _PREFIX + "review_duration_seconds": (
        "Time from the first byte of a review to its response.",
        ("path",),
    ),
}


class Metrics:
    """One registry per server, so that two servers in one process do not share numbers."""

    def __init__(self, expires: Callable[[], float]) -> None:
        """``expires`` is when the serving certificate ends, in seconds since 1970."""
        self._registry = CollectorRegistry()
        self._reviews = self._counter("reviews")
        self._unanswered = self._counter("unanswered_queries")
        text, labels = HISTOGRAMS[_PREFIX + "review_duration_seconds"]
        self._duration = Histogram(
            *(_PREFIX + "review_duration_seconds", text, labels),
            buckets=_BUCKETS_S,
            registry=self._registry,
        )
        connections = Connections(self._registry, _PREFIX)
        #: Of the TLS port's connections, and of those to the aggregated decisions API.
        self.connections = connections.of("webhook")
        self.aggregated = connections.of("aggregated")
        self._gauge("certificate_expiration_timestamp_seconds").set_function(expires)
        self._gauge("build_info").labels(version()).set(1)
        # process_*: memory, processor time and open files, as client_golang names them.
        ProcessCollector(registry=self._registry)

    def reviewed(self, path: str, result: Result, duration_s: float) -> None:
        """Count one review."""
        self._reviews.labels(path=path, result=result).inc()
        self._duration.labels(path=path).observe(duration_s)

    def unanswered(self) -> None:
        """Count one query without an answer."""
        self._unanswered.inc()

    def render(self) -> bytes:
        """The metrics in Prometheus' text format."""
        return generate_latest(self._registry)

    def _counter(self, name: str) -> Counter:
        text, labels = COUNTERS[_PREFIX + name]
        return Counter(_PREFIX + name, text, labels, registry=self._registry)

    def _gauge(self, name: str) -> Gauge:
        text, labels = GAUGES[_PREFIX + name]
        return Gauge(_PREFIX + name, text, labels, registry=self._registry)
