"""What `gpuctl doctor` says of the scheduler's memory limit."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from gpuctl.doctor.api_types import ApiObject, memory_limit_of
from gpuctl.doctor.checks.memory import needed_mib, on_memory, recommended_mib
from gpuctl.doctor.facts import MemoryLimit, PodsSeen, Unread
from gpuctl.doctor.finding import Level
from tests.unit.gpuctl.doctor.wellcluster import N1, facts

MIB = 2**20
OWNER = "gpu-scheduler-system/gpu-scheduler"


def limit(mib: int) -> MemoryLimit:
    return MemoryLimit(OWNER, mib * MIB)


@pytest.mark.parametrize(
    ("nodes", "pods", "mib", "level"),
    [
        pytest.param(1, 10, 512, Level.OK, id="small-cluster"),
        pytest.param(1000, 20_000, 512, Level.OK, id="chart-default"),
        pytest.param(1, 10, 64, Level.WARN, id="limit-below-an-empty-process"),
        pytest.param(5000, 100_000, 512, Level.WARN, id="large-cluster"),
        pytest.param(5000, 100_000, 4096, Level.OK, id="large-cluster-with-a-raised-limit"),
    ],
)
def test_limit_is_compared_with_the_need_of_nodes_and_pods(
    nodes: int, pods: int, mib: int, level: Level
) -> None:
    [found] = on_memory(
        facts(nodes=(N1,) * nodes, pods=PodsSeen(count=pods), memory_limit=limit(mib))
    )

    assert found.level is level
    assert found.says == (
        f"{nodes} nodes and {pods} pods need about {needed_mib(nodes, pods)} MiB"
        f" of the limit of {mib} MiB of {OWNER}"
    )


def test_warning_names_a_limit_that_the_check_accepts() -> None:
    nodes, pods = (N1,) * 15_000, 100_000
    wanted = recommended_mib(needed_mib(len(nodes), pods))

    [low] = on_memory(facts(nodes=nodes, pods=PodsSeen(count=pods), memory_limit=limit(512)))
    [raised] = on_memory(facts(nodes=nodes, pods=PodsSeen(count=pods), memory_limit=limit(wanted)))

    assert f"resources.limits.memory of the chart to {wanted}Mi" in low.advice
    assert raised.level is Level.OK


def test_without_a_limit_the_need_is_reported_and_no_fault() -> None:
    [found] = on_memory(facts(pods=PodsSeen(count=500), memory_limit=None))

    assert found.level is Level.OK
    assert "1 nodes and 500 pods need about" in found.says


def test_unread_limit_is_a_warning_with_the_cause() -> None:
    [found] = on_memory(facts(memory_limit=Unread("forbidden")))

    assert (found.level, found.says) == (Level.WARN, "not known: forbidden")


def deployment(*containers: dict[str, Any]) -> ApiObject:
    body = {
        "metadata": {"name": "gpu-scheduler", "namespace": "gpu-scheduler-system"},
        "spec": {"template": {"spec": {"containers": list(containers)}}},
    }
    return msgspec.convert(body, ApiObject)


WEBHOOK = {"name": "webhook", "resources": {"limits": {"memory": "256Mi"}}}


@pytest.mark.parametrize(
    ("resources", "found"),
    [
        pytest.param({"limits": {"memory": "512Mi"}}, limit(512), id="limit"),
        pytest.param({"limits": {"cpu": "1"}}, None, id="no-memory-limit"),
        pytest.param({}, None, id="no-resources"),
    ],
)
def test_limit_is_that_of_the_scheduler_container(resources: Any, found: Any) -> None:
    container = {"name": "scheduler", "resources": resources}

    assert memory_limit_of(deployment(WEBHOOK, container)) == found
