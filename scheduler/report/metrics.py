"""The scheduler's metrics in one table. Label values come from closed lists.

Every name has the prefix ``gpu_scheduler_``, so that no series mixes with kube-scheduler's. A
metric that kube-scheduler has too (``pkg/scheduler/metrics/metrics.go``) keeps its name behind the
prefix, its labels and its buckets.
"""

from __future__ import annotations

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    ProcessCollector,
    disable_created_metrics,
)

from scheduler.httpserver.build_info import version
from scheduler.httpserver.connection_metrics import Connections

# A "_created" series beside every counter doubles the scraped series and adds no information.
disable_created_metrics()  # type: ignore[no-untyped-call] # the library has no types here


def _doubling(first: float, count: int) -> tuple[float, ...]:
    return tuple(first * 2**n for n in range(count))


COUNTERS: dict[str, tuple[str, tuple[str, ...]]] = {
    "gpu_scheduler_schedule_attempts": (
        "Scheduling attempts by result: scheduled, unschedulable or error.",
        ("result", "profile"),
    ),
    "gpu_scheduler_rejections": (
        "Rejected scheduling attempts by reason code (docs/reasons.md).",
        ("code",),
    ),
    "gpu_scheduler_binds": (
        "Bindings by result: bound, gone, taken, refused, unreachable or unsent (not sent).",
        ("result",),
    ),
    "gpu_scheduler_event_writes": (
        "Writes of events and pod conditions by result: sent, busy, dropped, gone, refused, stale"
        " or unreachable.",
        ("object", "result"),
    ),
    "gpu_scheduler_pods_rejected_by_nodes": (
        "Pods rejected by the kubelet after the Binding, by the kubelet's reason.",
        ("reason",),
    ),
    "gpu_scheduler_watch_failures": ("Failed lists and watches by kind.", ("kind",)),
    "gpu_scheduler_relists": (
        "Lists after the first one by reason: expired, unreadable (invalid response) or lead.",
        ("kind", "reason"),
    ),
    "gpu_scheduler_unreadable_objects": (
        "Objects with an invalid field by kind; the log names them.",
        ("kind",),
    ),
    "gpu_scheduler_internal_errors": (
        "Contained exceptions, each caused by one object, by the operation that failed.",
        ("part",),
    ),
    "gpu_scheduler_admissions": (
        "MIG requests at admission by result: kept, degraded, pending, denied or quota_exceeded.",
        ("result",),
    ),
    "gpu_scheduler_admission_tiers": (
        "Tiers of fallback ladders at admission by result: granted, full, or the cause why a tier"
        " was not tried: absent, quota_exceeded, floor, crashed, labels or group.",
        ("tier", "result"),
    ),
    "gpu_scheduler_recreated_pods": (
        "Deletions of pods created without the webhook, by result: replaced, gone, refused or"
        " unreachable.",
        ("result",),
    ),
    "gpu_scheduler_migrations": (
        "Migrations by type and result; a blocker counts once per pod, by its code.",
        ("type", "result"),
    ),
    "gpu_scheduler_mig_partitions": (
        "MIG partition requests, one per pod, by result: ready, failed or timeout.",
        ("result",),
    ),
    "gpu_scheduler_preemption_victims": (
        "Pods that were preempted for a pod of higher priority or for a team's guarantee, by"
        " result: deleted, gone, refused, unreachable, unsent, or dropped where the pod was not"
        " bound yet.",
        ("result",),
    ),
    "gpu_scheduler_volume_bindings": (
        "Placements that waited for claims, by result: bound, refused, undone, gone or timeout.",
        ("result",),
    ),
    "gpu_scheduler_claim_allocations": (
        "Placements that waited for ResourceClaims, by result: reserved, refused, failed, gone,"
        " collision or timeout.",
        ("result",),
    ),
    "gpu_scheduler_forwarded_admission_queries": (
        "Admission queries forwarded to the leader, by result: answered, unanswered or no_leader.",
        ("result",),
    ),
}
GAUGES: dict[str, tuple[str, tuple[str, ...]]] = {
    "gpu_scheduler_pending_pods": (
        "Pending pods by queue: active, backoff or unschedulable.",
        ("queue",),
    ),
    "gpu_scheduler_cache_size": (
        "Objects in the cluster state by type: nodes, pods, assumed_pods.",
        ("type",),
    ),
    "gpu_scheduler_over_committed_devices": (
        "GPUs and MIG instances assigned beyond allocatable, or assigned twice; expected: 0.",
        (),
    ),
    "gpu_scheduler_colliding_claims": (
        "ResourceClaims with devices that another claim had before; expected: 0.",
        (),
    ),
    "gpu_scheduler_leader_election_master_status": (
        "1 while this process is the leader, else 0.",
        ("name",),
    ),
    "gpu_scheduler_avoided_nodes": (
        "Nodes in backoff for some pods, because the kubelet rejected such pods.",
        (),
    ),
    "gpu_scheduler_reservations": (
        "Reservations: tiers granted at admission to pods that are not placed yet.",
        (),
    ),
    "gpu_scheduler_team_guarantees_covered": (
        "Part of all guarantees of teams that the cluster covers, from 0 to 1, by resource: slices"
        " or memory. Below 1 every guarantee is scaled (docs/teams.md).",
        ("resource",),
    ),
    "gpu_scheduler_build_info": (
        "Always 1; the label is the version of this program.",
        ("version",),
    ),
}
HISTOGRAMS: dict[str, tuple[str, tuple[str, ...], tuple[float, ...]]] = {
    "gpu_scheduler_scheduling_algorithm_duration_seconds": (
        "Duration of one scheduling decision.",
        (),
        _doubling(0.0001, 15),
    ),
    "gpu_scheduler_pod_scheduling_sli_duration_seconds": (
        "Time from the first observation of a pod to its Binding, by number of attempts.",
        ("attempts",),
        _doubling(0.01, 20),
    ),
}


