"""The panels about what the GPUs cost, as a table (docs/cost.md has the meaning of the parts)."""

from __future__ import annotations

from typing import Final

from tools.charts.dashboard_queries import Panel, Query

_HELD: Final = "gpu_scheduler_namespace_gpu_seconds_total"
_SAVED: Final = "gpu_scheduler_namespace_saved_cost_total"
_HOUR_S: Final = 3600


def _per_hour(metric: str, *by: str) -> str:
    """Money per hour of a counter of money."""
    return f"sum by ({', '.join(by)}) (rate({metric}[$__rate_interval])) * {_HOUR_S}"


COST: Final[tuple[Panel, ...]] = (
    Panel(
        *("Cost", "GPUs held by namespace", "timeseries"),
        "GPUs that the pods of each namespace hold, a MIG instance by its share. `gpuctl cost` has"
        " the same for labels and nodes.",
        (Query(f"sum by (namespace) (rate({_HELD}[$__rate_interval]))", "{{namespace}}"),),
        "short",
        is_stacked=True,
    ),
    Panel(
        *("Cost", "GPUs that no pod holds", "timeseries"),
        "Free, stranded (the rest of a GPU into which no profile in use fits), failed or"
        " unavailable. Much is stranded: see `gpuctl defrag`.",
        (
            Query(
                "sum by (state) (rate(gpu_scheduler_idle_gpu_seconds_total[$__rate_interval]))",
                "{{state}}",
            ),
        ),
        "short",
        is_stacked=True,
    ),
    Panel(
        *("Cost", "Cost per hour by namespace", "timeseries"),
        "The price of what each namespace holds. Without the chart's value `prices` it is empty.",
        (
            Query(
                _per_hour("gpu_scheduler_namespace_cost_total", "namespace", "currency"),
                "{{namespace}} {{currency}}",
            ),
        ),
        "short",
        is_stacked=True,
    ),
    Panel(
        *("Cost", "Cost per hour of what no pod holds", "timeseries"),
        "With the panel before it is the bill. A high price of free GPUs while pods wait: the row"
        " Waiting has the causes.",
        (
            Query(
                _per_hour("gpu_scheduler_idle_cost_total", "state", "currency"),
                "{{state}} {{currency}}",
            ),
        ),
        "short",
        is_stacked=True,
    ),
    Panel(
        *("Cost", "Saved by smaller slices", "timeseries"),
        "What degraded pods would cost more per hour with the tier that they requested. Their"
        " owners may not know it: the panel Degraded pods has the namespaces.",
        (
            Query(
                _per_hour(_SAVED, "namespace", "currency"),
                "{{namespace}} {{currency}}",
            ),
        ),
        "short",
    ),
)
