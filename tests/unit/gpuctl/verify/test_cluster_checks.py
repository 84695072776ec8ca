"""Checks that only read."""

from __future__ import annotations

from typing import Any

import pytest

from gpuctl.doctor.finding import Level
from gpuctl.verify import cluster_checks as checks
from gpuctl.verify.hosts import Host, Raw, hosts, workload_taints

GPU = "nvidia.com/gpu"
KWOK = {"kwok.x-k8s.io/node": "fake"}


def node(name: str = "n1", gpus: int = 4, **meta: Any) -> Raw:
    capacity = {"cpu": "8", GPU: str(gpus)} if gpus else {"cpu": "8"}
    ready = [{"type": "Ready", "status": "True"}]
    return {
        "metadata": {"name": name, **meta},
        "spec": {},
        "status": {"capacity": capacity, "allocatable": capacity, "conditions": ready},
    }


def holder(gpus: int, node_name: str = "n1", scheduler: str = "gpu-scheduler", **more: Any) -> Raw:
    containers = [{"resources": {"limits": {GPU: str(gpus)}}}]
    spec = {"nodeName": node_name, "schedulerName": scheduler, "containers": containers}
    return {"metadata": {"name": "p"}, "spec": spec, "status": {"phase": "Running"}, **more}


def plugin(node_name: str, ready: str = "True") -> Raw:
    return {
        "metadata": {"labels": {"app.kubernetes.io/name": "nvidia-device-plugin"}},
        "spec": {"nodeName": node_name, "containers": []},
        "status": {"conditions": [{"type": "Ready", "status": ready}]},
    }


def found(*nodes: Raw, pods: list[Raw] | None = None) -> tuple[Host, ...]:
    return hosts(nodes, pods or [], "gpu-scheduler")


def test_host_counts_what_pods_hold() -> None:
    ended = holder(1, status={"phase": "Succeeded"})
    [host] = found(node(), node("cpu", 0), pods=[holder(1), holder(2, scheduler="other"), ended])

    assert host.free == {GPU: 1}
    assert (host.holders, host.foreign) == (2, 1)


def test_taints_of_conditions_are_not_of_workloads() -> None:
    body = node()
    body["spec"]["taints"] = [
        {"key": "dedicated", "value": "gpu", "effect": "NoSchedule"},
        {"key": "node.kubernetes.io/not-ready", "effect": "NoExecute"},
        {"key": "soft", "effect": "PreferNoSchedule"},
    ]

    assert [one.key for one in workload_taints(found(body)[0])] == ["dedicated"]


@pytest.mark.parametrize(
    ("nodes", "pods", "level"),
    [
        pytest.param([node()], [plugin("n1")], Level.OK, id="ready"),
        pytest.param([node()], [plugin("n1", "False")], Level.WARN, id="not-ready"),
        pytest.param([node(), node("n2")], [plugin("n1")], Level.WARN, id="one-of-two"),
        pytest.param([node(annotations=KWOK)], [], Level.SKIP, id="simulated"),
    ],
)
def test_plugin_is_needed_on_each_real_node(nodes: Any, pods: Any, level: Level) -> None:
    assert checks.check_plugin(found(*nodes), pods).level is level


def test_cluster_without_gpus_fails() -> None:
    assert checks.check_resources(found(node(gpus=0))).level is Level.FAIL


def test_failed_gpu_is_a_warning() -> None:
    body = node()
    body["status"] = {**body["status"], "allocatable": {GPU: "3"}}

    assert checks.check_resources(found(body)).level is Level.WARN


def test_missing_priority_class_is_named() -> None:
    items = [{"metadata": {"name": name}, "value": 1} for name in ("gpu-high", "system-x")]
    levels = checks.priorities(items)

    assert [level.name for level in levels] == ["gpu-high"]
    assert "gpu-critical, gpu-normal, gpu-low" in checks.check_classes(levels).says


def test_series_are_counted_by_metric() -> None:
    line = 'DCGM_FI_DEV_GPU_UTIL{{gpu="{}"}} 3'
    text = "\n".join(["# HELP DCGM_FI_DEV_GPU_UTIL x", *map(line.format, (0, 1))])

    assert checks.series(text) == {"DCGM_FI_DEV_GPU_UTIL": 2}


@pytest.mark.parametrize(
    ("counted", "level"),
    [
        (None, Level.SKIP),
        ({}, Level.FAIL),
        ({"DCGM_FI_DEV_GPU_UTIL": 2}, Level.OK),
    ],
    ids=["no-exporter", "no-series", "series"],
)
def test_exporter_needs_series_of_utilization(counted: Any, level: Level) -> None:
    assert checks.check_metrics(counted).level is level


def test_pods_of_other_schedulers_are_a_warning() -> None:
    finding = checks.check_share(found(node(), pods=[holder(1, scheduler="default-scheduler")]))

    assert (finding.level, finding.advice) == (
        Level.WARN,
        "value nodePartition of the chart gpu-scheduler",
    )
