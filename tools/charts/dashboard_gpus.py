"""The dashboard of GPUs by the DCGM exporter, NVIDIA's or that of the fake GPU operator.

A Prometheus that honors the exporter's labels has the pod of a device in ``pod``, another one has
it in ``exported_pod``, and in ``pod`` that of the exporter itself. ``attributed`` reads both.
"""

from __future__ import annotations

from typing import Final

from tools.charts.dashboard_queries import POD_LABELS, Panel, Query

#: A device is idle if it was not used for so long.
IDLE: Final = "30m"

_USED: Final = "DCGM_FI_DEV_FB_USED"
_FREE: Final = "DCGM_FI_DEV_FB_FREE"
_DEVICE: Final = "{{Hostname}} GPU {{gpu}} {{GPU_I_PROFILE}} {{GPU_I_ID}}"
_OF_POD: Final = f"{_DEVICE} {{{{namespace}}}} {{{{pod}}}}"
_BY: Final = "cluster, Hostname, gpu, GPU_I_PROFILE, GPU_I_ID"


def attributed(expression: str) -> str:
    """The expression with the labels of the pod that holds the device."""
    for label in POD_LABELS:
        expression = f'label_replace({expression}, "{label}", "$1", "exported_{label}", "(.+)")'
    return expression


#: Devices that were not used; DCGM has no utilization of MIG instances.
_UNUSED: Final = attributed(
    f"(max_over_time(DCGM_FI_DEV_GPU_UTIL[{IDLE}]) == 0 or"
    f' max_over_time(DCGM_FI_PROF_GR_ENGINE_ACTIVE{{GPU_I_ID!=""}}[{IDLE}]) == 0)'
)
#: Those that a pod holds of a namespace whose pods this scheduler placed.
HELD_IDLE: Final = (
    f"count by ({_BY}, namespace, pod) ({_UNUSED})"
    " and on (cluster, namespace) (sum by (cluster, namespace)"
    " (gpu_scheduler_namespace_devices) > 0)"
)
_ANY: Final = f"or sum({_USED}) * 0"

PANELS: Final[tuple[Panel, ...]] = (
    Panel(
        *("Now", "Utilization", "gauge"),
        "Mean utilization of the GPUs. Low while the scheduler's dashboard shows few free GPUs:"
        " the row Held but idle has the pods.",
        (Query("avg(DCGM_FI_DEV_GPU_UTIL) / 100", "GPUs"),),
        "percentunit",
    ),
    Panel(
        *("Now", "Memory in use", "gauge"),
        "Share of the memory that is in use, of all GPUs. Low: MIG slices may be enough.",
        (Query(f"sum({_USED}) / (sum({_USED}) + sum({_FREE}))", "memory"),),
        "percentunit",
    ),
    Panel(
        *("Now", "Power", "stat"),
        "Power draw of all GPUs. Compare it with what the racks are built for.",
        (Query(f"sum(max by ({_BY}) (DCGM_FI_DEV_POWER_USAGE))", "all GPUs"),),
        "watt",
    ),
    Panel(
        *("Now", "GPUs with an XID error", "stat"),
        "GPUs whose last XID error is not 0. The table below has the numbers; NVIDIA's list of XIDs"
        " has the meaning.",
        (
            Query(
                f"count(max by (cluster, Hostname, gpu) (DCGM_FI_DEV_XID_ERRORS) > 0) {_ANY}",
                "GPUs",
            ),
        ),
        "short",
        ((0, "green"), (1, "red")),
    ),
    Panel(
        *("Held but idle", "Held but idle", "table"),
        "Devices that pods hold and that were not used for 30 minutes by DCGM. Ask the owner of the"
        " pod; `gpuctl top pods --idle` has the same at this moment.",
        (Query(HELD_IDLE, "devices"),),
        "short",
    ),
    Panel(
        *("Held but idle", "Held but idle by namespace", "timeseries"),
        "The number of those devices over the time. A namespace that always has many: talk to the"
        " team, or limit it by a ResourceQuota.",
        (Query(f"count by (namespace) ({HELD_IDLE})", "{{namespace}}"),),
        "short",
        is_stacked=True,
    ),
    Panel(
        *("Devices", "Utilization by GPU", "timeseries"),
        "Utilization of each GPU and the pod that holds it. DCGM has none of MIG instances: see the"
        " next panel.",
        (Query(attributed("DCGM_FI_DEV_GPU_UTIL"), _OF_POD),),
        "percent",
    ),
    Panel(
        *("Devices", "Engine active by device", "timeseries"),
        "Share of the time in which the engines of a GPU or of a MIG instance worked. 0 for long"
        " while a pod holds it: the row Held but idle.",
        (Query(attributed("DCGM_FI_PROF_GR_ENGINE_ACTIVE"), _OF_POD),),
        "percentunit",
    ),
    Panel(
        *("Devices", "Memory used by device", "timeseries"),
        "Memory in use. Far below the size of the device: a smaller slice may be enough.",
        (Query(attributed(_USED), _OF_POD),),
        "decmbytes",
    ),
    Panel(
        *("Devices", "Memory free by device", "timeseries"),
        "Memory that is not in use. Near 0: the pod may end with an out of memory error of CUDA.",
        (Query(f"min by ({_BY}) ({_FREE})", _DEVICE),),
        "decmbytes",
    ),
    Panel(
        *("Devices", "Temperature", "timeseries"),
        "Temperature of each GPU. One above all others of its node: its cooling.",
        (
            Query(
                "max by (cluster, Hostname, gpu) (DCGM_FI_DEV_GPU_TEMP)", "{{Hostname}} GPU {{gpu}}"
            ),
        ),
        "celsius",
    ),
    Panel(
        *("Devices", "Power by GPU", "timeseries"),
        "Power draw of each GPU. At its limit for long: the clocks are reduced.",
        (
            Query(
                "max by (cluster, Hostname, gpu) (DCGM_FI_DEV_POWER_USAGE)",
                "{{Hostname}} GPU {{gpu}}",
            ),
        ),
        "watt",
    ),
    Panel(
        *("Devices", "Last XID error", "table"),
        "The last XID error of each GPU; 0: none. 13, 31, 43 and 45 are of applications; with 48,"
        " 79 or 95 drain the node.",
        (
            Query(
                "max by (cluster, Hostname, modelName, gpu, UUID) (DCGM_FI_DEV_XID_ERRORS)", "XID"
            ),
        ),
        "none",
    ),
)
