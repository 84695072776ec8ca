"""Panels and alerts of the chart on a real Prometheus that scrapes the running product.

The tests run in this order on one cluster: healthy, then with every cause of an alert, then
without replicas.
"""

from __future__ import annotations

import json
import math
import os
import re
import ssl
import time
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from typing import Any, Final

import pytest

from tests.controlplane.monitoring import workload
from tests.controlplane.monitoring.cluster import (
    CLUSTER,
    RECORDED,
    SAMPLE,
    TEAM,
    WHOLE,
    MonitoredCluster,
)
from tests.controlplane.test_metric_names import families
from tests.controlplane.workloads import fetch
from tools.controlplane import wait_until
from tools.monitoring.panels import Target, choices, targets, variables
from tools.monitoring.rules import RANGE_MIN_S
from tools.product import ROOT

Json = dict[str, Any]
SCHEDULER, GPUS = "gpu-scheduler.json", "gpus-dcgm.json"
SECONDS: Final = 600
NAME: Final = re.compile(r"\b(?:gpu_scheduler|DCGM_FI)_\w*[a-z]\b(?!\*|_)", re.IGNORECASE)
SUFFIX: Final = re.compile(r"_(?:bucket|sum|count)$")
#: Each alert, and the labels that tell its cause.
CAUSES: Final[dict[str, Json]] = {
    "GpuSchedulerGpuFailed": {"node": WHOLE},
    "GpuSchedulerDevicesHeldTwice": {},
    "GpuSchedulerClaimsCollide": {},
    "GpuSchedulerPodsWaitLong": {"namespace": TEAM},
    "GpuSchedulerHeldButIdle": {"namespace": TEAM},
    "GpuSchedulerWatchBroken": {"kind": "resourcequotas"},
    "GpuSchedulerBindingsFail": {},
    "GpuSchedulerMigrationsFail": {},
    "GpuSchedulerCertificateExpires": {},
}
#: Those of a stopped replica, and of both.
STOPPED: Final = "GpuSchedulerStandbyMissing"
BOTH_STOPPED: Final = ("GpuSchedulerHasNoLeader", "GpuSchedulerWebhookAloneWithoutScheduler")


@pytest.fixture(scope="module")
def working(monitoring: MonitoredCluster) -> MonitoredCluster:
    """Every target is scraped, and pods work."""
    prometheus = monitoring.prometheus
    jobs = {
        "gpu-scheduler": 2,
        "gpu-scheduler-webhook": 2,
        "nvidia-dcgm-exporter-kwok": 1,
        "nvidia-dcgm-exporter": 1,
    }

    def is_scraped() -> bool:
        up = prometheus.instant("count by (job) (up == 1)")
        return {one["metric"]["job"]: int(one["value"][1]) for one in up} == jobs

    wait_until(is_scraped, what="every target to be up", last=prometheus.targets)
    workload.work_as_usual(monitoring)
    # Before the first scrape there was no leader to see, for longer than the shortened time.
    wait_until(lambda: not prometheus.alerts(), what="no alert", last=prometheus.rules)
    monitoring.calm_at = time.time()
    return monitoring


@pytest.fixture(scope="module")
def troubled(working: MonitoredCluster) -> MonitoredCluster:
    """Every cause of an alert is there, but for stopped replicas."""
    workload.cause_everything(working)
    return working


def test_healthy_product_fires_no_alert(working: MonitoredCluster) -> None:
    """None is pending either, for as long as the shortest range of a rule."""
    prometheus = working.prometheus
    until = working.calm_at + RANGE_MIN_S

    wait_until(
        lambda: all(evaluated_at(rule) > until for rule in prometheus.rules()),
        what="every rule to be evaluated after that time",
    )

    assert prometheus.instant(f"count_over_time(ALERTS[{RANGE_MIN_S}s])") == []
    assert {rule["health"] for rule in prometheus.rules()} == {"ok"}
    assert {rule["name"] for rule in prometheus.rules()} == {*CAUSES, STOPPED, *BOTH_STOPPED}


def evaluated_at(rule: Json) -> float:
    """The last evaluation of a rule in seconds since 1970."""
    return datetime.fromisoformat(rule["lastEvaluation"]).timestamp()


def empty(cluster: MonitoredCluster, asked: list[Target]) -> list[str]:
    """The queries without a value."""
    return [
        f"{target.title}: {target.expression}"
        for target in asked
        if not any(map(_has_value, target.data(cluster.prometheus, SECONDS)))
    ]


def _has_value(series: Json) -> bool:
    values = series.get("values") or [series["value"]]
    return any(not math.isnan(float(value)) for _, value in values)


#: The variables with one value. The panels of the scheduler and of the webhook have each their job.
VALUES: Final[list[Any]] = [
    pytest.param(SCHEDULER, {}, id="scheduler-all"),
    pytest.param(
        SCHEDULER,
        {
            "cluster": [CLUSTER],
            "job": ["gpu-scheduler", "gpu-scheduler-webhook"],
            "namespace": [TEAM],
            "model": ["NVIDIA-A100-SXM4-80GB"],
            "node": [WHOLE],
        },
        id="scheduler-one",
    ),
    pytest.param(GPUS, {}, id="gpus-all"),
    *(
        pytest.param(
            GPUS,
            {"cluster": [CLUSTER], "Hostname": [node], "modelName": ["NVIDIA A100-SXM4-80GB"]},
            id=f"gpus-{name}",
        )
        for node, name in ((WHOLE, "fake"), (RECORDED, "recorded"))
    ),
]


