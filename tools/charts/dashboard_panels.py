"""The panels about devices and waiting pods, as tables.

Queries have no selector for the dashboard's variables: ``dashboard_queries.filtered`` adds each
variable that a metric has a label for.
"""

from __future__ import annotations

from typing import Final

from tools.charts.dashboard_queries import Panel, Query, per_minute, quantiles

#: The oldest pod waits too long from here on, as in the alert and in ``gpuctl doctor``.
WAIT_MAX_S: Final = 900

_GPUS: Final = 'gpu_scheduler_devices{device="gpu"'
_SLICES: Final = 'gpu_scheduler_devices{device!="gpu"'
_NONE: Final = "or sum(gpu_scheduler_devices) * 0"

NOW: Final[tuple[Panel, ...]] = (
    Panel(
        *("Now", "Held", "gauge"),
        "Share of the devices that pods hold. Above 90 %, the next large pod may have to wait: see"
        " the row Capacity.",
        (
            Query(f'sum({_GPUS},state="held"}}) / sum({_GPUS}}})', "GPUs"),
            Query(
                f'sum({_SLICES},state="held"}}) / sum({_SLICES},state=~"held|free|failed"}})',
                "MIG instances",
            ),
        ),
        "percentunit",
        ((0, "green"), (0.9, "orange")),
    ),
    Panel(
        *("Now", "Free", "stat"),
        "Devices that a pod could get now. If pods wait although devices are free, `gpuctl why"
        " POD` has the answer of every node.",
        (
            Query(f'sum({_GPUS},state="free"}})', "GPUs"),
            Query(f'sum({_SLICES},state="free"}})', "MIG instances"),
        ),
        "short",
    ),
    Panel(
        *("Now", "Failed", "stat"),
        "Devices that the node reports as unhealthy. `gpuctl doctor`, line gpus, names them; drain"
        " the node, and reset or replace the GPU.",
        (Query('sum(gpu_scheduler_devices{state="failed"})', "failed"),),
        "short",
        ((0, "green"), (1, "red")),
    ),
    Panel(
        *("Now", "Waiting", "stat"),
        "Pending pods and the devices that they request. The row Waiting has the causes.",
        (
            Query(f"sum(gpu_scheduler_namespace_pending_pods) {_NONE}", "pods"),
            Query(f"sum(gpu_scheduler_pending_devices) {_NONE}", "devices"),
        ),
        "short",
    ),
    Panel(
        *("Now", "Oldest wait", "stat"),
        "How long the oldest pending pod waits; red from 15 minutes on. `gpuctl why -A` has the"
        " cause of every pending pod.",
        (
            Query(
                f"time() - min(gpu_scheduler_oldest_pending_timestamp_seconds) {_NONE}",
                "oldest wait",
            ),
        ),
        "s",
        ((0, "green"), (WAIT_MAX_S, "red")),
    ),
    Panel(
        *("Now", "Leaders", "stat"),
        "Replicas that lead; expected: 1 per cluster and installation. With 0, new pods stay"
        " pending: `gpuctl doctor`, line leader.",
        (Query("sum(gpu_scheduler_leader_election_master_status)", "leaders"),),
        "short",
        ((0, "red"), (1, "green")),
    ),
    Panel(
        *("Now", "Replicas by version", "stat"),
        "Running replicas of the scheduler. Two versions for longer than a rollout: see the"
        " rollout's status.",
        (Query("count by (version) (gpu_scheduler_build_info)", "{{version}}"),),
        "short",
    ),
    Panel(
        *("Now", "Devices assigned twice", "stat"),
        "Devices assigned beyond allocatable, and claims with a device of another claim;"
        " expected: 0. Otherwise another component assigns devices of the same nodes.",
        (
            Query("max(gpu_scheduler_over_committed_devices)", "devices"),
            Query("max(gpu_scheduler_colliding_claims)", "claims"),
        ),
        "short",
        ((0, "green"), (1, "red")),
    ),
)
CAPACITY: Final[tuple[Panel, ...]] = (
    Panel(
        *("Capacity", "GPUs by board and state", "timeseries"),
        "Whole GPUs. Always held to the top: more are needed, or teams hold what they do not use."
        " Unavailable: the node is cordoned or not ready.",
        (Query(f"sum by (model, state) ({_GPUS}}})", "{{model}} {{state}}"),),
        "short",
        is_stacked=True,
    ),
    Panel(
        *("Capacity", "Largest free block", "timeseries"),
        "The most free GPUs on one node: a pod with more waits although enough are free in sum."
        " `gpuctl defrag` shows which moves would help.",
        (Query("max by (model) (gpu_scheduler_largest_free_block)", "{{model}}"),),
        "short",
    ),
    Panel(
        *("Capacity", "Held and busy GPUs", "timeseries"),
        "Share of GPUs that pods hold, and the mean utilization by DCGM where it is scraped. A"
        " large gap: talk to the namespaces that hold the most.",
        (
            Query(f'sum({_GPUS},state="held"}}) / sum({_GPUS}}})', "held"),
            Query("avg(DCGM_FI_DEV_GPU_UTIL) / 100", "busy"),
        ),
        "percentunit",
    ),
    Panel(
        *("Capacity", "Held by namespace", "bargauge"),
        "The 15 namespaces that hold the most devices. `gpuctl top` has their pods.",
        (
            Query(
                "topk(15, sum by (namespace, device) (gpu_scheduler_namespace_devices))",
                "{{namespace}} {{device}}",
            ),
        ),
        "short",
    ),
)
WAITING: Final[tuple[Panel, ...]] = (
    Panel(
        *("Waiting", "Waiting devices by reason", "timeseries"),
        "Devices that pending pods request, by the reason code of their last decision."
        " docs/reasons.md has the meaning of each code.",
        (Query("sum by (code) (gpu_scheduler_pending_devices)", "{{code}}"),),
        "short",
        is_stacked=True,
    ),
    Panel(
        *("Waiting", "Time until the Binding", "timeseries"),
        "From the first observation of a pod to its Binding. A rising median: the cluster is full."
        " Only a rising upper quantile: a few pods fit badly.",
        quantiles("gpu_scheduler_pod_scheduling_sli_duration_seconds", "0.5", "0.95"),
        "s",
    ),
    Panel(
        *("Waiting", "Waiting by namespace", "table"),
        "Namespaces with pending pods, the longest wait first. `gpuctl why -n NAMESPACE` explains"
        " each of their pods.",
        (
            Query(
                "time() - min by (cluster, namespace)"
                " (gpu_scheduler_oldest_pending_timestamp_seconds)",
                *("oldest wait", "s"),
            ),
            Query("sum by (cluster, namespace) (gpu_scheduler_namespace_pending_pods) > 0", "pods"),
            Query("sum by (cluster, namespace) (gpu_scheduler_pending_devices) > 0", "devices"),
        ),
        "short",
        ((0, "text"), (WAIT_MAX_S, "red")),
    ),
    Panel(
        *("Waiting", "Rejected attempts per minute", "timeseries"),
        "Scheduling attempts that found no node, by reason code. A code that begins at one moment"
        " points to a change of nodes or of policies then.",
        per_minute("gpu_scheduler_rejections_total", "code"),
        "short",
    ),
)
