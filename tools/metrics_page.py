"""``python -m tools.metrics_page``: write docs/metrics.md from the programs' own tables."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from scheduler.httpserver import connection_metrics
from scheduler.report import capacity_metrics, cost_metrics
from scheduler.report import metrics as scheduler_metrics
from webhook import metrics as webhook_metrics

PAGE: Final = Path(__file__).parents[1] / "docs" / "metrics.md"

HEAD: Final = """\
# Metrics

Look up a metric here: its meaning, its type and its labels. (Written by `python -m
tools.metrics_page` from the programs' tables; do not edit.)

Both programs serve `/metrics` in Prometheus' text format: the scheduler on port 8080, the webhook
on its TLS port. The chart's `metrics.serviceMonitor.enabled` makes Prometheus scrape both. Every
name has the prefix `gpu_scheduler_`, so that no series mixes with kube-scheduler's; a metric that
kube-scheduler has too keeps its name behind the prefix. Label values come from closed lists, and
none is the name of a pod. Beside these, both programs have `process_*` of the Prometheus client:
memory, processor time, open files and the time of the start. A scrape configuration of your own
that adds a label `namespace` needs `honor_labels: true`
([monitoring.md](monitoring.md#honorlabels)).
Series of rare events (results of attempts, Bindings, migrations and partitions, contained errors)
begin at 0: `increase` does not see the first event of a series that begins at 1.

The gauges of devices are sums of the scheduler's state at the time of the scrape, by the same code
as [`gpuctl top`](capacity.md). Only the leader has them, so a sum over replicas is right. The cost
is limited: sums that took t seconds are served again for 100 t, at most for 30 s.

The counters of costs advance when they are scraped, by the same code as [`gpuctl cost`](cost.md).
Only the leader has them; a new leader begins at zero, so ask Prometheus for their `increase`.
"""

Row = tuple[str, str, tuple[str, ...], str]


def _rows(kind: str, table: Mapping[str, tuple[Any, ...]], prefix: str = "") -> Iterator[Row]:
    suffix = "_total" if kind == "counter" else ""
    for name, (text, labels, *_) in table.items():
        yield prefix + name + suffix, kind, labels, text


def devices() -> list[Row]:
    """The gauges of devices."""
    return list(_rows("gauge", capacity_metrics.DEVICE_GAUGES))


def costs() -> list[Row]:
    """The counters and gauges of costs."""
    return [
        *_rows("counter", cost_metrics.COST_COUNTERS),
        *_rows("gauge", cost_metrics.COST_GAUGES),
    ]


def scheduler() -> list[Row]:
    """The other metrics of the scheduler."""
    return [
        *_rows("gauge", scheduler_metrics.GAUGES),
        *_rows("counter", scheduler_metrics.COUNTERS),
        *_rows("histogram", scheduler_metrics.HISTOGRAMS),
        *_connections("gpu_scheduler_"),
    ]


def webhook() -> list[Row]:
    """The metrics of the webhook."""
    return [
        *_rows("gauge", webhook_metrics.GAUGES),
        *_rows("counter", webhook_metrics.COUNTERS),
        *_rows("histogram", webhook_metrics.HISTOGRAMS),
        *_connections("gpu_scheduler_webhook_"),
    ]


def _connections(prefix: str) -> Iterator[Row]:
    yield from _rows("gauge", connection_metrics.GAUGES, prefix)
    yield from _rows("counter", connection_metrics.COUNTERS, prefix)


def page() -> str:
    """The whole page."""
    parts = [HEAD]
    for title, rows in (
        ("Devices, who holds them and who waits", devices()),
        ("Costs", costs()),
        ("The scheduler", scheduler()),
        ("The webhook", webhook()),
    ):
        parts += [f"## {title}", "", "| metric | type | labels | meaning |", "|---|---|---|---|"]
        parts += [
            f"| `{name}` | {kind} | {', '.join(f'`{label}`' for label in labels)} | {text} |"
            for name, kind, labels, text in rows
        ]
        parts.append("")
    return "\n".join(parts)


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
    sys.stdout.write(f"{PAGE.name} written\n")
