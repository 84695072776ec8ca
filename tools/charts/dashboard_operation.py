"""The other panels: MIG, nodes, the scheduler's own operation, and the GPUs of the lab."""

from __future__ import annotations

from typing import Final

from tools.charts.dashboard_queries import Panel, Query, per_hour, per_minute, quantiles

CERTIFICATE_MIN_DAYS: Final = 7
#: The dashboard of the DCGM exporter's metrics.
GPUS_UID: Final = "gpu-scheduler-gpus"

_ADMISSIONS: Final = "rate(gpu_scheduler_admissions_total[$__rate_interval])"
_STATES: Final = ("free", "held", "failed", "unavailable")

MIG: Final[tuple[Panel, ...]] = (
    Panel(
        *("MIG", "MIG requests by result", "timeseries"),
        "Share of the MIG requests at admission that kept their profile, were degraded to a smaller"
        " one, wait or were denied. Many degraded: the layout does not fit the demand.",
        (
            Query(
                f"sum by (result) ({_ADMISSIONS}) / ignoring (result) group_left ()"
                f" sum({_ADMISSIONS})",
                "{{result}}",
            ),
        ),
        "percentunit",
        is_stacked=True,
    ),
    Panel(
        *("MIG", "MIG instances by profile", "timeseries"),
        "MIG instances by profile and state. A profile without free ones beside one with many:"
        " change the layout of a node (docs/mig.md).",
        (
            Query(
                'sum by (device, state) (gpu_scheduler_devices{device!="gpu"})',
                "{{device}} {{state}}",
            ),
        ),
        "short",
        is_stacked=True,
    ),
    Panel(
        *("MIG", "Degraded pods", "bargauge"),
        "Pods with a smaller slice than they requested, by the slice that they have. They are"
        " restored when a better tier is free (docs/migrations.md).",
        (
            Query(
                "topk(15, sum by (namespace, device) (gpu_scheduler_degraded_pods))",
                "{{namespace}} {{device}}",
            ),
        ),
        "short",
    ),
    Panel(
        *("MIG", "Migrations per hour", "timeseries"),
        "Restores and rescues by result, and blockers by their code. Failures: the event"
        " `MigrationFailed` of the owner has the cause.",
        per_hour("gpu_scheduler_migrations_total", "type", "result"),
        "short",
    ),
    Panel(
        *("MIG", "Tiers at admission per minute", "timeseries"),
        "Which tiers of fallback ladders were granted, full or not tried. A first tier that is"
        " always full: more of its profile are needed.",
        per_minute("gpu_scheduler_admission_tiers_total", "tier", "result"),
        "short",
    ),
    Panel(
        *("MIG", "MIG partitions per hour", "timeseries"),
        "Requests for partitions that are created for a pod, by result. failed or timeout: the"
        " status of the MigPartition (docs/mig-dynamic.md).",
        per_hour("gpu_scheduler_mig_partitions_total", "result"),
        "short",
    ),
)
NODES: Final[tuple[Panel, ...]] = (
    Panel(
        *("Nodes", "Devices by node", "table"),
        "Each node's devices by state. failed: drain the node; unavailable: the node is cordoned or"
        " not ready. A node's name links to its GPUs by DCGM.",
        tuple(
            Query(
                "sum by (cluster, node, model, device)"
                f' (gpu_scheduler_node_devices{{state="{state}"}})',
                state,
            )
            for state in _STATES
        ),
        "short",
        link=("node", "GPUs of this node", f"/d/{GPUS_UID}?var-Hostname=${{__value.raw}}"),
    ),
    Panel(
        *("Nodes", "Pods rejected by nodes per hour", "timeseries"),
        "Pods that the kubelet rejected after the Binding, by its reason. See docs/troubleshooting"
        ".md, Nodes that reject pods.",
        per_hour("gpu_scheduler_pods_rejected_by_nodes_total", "reason"),
        "short",
    ),
    Panel(
        *("Nodes", "Avoided nodes", "stat"),
        "Nodes that some pods avoid because the kubelet rejected such pods. `kubectl get events -A"
        " --field-selector reason=NodeAvoided` names them.",
        (Query("max(gpu_scheduler_avoided_nodes)", "nodes"),),
        "short",
        ((0, "green"), (1, "orange")),
    ),
)
OPERATION: Final[tuple[Panel, ...]] = (
    Panel(
        *("Scheduler", "Pending pods by queue", "timeseries"),
        "active: to be decided next; backoff: retried soon; unschedulable: wait for an event. Many"
        " active for minutes: the scheduler is too slow or the API server is.",
        (Query("sum by (queue) (gpu_scheduler_pending_pods)", "{{queue}}"),),
        "short",
    ),
    Panel(
        *("Scheduler", "Scheduling attempts per minute", "timeseries"),
        "Attempts by result. error: the log has the cause, with an id.",
        per_minute("gpu_scheduler_schedule_attempts_total", "result"),
        "short",
    ),
    Panel(
        *("Scheduler", "Time of one decision", "timeseries"),
        "It grows with nodes and pods. Sudden growth: the log's warnings, and pods with many"
        " selectors.",
        quantiles("gpu_scheduler_scheduling_algorithm_duration_seconds", "0.5", "0.99"),
        "s",
    ),
    Panel(
        *("Scheduler", "Bindings per minute", "timeseries"),
        "Bindings by result. refused and unreachable: the API server or a policy rejects them; the"
        " log has its responses.",
        per_minute("gpu_scheduler_binds_total", "result"),
        "short",
    ),
    Panel(
        *("Scheduler", "Watch failures per minute", "timeseries"),
        "Failed lists and watches by kind; expected: 0, except while the API server restarts. One"
        " kind only: a right is missing; `gpuctl doctor`, line roles.",
        per_minute("gpu_scheduler_watch_failures_total", "kind"),
        "short",
    ),
    Panel(
        *("Scheduler", "Contained errors per hour", "timeseries"),
        "Exceptions, each caused by one object; expected: 0. The log has the object; report it.",
        per_hour("gpu_scheduler_internal_errors_total", "part"),
        "short",
    ),
    Panel(
        *("Scheduler", "Admission reviews per minute", "timeseries"),
        "Reviews by the webhook, by result. error or malformed: the webhook's log has the cause.",
        per_minute("gpu_scheduler_webhook_reviews_total", "result"),
        "short",
    ),
    Panel(
        *("Scheduler", "Time of one review", "timeseries"),
        "The creation of a pod takes so much longer. Near 1 s: the scheduler answers late.",
        quantiles("gpu_scheduler_webhook_review_duration_seconds", "0.5", "0.99"),
        "s",
    ),
    Panel(
        *("Scheduler", "Reviews without an answer per minute", "timeseries"),
        "Reviews decided without the scheduler; their pods have no MIG fallback. See the alert"
        " GpuSchedulerWebhookAloneWithoutScheduler in docs/troubleshooting.md.",
        per_minute("gpu_scheduler_webhook_unanswered_queries_total"),
        "short",
    ),
    Panel(
        *("Scheduler", "Certificate expires in", "stat"),
        "Time until the webhook's certificate expires; red below 7 days. The scheduler renews it at"
        " two thirds of its validity; its log has the cause if it did not.",
        (
            Query(
                "(min(gpu_scheduler_webhook_certificate_expiration_timestamp_seconds) - time())"
                " / 86400",
                "certificate",
            ),
        ),
        "d",
        ((0, "red"), (CERTIFICATE_MIN_DAYS, "green")),
    ),
)
PER_GPU: Final[tuple[Panel, ...]] = (
    Panel(
        *("", "GPU Utilization %", "timeseries"),
        "Utilization by DCGM. Low while a pod holds the GPU: ask its owner.",
        (Query("DCGM_FI_DEV_GPU_UTIL", "{{Hostname}} GPU {{gpu}} {{pod}}"),),
        "percent",
    ),
    Panel(
        *("", "GPU Memory Used", "timeseries"),
        "Memory in use. Far below the GPU's size: a MIG slice may be enough.",
        (Query("DCGM_FI_DEV_FB_USED", "{{Hostname}} GPU {{gpu}} {{pod}}"),),
        "decmbytes",
    ),
    Panel(
        *("", "GPU Temperature", "timeseries"),
        "Temperature of each GPU. One above all others: its cooling.",
        (Query("DCGM_FI_DEV_GPU_TEMP", "{{Hostname}} GPU {{gpu}}"),),
        "celsius",
    ),
)
