"""Alerts and panels ask for metrics that exist."""

from __future__ import annotations

import json
import re

import pytest

from scheduler.report import metrics
from scheduler.report.capacity_metrics import DEVICE_GAUGES
from tests.charts.rendering import SCHEDULER, objects, one, settings
from tools.charts.dashboard import PANELS
from webhook.metrics import Metrics

NAME = re.compile(r"\b(?:gpu_scheduler|scheduler|leader_election)_[a-z_]+\b")
SUFFIX = re.compile(r"_(?:total|bucket|sum|count)$")


def known() -> set[str]:
    """Every metric's name without the suffix of its kind."""
    page = Metrics(lambda: 1.0).render().decode()
    of_webhook = {line.split()[2] for line in page.splitlines() if line.startswith("# TYPE ")}
    tables = (metrics.COUNTERS, metrics.GAUGES, metrics.HISTOGRAMS, DEVICE_GAUGES)
    ours = {name for table in tables for name in table}
    return {SUFFIX.sub("", name) for name in ours | of_webhook}


def asked(expression: str) -> set[str]:
    """The names in an expression."""
    return {SUFFIX.sub("", name) for name in NAME.findall(expression)}


@pytest.mark.parametrize("panel", PANELS, ids=lambda panel: panel[0])
def test_panels_query_existing_metrics(
    panel: tuple[str, tuple[tuple[str, str], ...], str],
) -> None:
    for expression, _ in panel[1]:
        assert asked(expression), expression
        assert asked(expression) <= known()


def test_alerts_query_existing_metrics_and_have_advice() -> None:
    found = objects(SCHEDULER, *settings("metrics.prometheusRule.enabled=true"))
    (group,) = one(found, "PrometheusRule")["spec"]["groups"]
    assert len(group["rules"]) == 6
    for rule in group["rules"]:
        assert asked(rule["expr"])
        assert asked(rule["expr"]) <= known()
        assert rule["annotations"]["description"]


def test_a_monitor_finds_the_ports_of_both_services() -> None:
    found = objects(SCHEDULER, *settings("metrics.serviceMonitor.enabled=true"))
    monitor = one(found, "ServiceMonitor")["spec"]
    ports = {
        port["name"]
        for each in found
        if each["kind"] == "Service"
        and monitor["selector"]["matchLabels"].items() <= each["metadata"]["labels"].items()
        for port in each["spec"]["ports"]
    }
    assert {endpoint["port"] for endpoint in monitor["endpoints"]} == ports


def test_monitoring_objects_can_be_in_the_namespace_of_prometheus() -> None:
    """A ServiceMonitor elsewhere still selects the Services of the release's namespace."""
    words = settings(
        *(
            f"metrics.{name}.{setting}"
            for name in ("serviceMonitor", "prometheusRule", "dashboards")
            for setting in ("enabled=true", "namespace=monitoring")
        ),
        "metrics.dashboards.annotations.grafana_folder=GPUs",
    )
    found = objects(SCHEDULER, *words)

    monitor = one(found, "ServiceMonitor")
    board = one(found, "ConfigMap", "gpu-scheduler-dashboards")
    rule = one(found, "PrometheusRule")
    assert {each["metadata"]["namespace"] for each in (monitor, board, rule)} == {"monitoring"}
    assert monitor["spec"]["namespaceSelector"] == {"matchNames": ["gpu-scheduler-system"]}
    assert board["metadata"]["annotations"] == {"grafana_folder": "GPUs"}


def test_the_dashboard_is_shipped_with_the_label_of_the_sidecar() -> None:
    found = objects(SCHEDULER, *settings("metrics.dashboards.enabled=true"))
    gpu_models = one(found, "ConfigMap", "gpu-scheduler-dashboards")
    assert gpu_models["metadata"]["labels"]["grafana_dashboard"] == "1"
    (content,) = gpu_models["data"].values()
    assert len(json.loads(content)["panels"]) == len(PANELS)
