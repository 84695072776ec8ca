"""The page of metrics is the programs' tables, and the tables are what the programs serve."""

from __future__ import annotations

import re

from prometheus_client import generate_latest

from scheduler.report.metrics import Metrics as SchedulerMetrics
from tests.http.test_health import idle_capacity, idle_costs
from tools.metrics_page import PAGE, Row, costs, devices, page, scheduler, webhook
from webhook.metrics import Metrics as WebhookMetrics


def served(text: str) -> set[tuple[str, str]]:
    """Name and type of each family, without the Prometheus client's own."""
    found = re.findall(r"^# TYPE (\S+) (\S+)$", text, re.M)
    return {(name, kind) for name, kind in found if not name.startswith("process_")}


def tabled(rows: list[Row]) -> set[tuple[str, str]]:
    return {(name, kind) for name, kind, _, _ in rows}


def test_page_of_metrics_is_current() -> None:
    """Run `python -m tools.metrics_page` after a change of a metric."""
    assert PAGE.read_text(encoding="utf-8") == page()


def test_page_has_every_metric_of_the_scheduler() -> None:
    metrics = SchedulerMetrics("gpu-scheduler")
    metrics.registry.register(idle_capacity())
    metrics.registry.register(idle_costs())

    text = generate_latest(metrics.registry).decode()
    assert served(text) == tabled([*devices(), *costs(), *scheduler()])


def test_page_has_every_metric_of_the_webhook() -> None:
    text = WebhookMetrics(lambda: 1.0).render().decode()

    assert served(text) == tabled(webhook())


def test_no_metric_has_pods_as_a_label() -> None:
    rows = (*devices(), *costs(), *scheduler(), *webhook())
    labels = {label for _, _, names, _ in rows for label in names}

    assert labels.isdisjoint({"pod", "uid", "container"})
