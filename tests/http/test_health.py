"""Port 8080: the seed's answers, the truth about the watches, and metrics."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator
from datetime import UTC, datetime

import pytest
from aiohttp import web
from aiohttp.test_utils import TestClient, TestServer

from scheduler.report.capacity_metrics import CapacityMetrics
from scheduler.report.cost_metrics import CostMetrics
from scheduler.report.decisions.capacity import CapacityReport
from scheduler.report.decisions.cost import CostReport
from scheduler.report.health import application
from scheduler.report.metrics import Metrics
from scheduler.report.price_table import PriceTableReader
from scheduler.state.scheduler_state import empty_state

Web = TestClient[web.Request, web.Application]


def idle_capacity() -> CapacityMetrics:
    """The gauges of a scheduler that does not lead."""
    state = empty_state("gpu-scheduler")
    report = CapacityReport(state, lambda: False, time.monotonic, lambda: datetime.now(UTC))
    return CapacityMetrics(report, lambda: False, time.monotonic)


def idle_costs() -> CostMetrics:
    """The counters of a scheduler that does not lead."""
    state, prices = empty_state("gpu-scheduler"), PriceTableReader("")
    report = CostReport(state, prices, lambda: False, lambda: datetime.now(UTC))
    return CostMetrics(report, lambda: False, time.monotonic)


class Condition:
    """What the process says about itself."""

    is_alive = True
    problem: str | None = None


@pytest.fixture
def condition() -> Condition:
    return Condition()


@pytest.fixture
async def page(condition: Condition) -> AsyncIterator[Web]:
    app = application(
        "gpu-scheduler",
        Metrics("gpu-scheduler"),
        lambda: condition.is_alive,
        lambda: condition.problem,
        idle_capacity(),
        idle_costs(),
    )
    async with TestClient(TestServer(app)) as client:
        yield client


@pytest.mark.contract("S2-11")
async def test_health_endpoints_return_the_seed_documents(page: Web) -> None:
    health, ready = await page.get("/health"), await page.get("/ready")

    assert (health.status, await health.json()) == (
        200,
        {"status": "healthy", "service": "gpu-scheduler"},
    )
    assert (ready.status, await ready.json()) == (
        200,
        {"status": "ready", "service": "gpu-scheduler"},
    )


@pytest.mark.contract("S2-B12")
@pytest.mark.parametrize("path", ["/health", "/livez", "/healthz"])
async def test_dead_scheduler_is_unhealthy(page: Web, condition: Condition, path: str) -> None:
    condition.is_alive = False
    answer = await page.get(path)

    assert (answer.status, (await answer.json())["status"]) == (503, "dead")


@pytest.mark.contract("S2-B12")
@pytest.mark.parametrize("path", ["/ready", "/readyz"])
async def test_broken_watch_is_reported(page: Web, condition: Condition, path: str) -> None:
    """Field case C08."""
    condition.problem = "the watch of nodes is broken"
    answer = await page.get(path)

    assert answer.status == 503
    assert (await answer.json())["reason"] == "the watch of nodes is broken"


async def test_metrics_are_there_with_kube_schedulers_names(page: Web) -> None:
    text = await (await page.get("/metrics")).text()

    for name in (
        "gpu_scheduler_schedule_attempts_total",
        "gpu_scheduler_pending_pods",
        "gpu_scheduler_pod_scheduling_sli_duration_seconds",
        "gpu_scheduler_cache_size",
        "gpu_scheduler_leader_election_master_status",
        "gpu_scheduler_over_committed_devices",
        "gpu_scheduler_build_info",
        "gpu_scheduler_devices",
        "process_resident_memory_bytes",
    ):
        assert f"# TYPE {name} " in text
