"""The Grafana dashboards, each from a short table: title, expression, unit.

A test compares the metric names in the expressions with the programs' metrics, so that a renamed
metric leaves no empty panel.
"""

from __future__ import annotations

import json
from typing import Any, Final, NamedTuple

#: Title, the expression of each line with its legend, and Grafana's unit.
Panel = tuple[str, tuple[tuple[str, str], ...], str]
PANELS: Final[tuple[Panel, ...]] = (
    (
        "Scheduling attempts by result",
        (("sum by (result) (rate(gpu_scheduler_schedule_attempts_total[5m]))", "{{result}}"),),
        "ops",
    ),
    ("Pending pods", (("sum by (queue) (gpu_scheduler_pending_pods)", "{{queue}}"),), "short"),
    (
        "Rejections by reason code",
        (("sum by (code) (rate(gpu_scheduler_rejections_total[5m]))", "{{code}}"),),
        "ops",
    ),
    (
        "Time from the first observation of a pod to its Binding",
        tuple(
            (
                f"histogram_quantile({q}, sum by (le) "
                "(rate(gpu_scheduler_pod_scheduling_sli_duration_seconds_bucket[5m])))",
                f"quantile {q}",
            )
            for q in ("0.5", "0.99")
        ),
        "s",
    ),
    (
        "Time of one decision",
        (
            (
                "histogram_quantile(0.99, sum by (le) "
                "(rate(gpu_scheduler_scheduling_algorithm_duration_seconds_bucket[5m])))",
                "quantile 0.99",
            ),
        ),
        "s",
    ),
    (
        "MIG requests at admission",
        (("sum by (result) (rate(gpu_scheduler_admissions_total[5m]))", "{{result}}"),),
        "ops",
    ),
    (
        "Migrations to another tier",
        (
            (
                "sum by (type, result) (increase(gpu_scheduler_migrations_total[1h]))",
                "{{type}} {{result}}",
            ),
        ),
        "short",
    ),
    (
        "Reviews by the webhook",
        (("sum by (result) (rate(gpu_scheduler_webhook_reviews_total[5m]))", "{{result}}"),),
        "ops",
    ),
    (
        "Bindings by result",
        (("sum by (result) (rate(gpu_scheduler_binds_total[5m]))", "{{result}}"),),
        "ops",
    ),
    (
        "Devices assigned beyond allocatable (expected: 0)",
        (
            ("max(gpu_scheduler_over_committed_devices)", "devices"),
            ("max(gpu_scheduler_colliding_claims)", "claims with devices of another claim"),
        ),
        "short",
    ),
    ("Leader", (("gpu_scheduler_leader_election_master_status", "{{pod}}"),), "short"),
    (
        "Time until the webhook certificate expires",
        (
            (
                "min(gpu_scheduler_webhook_certificate_expiration_timestamp_seconds) - time()",
                "certificate",
            ),
        ),
        "s",
    ),
)
#: The dashboards of the lab; their metrics come from every node.
GPU_PANELS: Final[tuple[Panel, ...]] = (
    (
        "GPU Utilization %",
        (("DCGM_FI_DEV_GPU_UTIL", "{{Hostname}} GPU {{gpu}} {{pod}}"),),
        "percent",
    ),
    (
        "GPU Memory Used",
        (("DCGM_FI_DEV_FB_USED", "{{Hostname}} GPU {{gpu}} {{pod}}"),),
        "decmbytes",
    ),
    ("GPU Temperature", (("DCGM_FI_DEV_GPU_TEMP", "{{Hostname}} GPU {{gpu}}"),), "celsius"),
)
_WIDTH: Final = 12
_HEIGHT: Final = 8
_SOURCE: Final = {"type": "prometheus", "uid": "${datasource}"}


class Board(NamedTuple):
    """One dashboard."""

    uid: str
    title: str
    panels: tuple[Panel, ...]


SCHEDULER: Final = Board("gpu-scheduler", "gpu-scheduler", PANELS)
GPUS: Final = Board("gpu-utilization", "GPU Utilization", GPU_PANELS)


def render(board: Board) -> str:
    """The dashboard's JSON."""
    return json.dumps(_dashboard(board), indent=2) + "\n"


def _dashboard(board: Board) -> dict[str, Any]:
    return {
        "uid": board.uid,
        "title": board.title,
        "tags": ["gpu", "scheduler"],
        "schemaVersion": 39,
        "editable": True,
        "refresh": "30s",
        "time": {"from": "now-3h", "to": "now"},
        "templating": {
            "list": [{"name": "datasource", "type": "datasource", "query": "prometheus"}]
        },
        "panels": [_panel(number, *panel) for number, panel in enumerate(board.panels)],
    }


def _panel(
    number: int, title: str, lines: tuple[tuple[str, str], ...], unit: str
) -> dict[str, Any]:
    return {
        "id": number + 1,
        "title": title,
        "type": "timeseries",
        "datasource": _SOURCE,
        "gridPos": {
            "h": _HEIGHT,
            "w": _WIDTH,
            "x": number % 2 * _WIDTH,
            "y": number // 2 * _HEIGHT,
        },
        "fieldConfig": {"defaults": {"unit": unit, "min": 0}, "overrides": []},
        "options": {"legend": {"displayMode": "list", "placement": "bottom"}},
        "targets": [
            {"refId": chr(ord("A") + at), "expr": expression, "legendFormat": legend}
            for at, (expression, legend) in enumerate(lines)
        ],
    }