#: The results of scheduling attempts.
ATTEMPT_RESULTS = ("scheduled", "unschedulable", "error")


class Metrics:
    """The scheduler's metrics, in a registry of their own. ``profile`` is the scheduler's name."""

    def __init__(self, profile: str) -> None:
        self.profile = profile
        self.registry = CollectorRegistry()
        # process_*: memory, processor time and open files, as client_golang names them.
        ProcessCollector(registry=self.registry)
        self.connections = Connections(self.registry, "gpu_scheduler_")
        self.attempts = self._counter("gpu_scheduler_schedule_attempts")
        self.rejections = self._counter("gpu_scheduler_rejections")
        self.binds = self._counter("gpu_scheduler_binds")
        self.reports = self._counter("gpu_scheduler_event_writes")
        self.watch_failures = self._counter("gpu_scheduler_watch_failures")
        self.relists = self._counter("gpu_scheduler_relists")
        self.unreadable = self._counter("gpu_scheduler_unreadable_objects")
        self.internal_errors = self._counter("gpu_scheduler_internal_errors")
        self.tiers = self._counter("gpu_scheduler_admissions")
        self.tier_tries = self._counter("gpu_scheduler_admission_tiers")
        self.replaced = self._counter("gpu_scheduler_recreated_pods")
        self.moves = self._counter("gpu_scheduler_migrations")
        self.mig_partitions = self._counter("gpu_scheduler_mig_partitions")
        self.victims = self._counter("gpu_scheduler_preemption_victims")
        self.volume_bindings = self._counter("gpu_scheduler_volume_bindings")
        self.claim_allocations = self._counter("gpu_scheduler_claim_allocations")
        self.forwarded = self._counter("gpu_scheduler_forwarded_admission_queries")
        self.pending = self._gauge("gpu_scheduler_pending_pods")
        self.cache_size = self._gauge("gpu_scheduler_cache_size")
        self.over_committed = self._gauge("gpu_scheduler_over_committed_devices")
        self.covered = self._gauge("gpu_scheduler_team_guarantees_covered")
        self.colliding_claims = self._gauge("gpu_scheduler_colliding_claims")
        self.leader = self._gauge("gpu_scheduler_leader_election_master_status")
        self.rejected_by_nodes = self._counter("gpu_scheduler_pods_rejected_by_nodes")
        self.avoided = self._gauge("gpu_scheduler_avoided_nodes")
        self.reservations = self._gauge("gpu_scheduler_reservations")
        self._gauge("gpu_scheduler_build_info").labels(version()).set(1)
        self.algorithm_s = self._histogram("gpu_scheduler_scheduling_algorithm_duration_seconds")
        self.sli_s = self._histogram("gpu_scheduler_pod_scheduling_sli_duration_seconds")
        self.begin_at_zero(self.attempts, *((one, profile) for one in ATTEMPT_RESULTS))

    def count_internal_error(self, part: str) -> None:
        """Count a contained exception (``report/containment``)."""
        self.internal_errors.labels(part).inc()

    @staticmethod
    def begin_at_zero(counter: Counter, *label_values: tuple[str, ...]) -> None:
        """Show these series before their first event: without a former value, ``rate`` and
        ``increase`` of Prometheus do not see the first one.
        """
        for values in label_values:
            counter.labels(*values)

    def _counter(self, name: str) -> Counter:
        text, labels = COUNTERS[name]
        return Counter(name, text, labels, registry=self.registry)

    def _gauge(self, name: str) -> Gauge:
        text, labels = GAUGES[name]
        return Gauge(name, text, labels, registry=self.registry)

    def _histogram(self, name: str) -> Histogram:
        text, labels, buckets = HISTOGRAMS[name]
        return Histogram(name, text, labels, buckets=buckets, registry=self.registry)