@pytest.mark.parametrize(("board", "values"), VALUES)
def test_every_query_of_a_dashboard_has_data(
    troubled: MonitoredCluster, board: str, values: Mapping[str, list[str]]
) -> None:
    text = troubled.boards[board]
    for name, definition in variables(text).items():
        offered = choices(troubled.prometheus, definition)
        assert {*values.get(name, ())} <= offered
        assert offered, name
    asked = list(targets(text, values))
    assert asked

    wait_until(
        lambda: not empty(troubled, asked),
        what="data of every query",
        last=lambda: empty(troubled, asked),
    )


def test_idle_devices_are_those_of_pods_that_do_not_use_them(troubled: MonitoredCluster) -> None:
    """By the fake exporter, whose labels are honored, and by the recorded one, whose are not."""
    (target,) = [one for one in targets(troubled.boards[GPUS], {}) if one.title == "Held but idle"]
    found = {
        (one["metric"]["Hostname"], one["metric"]["pod"], one["metric"].get("GPU_I_ID", ""))
        for one in target.data(troubled.prometheus, SECONDS)
    }

    assert found == {
        (WHOLE, "notebook-0", ""),
        (RECORDED, "notebook-0", ""),
        (RECORDED, "infer-1", "10"),
    }


def test_every_named_metric_is_served_by_the_product(troubled: MonitoredCluster) -> None:
    """Those of the dashboards, of the rules and of the pages about them."""
    leader = troubled.leader
    served = families(f"http://127.0.0.1:{leader.health_port}/metrics")
    served |= families(f"https://127.0.0.1:{leader.webhook_port}/metrics", unverified())
    exported = [set(NAME.findall(page)) for page in (SAMPLE.read_text(), dcgm(troubled))]
    assert exported[0] & exported[1] == exported[0]

    texts = [*troubled.boards.values(), *(rule["expr"] for rule in troubled.groups()[0]["rules"])]
    texts += [
        (ROOT / "docs" / page).read_text(encoding="utf-8")
        for page in ("metrics.md", "monitoring.md", "troubleshooting.md")
    ]
    named = {SUFFIX.sub("", name) for text in texts for name in NAME.findall(text)}

    assert len(named) > 40
    assert named - served - exported[0] == set()


def dcgm(cluster: MonitoredCluster) -> str:
    return fetch(cluster.operator.port, "/metrics")


def firing(cluster: MonitoredCluster) -> list[Json]:
    """The labels of every alert that fired after the healthy time."""
    seconds = int(time.time() - cluster.calm_at) + 1
    query = f'count_over_time(ALERTS{{alertstate="firing"}}[{seconds}s])'
    return [one["metric"] for one in cluster.prometheus.instant(query)]


def fired(cluster: MonitoredCluster, alert: str, labels: Json) -> bool:
    wanted = {"alertname": alert, "cluster": CLUSTER, **labels}
    return any(wanted.items() <= one.items() for one in firing(cluster))


@pytest.mark.parametrize(("alert", "labels"), CAUSES.items(), ids=CAUSES)
def test_an_alert_fires_by_its_cause(troubled: MonitoredCluster, alert: str, labels: Json) -> None:
    wait_until(
        lambda: fired(troubled, alert, labels),
        what=f"{alert} {labels}",
        last=lambda: [troubled.prometheus.alerts(), firing(troubled)],
    )


def test_a_stopped_standby_and_a_stopped_leader_fire_alerts(troubled: MonitoredCluster) -> None:
    """The webhook stays: it has to decide without the scheduler."""
    names = {one["alertname"] for one in firing(troubled)}
    assert names.isdisjoint({STOPPED, *BOTH_STOPPED})
    if folder := os.environ.get("GRAFANA_DATA"):
        write_data(Path(folder), troubled)

    troubled.standby.stop("scheduler")
    wait_until(lambda: fired(troubled, STOPPED, {}), what=STOPPED, last=troubled.prometheus.alerts)
    assert {one["alertname"] for one in firing(troubled)}.isdisjoint(BOTH_STOPPED)

    troubled.leader.stop("scheduler")

    def is_told() -> bool:
        workload.ask_the_webhook(troubled)
        # Without any replica there is no label of the cluster either.
        return {*BOTH_STOPPED} <= {one["alertname"] for one in firing(troubled)}

    wait_until(is_told, what=f"{BOTH_STOPPED}", last=troubled.prometheus.alerts)


def write_data(folder: Path, cluster: MonitoredCluster) -> None:
    """For ``make grafana-picture``: each dashboard, and the data of its panels' queries."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, board in cluster.boards.items():
        data: dict[str, list[list[Json]]] = {}
        for target in targets(board, {}):
            found = target.data(cluster.prometheus, SECONDS)
            data.setdefault(target.title, []).append(found)
        told = {"board": json.loads(board), "data": data}
        (folder / name).write_text(json.dumps(told), encoding="utf-8")


def unverified() -> ssl.SSLContext:
    """As the chart's ServiceMonitor: the authority may change with the certificate."""
    context = ssl.create_default_context()
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context
