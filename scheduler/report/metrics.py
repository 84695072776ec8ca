"""Every metric in one table. Labels come from closed lists; never a pod's name or a message.

Names with the prefix ``scheduler_`` and their buckets are kube-scheduler's
(``pkg/scheduler/metrics/metrics.go``), so that existing dashboards work; ours say
``gpu_scheduler_``.
"""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram


def _doubling(first: float, count: int) -> list[float]:
    return [first * 2**n for n in range(count)]


class Metrics:
    """The scheduler's metrics, on a registry of their own."""

    def __init__(self, profile: str) -> None:
        self.registry = registry = CollectorRegistry()
        self.profile = profile
        self.attempts = Counter(
            "scheduler_schedule_attempts",
            "Attempts to place a pod, by result: scheduled, unschedulable or error.",
            ["result", "profile"],
            registry=registry,
        )
        self.algorithm_s = Histogram(
            "scheduler_scheduling_algorithm_duration_seconds",
            "Time of one decision.",
            buckets=_doubling(0.0001, 15),
            registry=registry,
        )
        self.sli_s = Histogram(
            "scheduler_pod_scheduling_sli_duration_seconds",
            "Time from the first sight of a pod to its Binding, by number of attempts.",
            ["attempts"],
            buckets=_doubling(0.01, 20),
            registry=registry,
        )
        self.pending = Gauge(
            "scheduler_pending_pods",
            "Pods that wait, by queue: active, backoff or unschedulable.",
            ["queue"],
            registry=registry,
        )
        self.cache_size = Gauge(
            "scheduler_cache_size",
            "Objects in the cluster state: nodes, pods, assumed_pods.",
            ["type"],
            registry=registry,
        )
        self.rejections = Counter(
            "gpu_scheduler_rejections",
            "Decisions that said no, by reason code (docs/reasons.md).",
            ["code"],
            registry=registry,
        )
        self.binds = Counter(
            "gpu_scheduler_binds", "Bindings by how they ended.", ["outcome"], registry=registry
        )
        self.reports = Counter(
            "gpu_scheduler_reports",
            "Events and conditions by what became of them.",
            ["what", "result"],
            registry=registry,
        )
        self.watch_failures = Counter(
            "gpu_scheduler_watch_failures",
            "Lists and watches that broke, by kind.",
            ["kind"],
            registry=registry,
        )
        self.over_committed = Gauge(
            "gpu_scheduler_over_committed_devices",
            "GPUs and MIG instances held beyond what nodes offer, or held twice; 0 is sound.",
            registry=registry,
        )
        self.leader = Gauge(
            "leader_election_master_status",
            "1 while this process leads.",
            ["name"],
            registry=registry,
        )
        self.tiers = Counter(
            "gpu_scheduler_admissions",
            "MIG requests seen at admission: kept, degraded, waits or denied.",
            ["result"],
            registry=registry,
        )
        self.promises = Gauge(
            "gpu_scheduler_promises", "Tiers promised to pods not placed yet.", registry=registry
        )
