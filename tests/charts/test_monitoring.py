"""Alerts and panels ask for series and labels that exist, and say what to do."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from itertools import combinations
from pathlib import Path
from typing import Any

import pytest
import yaml

from scheduler.model.crd.migration_result import MigrationResult
from tests.charts.rendering import SCHEDULER, objects, one, settings
from tools.charts.dashboard import GPUS, UTILIZATION, Board, render
from tools.charts.dashboard import SCHEDULER as BOARD
from tools.charts.dashboard_gpus import HELD_IDLE, IDLE
from tools.charts.dashboard_queries import Panel, filtered, labels, metrics

DOCS = Path(__file__).parents[2] / "docs"
PAGE = DOCS / "troubleshooting.md"
MONITORING = DOCS / "monitoring.md"
BOARDS = (BOARD, GPUS, UTILIZATION)
PANELS = [panel for board in BOARDS for panel in board.panels]
#: Every name in an expression that belongs to the programs or to the DCGM exporter.
NAME = re.compile(r"\b(?:gpu_scheduler|scheduler|leader_election|DCGM)_\w+\b")
VARIABLE = re.compile(r"\$\{?(\w+)")
#: Labels in an expression: groups, and the matchers inside of braces.
GROUP = re.compile(r"\b(?:by|ignoring) \(([^)]*)\)")
MATCHER = re.compile(r"(\w+)(?:=~|!=|!~|=)\"")
LEGEND = re.compile(r"\{\{(\w+)\}\}")
ALERTS = "metrics.prometheusRule.enabled=true"


def by_title(panel: Panel) -> str:
    return panel.title


def by_uid(board: Board) -> str:
    return board.uid


def asked(text: str) -> set[str]:
    """The labels that an expression or a legend names."""
    groups = [label.strip() for found in GROUP.findall(text) for label in found.split(",")]
    return {*groups, *MATCHER.findall(text), *LEGEND.findall(text)} - {""}


def board(rendered: str) -> list[dict[str, Any]]:
    """Every panel of a dashboard, also those inside of a row."""
    rows = json.loads(rendered)["panels"]
    return [panel for row in rows for panel in (row, *row.get("panels", ()))]


def rules(*sets: str) -> list[dict[str, Any]]:
    """The alerts that the chart renders."""
    found = objects(SCHEDULER, *settings(ALERTS, *sets))
    (group,) = one(found, "PrometheusRule")["spec"]["groups"]
    return list(group["rules"])


@pytest.mark.parametrize("panel", PANELS, ids=by_title)
def test_panels_query_existing_series_and_labels(panel: Panel) -> None:
    for query in panel.queries:
        series = set(NAME.findall(query.expression))
        assert series, query.expression
        assert series == metrics(query.expression)
        assert series <= labels().keys()
        has = {label for name in series for label in labels()[name]}
        legend = "" if panel.kind == "table" else query.legend
        assert asked(query.expression) | asked(legend) <= has


@pytest.mark.parametrize("panel", PANELS, ids=by_title)
def test_panels_have_a_description_and_a_unit(panel: Panel) -> None:
    assert panel.description.endswith(".")
    assert panel.unit
    for query in panel.queries:
        assert set(re.findall(r"\[(.*?)\]", query.expression)) <= {"$__rate_interval", IDLE}


def test_every_series_is_filtered_by_the_variables_it_has() -> None:
    wanted = 'gpu_scheduler_node_devices{state="free",cluster=~"$cluster",node=~"$node"}'
    variables = ("cluster", "namespace", "node")

    assert filtered('sum(gpu_scheduler_node_devices{state="free"})', variables) == f"sum({wanted})"
    assert filtered("DCGM_FI_DEV_GPU_UTIL", ("node",)) == "DCGM_FI_DEV_GPU_UTIL"
    for panel in BOARD.panels:
        for query in panel.queries:
            for name, inside in re.findall(
                r"\b(gpu_scheduler_\w+)\{([^}]*)\}", filtered(query.expression, BOARD.variables)
            ):
                has = set(labels()[name]) & BOARD.variables.keys()
                assert {f'{label}=~"${label}"' for label in has} <= set(inside.split(","))


@pytest.mark.parametrize("of", BOARDS, ids=by_uid)
def test_only_variables_of_the_dashboard_are_used(of: Board) -> None:
    rendered = render(of)
    known = {each["name"] for each in json.loads(rendered)["templating"]["list"]}
    targets = [target for panel in board(rendered) for target in panel.get("targets", ())]
    used = {name for target in targets for name in VARIABLE.findall(target["expr"])}

    assert targets
    assert used - {"__rate_interval", "1"} == known - {"datasource"}  # 1: of label_replace
    assert {"uid": "${datasource}", "type": "prometheus"} in (
        panel.get("datasource") for panel in board(rendered)
    )


@pytest.mark.parametrize(
    ("of", "names"),
    [
        pytest.param(BOARD, ["cluster", "job", "namespace", "model", "node"], id="scheduler"),
        pytest.param(GPUS, ["cluster", "Hostname", "modelName"], id="gpus"),
    ],
)
def test_all_of_a_variable_finds_series_without_its_label(of: Board, names: list[str]) -> None:
    _, *variables = json.loads(render(of))["templating"]["list"]

    assert [each["name"] for each in variables] == names
    for each in variables:
        assert each["includeAll"]
        assert each["multi"]
        assert each["allValue"] == ".*"
        assert metrics(each["definition"].replace("(webhook_)?", "")) <= labels().keys()


@pytest.mark.parametrize("of", BOARDS, ids=by_uid)
def test_panels_have_unique_ids_and_do_not_overlap(of: Board) -> None:
    found = board(render(of))
    assert len({panel["id"] for panel in found}) == len(found)

    squares = [set(cells(panel["gridPos"])) for panel in found]
    assert all(left.isdisjoint(right) for left, right in combinations(squares, 2))
    assert all(x < 24 for square in squares for x, _ in square)


def cells(at: dict[str, int]) -> Iterator[tuple[int, int]]:
    for x in range(at["x"], at["x"] + at["w"]):
        for y in range(at["y"], at["y"] + at["h"]):
            yield x, y


def test_rows_answer_in_order_and_the_last_is_collapsed() -> None:
    rows = [each for each in json.loads(render(BOARD))["panels"] if each["type"] == "row"]

    titles = ["Now", "Capacity", "Waiting", "MIG", "Nodes", "Cost", "Scheduler"]
    assert [row["title"] for row in rows] == titles
    assert [row["title"] for row in rows if row["collapsed"]] == ["Scheduler"]
    assert [row["title"] for row in rows if row["panels"]] == ["Scheduler"]


def test_alerts_query_existing_series_and_have_advice() -> None:
    found = rules()
    assert len(found) == 12
    for rule in found:
        series = set(NAME.findall(rule["expr"]))
        assert series
        assert series <= labels().keys()
        has = {label for name in series for label in labels()[name]}
        assert asked(rule["expr"]) <= has
        assert rule["annotations"]["summary"]
        assert rule["annotations"]["description"]
        assert rule["labels"]["severity"] in {"critical", "warning"}
        in_text = re.findall(r"\$labels\.(\w+)", str(rule["annotations"]))
        assert set(in_text) <= asked(rule["expr"])


def test_alerts_of_several_clusters_keep_their_label() -> None:
    for rule in rules():
        aggregated = re.findall(r"\b(?:sum|min|max|count)\b(?! by \(cluster\b)", rule["expr"])
        assert aggregated == [], rule["alert"]


def test_each_alert_has_a_section_of_the_runbook() -> None:
    headings = set(re.findall(r"^### (\w+)$", PAGE.read_text(encoding="utf-8"), re.MULTILINE))
    found = rules("metrics.prometheusRule.runbookUrl=https://docs.example/runbook")

    assert {rule["alert"] for rule in found} == headings
    for rule in found:
        wanted = f"https://docs.example/runbook#{rule['alert'].lower()}"
        assert rule["annotations"]["runbook_url"] == wanted
    assert not any("runbook_url" in rule["annotations"] for rule in rules())


def test_a_missing_standby_counts_where_there_is_one() -> None:
    expected = {rule["alert"]: rule["expr"] for rule in rules("replicaCount=3")}
    alone = {rule["alert"] for rule in rules("replicaCount=1")}

    assert expected["GpuSchedulerStandbyMissing"].endswith("< 3")
    assert "GpuSchedulerStandbyMissing" not in alone


def test_alerts_of_migrations_name_existing_results() -> None:
    (rule,) = [each for each in rules() if each["alert"] == "GpuSchedulerMigrationsFail"]
    (results,) = re.findall(r'result=~"([^"]*)"', rule["expr"])

    failures = {each.label for each in MigrationResult if each.is_failure}
    assert failures <= set(results.split("|")) <= {each.label for each in MigrationResult}


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
    assert [each["port"] for each in monitor["endpoints"] if each.get("honorLabels")] == ["health"]


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
    dashboards = one(found, "ConfigMap", "gpu-scheduler-dashboards")
    rule = one(found, "PrometheusRule")
    assert {each["metadata"]["namespace"] for each in (monitor, dashboards, rule)} == {"monitoring"}
    assert monitor["spec"]["namespaceSelector"] == {"matchNames": ["gpu-scheduler-system"]}
    assert dashboards["metadata"]["annotations"] == {"grafana_folder": "GPUs"}


def test_dashboards_are_shipped_with_the_label_of_the_sidecar() -> None:
    found = objects(SCHEDULER, *settings("metrics.dashboards.enabled=true"))
    gpu_models = one(found, "ConfigMap", "gpu-scheduler-dashboards")
    assert gpu_models["metadata"]["labels"]["grafana_dashboard"] == "1"
    shipped = {name: json.loads(text) for name, text in gpu_models["data"].items()}
    assert shipped == {
        "gpu-scheduler.json": json.loads(render(BOARD)),
        "gpus-dcgm.json": json.loads(render(GPUS)),
    }


def test_alert_about_idle_devices_has_the_expression_of_its_panel() -> None:
    (rule,) = [each for each in rules() if each["alert"] == "GpuSchedulerHeldButIdle"]

    assert f"count by (cluster, namespace) ({HELD_IDLE}) and on (cluster) " in rule["expr"]
    (panel,) = [panel for panel in GPUS.panels if panel.title == "Held but idle"]
    assert [query.expression for query in panel.queries] == [HELD_IDLE]


def test_a_node_links_to_its_gpus() -> None:
    (panel,) = [panel for panel in board(render(BOARD)) if panel["title"] == "Devices by node"]
    (override,) = [
        one for one in panel["fieldConfig"]["overrides"] if one["matcher"]["options"] == "node"
    ]
    ((link,),) = [one["value"] for one in override["properties"]]

    path, _, variable = link["url"].partition("?var-")
    assert path == f"/d/{json.loads(render(GPUS))['uid']}"
    assert variable.partition("=")[0] in GPUS.variables


@pytest.mark.parametrize("of", [BOARD, GPUS], ids=by_uid)
def test_page_has_every_row_of_the_dashboards(of: Board) -> None:
    page = MONITORING.read_text(encoding="utf-8")
    _, _, section = page.partition(f"\n## {of.title}\n")
    rows = re.findall(
        r"^\| ([^|]+?)(?: \(collapsed\))? \| [^|]+\|$", section.split("\n## ")[0], re.M
    )

    assert rows == ["row", *dict.fromkeys(panel.row for panel in of.panels)]


def test_scrape_configuration_of_the_page_equals_the_monitor() -> None:
    """For a Prometheus without the operator: the same ports, schemes and honored labels."""
    text = MONITORING.read_text(encoding="utf-8")
    values, configuration = map(yaml.safe_load, re.findall(r"```yaml\n(.*?)```", text, re.S))
    words = [
        f"metrics.{name}.enabled={str(one['enabled']).lower()}"
        for name, one in values["metrics"].items()
    ]
    found = objects(SCHEDULER, *settings(*words))
    endpoints = one(found, "ServiceMonitor")["spec"]["endpoints"]
    jobs = configuration["scrape_configs"]

    assert {"PrometheusRule", "ServiceMonitor"} <= {each["kind"] for each in found}
    assert [job["relabel_configs"][0]["regex"] for job in jobs] == [e["port"] for e in endpoints]
    assert [job.get("scheme") for job in jobs] == [e.get("scheme") for e in endpoints]
    assert [job.get("honor_labels") for job in jobs] == [e.get("honorLabels") for e in endpoints]
    services = {each["metadata"]["name"] for each in found if each["kind"] == "Service"}
    assert {job["job_name"] for job in jobs} <= services
