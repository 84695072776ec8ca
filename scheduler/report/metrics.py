"""Every metric in one table. Labels come from closed lists; never a pod's name or a message.

Names with the prefix ``scheduler_`` and their buckets are kube-scheduler's
(``pkg/scheduler/metrics/metrics.go``), so that existing dashboards work; ours say
``gpu_scheduler_``.
"""

from __future__ import annotations

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    disable_created_metrics,
)

from scheduler.httpserver.connection_metrics import Connections

# A "_created" series beside every counter doubles what is scraped and tells nobody anything.
disable_created_metrics()  # type: ignore[no-untyped-call] # the library has no types here


def _doubling(first: float, count: int) -> tuple[float, ...]:
    return tuple(first * 2**n for n in range(count))


COUNTERS: dict[str, tuple[str, tuple[str, ...]]] = {
    "scheduler_schedule_attempts": (
        "Attempts to place a pod, by result: scheduled, unschedulable or error.",
        ("result", "profile"),
    ),
    "gpu_scheduler_rejections": (
        "Decisions that said no, by reason code (docs/reasons.md).",
        ("code",),
    ),
    "gpu_scheduler_binds": ("Bindings by how they ended.", ("outcome",)),
    "gpu_scheduler_reports": (
        "Events and conditions by what became of them.",
        ("what", "result"),
    ),
    "gpu_scheduler_pods_rejected_by_nodes": (
        "Pods that a kubelet refused after we bound them, by the kubelet's reason.",
        ("reason",),
    ),
    "gpu_scheduler_watch_failures": ("Lists and watches that broke, by kind.", ("kind",)),
    "gpu_scheduler_relists": (
        "Kinds listed again, by why: expired, unreadable (no API server answered), or lead.",
        ("kind", "reason"),
    ),
    "gpu_scheduler_unreadable_objects": (
        "Objects of which something cannot be read, by kind; the log names them.",
        ("kind",),
    ),
    "gpu_scheduler_internal_errors": (
        "Exceptions that one object caused and that were contained, by what was being done.",
        ("part",),
    ),
    "gpu_scheduler_admissions": (
        "MIG requests seen at admission: kept, degraded, waits, denied, or quota (left to it).",
        ("result",),
    ),
    "gpu_scheduler_admission_tiers": (
        "Tiers looked at for pods at admission: granted, full, or why they were not tried:"
        " absent, quota, floor, crashed, labels or group.",
        ("tier", "result"),
    ),
    "gpu_scheduler_replaced_pods": (
        "Pods that came past the webhook: replaced, gone, refused or unreachable.",
        ("result",),
    ),
    "gpu_scheduler_moves": (
        "Moves to another tier by what became of them; reasons against one count once per pod.",
        ("move", "result"),
    ),
    "gpu_scheduler_mig_cuts": (
        "MIG instances that were asked for, by pod: ready, failed or timeout.",
        ("result",),
    ),
    "gpu_scheduler_forwarded_questions": (
        "A standby's questions to the leader: answered, unanswered or no_leader.",
        ("result",),
    ),
}
GAUGES: dict[str, tuple[str, tuple[str, ...]]] = {
    "scheduler_pending_pods": (
        "Pods that wait, by queue: active, backoff or unschedulable.",
        ("queue",),
    ),
    "scheduler_cache_size": (
        "Objects in the cluster state: nodes, pods, assumed_pods.",
        ("type",),
    ),
    "gpu_scheduler_over_committed_devices": (
        "GPUs and MIG instances held beyond what nodes offer, or held twice; 0 is sound.",
        (),
    ),
    "leader_election_master_status": ("1 while this process leads.", ("name",)),
    "gpu_scheduler_avoided_nodes": (
        "Nodes that are avoided for a while by some pods because they rejected such.",
        (),
    ),
    "gpu_scheduler_promises": ("Tiers promised to pods not placed yet.", ()),
}
HISTOGRAMS: dict[str, tuple[str, tuple[str, ...], tuple[float, ...]]] = {
    "scheduler_scheduling_algorithm_duration_seconds": (
        "Time of one decision.",
        (),
        _doubling(0.0001, 15),
    ),
    "scheduler_pod_scheduling_sli_duration_seconds": (
        "Time from the first sight of a pod to its Binding, by number of attempts.",
        ("attempts",),
        _doubling(0.01, 20),
    ),
}


class Metrics:
    """The scheduler's metrics, on a registry of their own. ``profile`` is the scheduler's name."""

    def __init__(self, profile: str) -> None:
        self.profile = profile
        self.registry = CollectorRegistry()
        self.connections = Connections(self.registry, "gpu_scheduler_")
        self.attempts = self._counter("scheduler_schedule_attempts")
        self.rejections = self._counter("gpu_scheduler_rejections")
        self.binds = self._counter("gpu_scheduler_binds")
        self.reports = self._counter("gpu_scheduler_reports")
        self.watch_failures = self._counter("gpu_scheduler_watch_failures")
        self.relists = self._counter("gpu_scheduler_relists")
        self.unreadable = self._counter("gpu_scheduler_unreadable_objects")
        self.internal_errors = self._counter("gpu_scheduler_internal_errors")
        self.tiers = self._counter("gpu_scheduler_admissions")
        self.tier_tries = self._counter("gpu_scheduler_admission_tiers")
        self.replaced = self._counter("gpu_scheduler_replaced_pods")
        self.moves = self._counter("gpu_scheduler_moves")
        self.cuts = self._counter("gpu_scheduler_mig_cuts")
        self.forwarded = self._counter("gpu_scheduler_forwarded_questions")
        self.pending = self._gauge("scheduler_pending_pods")
        self.cache_size = self._gauge("scheduler_cache_size")
        self.over_committed = self._gauge("gpu_scheduler_over_committed_devices")
        self.leader = self._gauge("leader_election_master_status")
        self.rejected_by_nodes = self._counter("gpu_scheduler_pods_rejected_by_nodes")
        self.avoided = self._gauge("gpu_scheduler_avoided_nodes")
        self.promises = self._gauge("gpu_scheduler_promises")
        self.algorithm_s = self._histogram("scheduler_scheduling_algorithm_duration_seconds")
        self.sli_s = self._histogram("scheduler_pod_scheduling_sli_duration_seconds")

    def count_internal_error(self, part: str) -> None:
        """An exception was contained (``report/containment``)."""
        self.internal_errors.labels(part).inc()

    def _counter(self, name: str) -> Counter:
        text, labels = COUNTERS[name]
        return Counter(name, text, labels, registry=self.registry)

    def _gauge(self, name: str) -> Gauge:
        text, labels = GAUGES[name]
        return Gauge(name, text, labels, registry=self.registry)

    def _histogram(self, name: str) -> Histogram:
        text, labels, buckets = HISTOGRAMS[name]
        return Histogram(name, text, labels, buckets=buckets, registry=self.registry)
