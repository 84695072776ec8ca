"""The gauges of devices, as a scrape of the leader reads them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from datetime import UTC, datetime

import pytest
from prometheus_client import CollectorRegistry

from scheduler.model import well_known
from scheduler.model.pods.pod import Pod
from scheduler.report import capacity_metrics
from scheduler.report.capacity_metrics import DEVICE_GAUGES, NEW, CapacityMetrics
from scheduler.report.decisions.api_types import Capacity
from scheduler.report.decisions.capacity import CapacityReport, OnNode
from scheduler.report.scraped_sums import OTHERS
from scheduler.state import event as ev
from scheduler.state.parts import Parts
from tests.builders import node, pod
from tests.unit.loop.loop_world import WALL, Stage, playing
from tests.unit.report.scraped_series import series_of

H100 = {well_known.GPU_PRODUCT: "H100"}


class Scraped:
    """A loop whose gauges are scraped."""

    def __init__(self, stage: Stage) -> None:
        self.stage = stage
        self.registry = CollectorRegistry()
        wall = datetime.fromtimestamp(WALL, UTC)
        report = CapacityReport(stage.loop, stage.leader.leads, stage.clock, lambda: wall)
        self.gauges = CapacityMetrics(report, stage.leader.leads, stage.clock)
        self.registry.register(self.gauges)

    async def series(self, name: str) -> dict[tuple[str, ...], float]:
        """Label values in the order of the table -> value, after a scrape; zeros left out."""
        await self.gauges.refresh()
        _, labels = DEVICE_GAUGES[name]
        return series_of(self.registry, name, labels)


@pytest.fixture
async def scraped() -> AsyncIterator[Scraped]:
    async with playing(Stage()) as stage:
        stage.see(
            ev.NodeUpdated(node("a", gpus=8, labels=H100)),
            ev.NodeUpdated(node("b", gpus=6, capacity={well_known.GPU: "8"}, labels=H100)),
            ev.NodeUpdated(node("c", gpus=4, labels=H100, cordoned=True)),
            ev.NodeUpdated(node("m", mig={"1g.10gb": 2})),
        )
        stage.sync()
        yield Scraped(stage)


async def place(stage: Stage, *pods: Pod) -> None:
    """The pods are decided, and those that fit are bound."""
    stage.see(*(ev.PodUpdated(one) for one in pods))
    await stage.quiet()
    for placement in stage.binder.sent:
        stage.confirm(placement)
    await stage.quiet()


async def test_devices_are_counted_by_board_and_state(scraped: Scraped) -> None:
    await place(scraped.stage, pod("p", gpus=2))

    assert await scraped.series("gpu_scheduler_devices") == {
        ("H100", "gpu", "held"): 2,
        ("H100", "gpu", "free"): 12,
        ("H100", "gpu", "failed"): 2,
        ("H100", "gpu", "unavailable"): 4,
        ("unknown", "1g.10gb", "free"): 2,
    }
    assert await scraped.series("gpu_scheduler_largest_free_block") == {("H100",): 8}


async def test_sums_of_nodes_boards_and_namespaces_agree(scraped: Scraped) -> None:
    await place(scraped.stage, pod("p", gpus=2), pod("q", gpus=3, namespace="other"))

    by_node = await scraped.series("gpu_scheduler_node_devices")
    by_board = await scraped.series("gpu_scheduler_devices")
    by_namespace = await scraped.series("gpu_scheduler_namespace_devices")
    assert sum(by_node.values()) == sum(by_board.values())
    held = sum(value for key, value in by_node.items() if key[3] == "held")
    assert held == sum(by_namespace.values()) == 5


async def test_waiting_devices_have_the_code_of_their_reason(scraped: Scraped) -> None:
    """An insufficient resource stands for the rejection, although one node is cordoned."""
    await place(scraped.stage, pod("big", gpus=16), pod("odd", gpus=1, selector={"zone": "x"}))

    assert await scraped.series("gpu_scheduler_pending_devices") == {
        ("team", "gpu", "INSUFFICIENT"): 16,
        ("team", "gpu", "AFFINITY"): 1,
    }


async def test_a_pod_before_its_decision_waits_as_new(scraped: Scraped) -> None:
    scraped.stage.leader.is_leading = False
    await place(scraped.stage, pod("p", gpus=2))
    scraped.stage.leader.is_leading = True

    assert await scraped.series("gpu_scheduler_pending_devices") == {("team", "gpu", NEW): 2}


async def test_oldest_pod_of_a_namespace_has_its_time(scraped: Scraped) -> None:
    await place(scraped.stage, pod("big", gpus=16))
    scraped.stage.clock.now += 90
    await place(scraped.stage, pod("huge", gpus=16))

    oldest = await scraped.series("gpu_scheduler_oldest_pending_timestamp_seconds")
    assert oldest == {("team",): WALL - 90}
    assert await scraped.series("gpu_scheduler_namespace_pending_pods") == {("team",): 2}


async def test_degraded_pods_count_by_what_they_have(scraped: Scraped) -> None:
    record = {well_known.ORIGINAL: "{}", well_known.FALLBACK: "2g.20gb"}
    await place(scraped.stage, pod("small", mig={"1g.10gb": 1}, annotations=record))

    assert await scraped.series("gpu_scheduler_degraded_pods") == {("team", "1g.10gb"): 1}


async def test_a_standby_has_no_series(scraped: Scraped) -> None:
    assert await scraped.series("gpu_scheduler_devices")
    scraped.stage.leader.is_leading = False

    for name in DEVICE_GAUGES:
        assert await scraped.series(name) == {}


async def test_nodes_and_namespaces_beyond_the_bound_are_summed(
    scraped: Scraped, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(capacity_metrics, "NODES_MAX", 1)
    monkeypatch.setattr(capacity_metrics, "NAMESPACES_MAX", 1)
    await place(scraped.stage, *(pod(f"p{n}", gpus=1 + n, namespace=f"team-{n}") for n in range(3)))

    by_node = await scraped.series("gpu_scheduler_node_devices")
    assert {key[0] for key in by_node} == {"a", OTHERS}
    assert sum(value for key, value in by_node.items() if key[3] == "held") == 6
    assert await scraped.series("gpu_scheduler_namespace_devices") == {
        ("team-2", "gpu"): 3,
        (OTHERS, "gpu"): 3,
    }


class Slow(CapacityReport):
    """Takes ``taking_s`` seconds of the test's clock, and counts."""

    def __init__(self, stage: Stage, taking_s: float) -> None:
        super().__init__(stage.loop, lambda: True, stage.clock, lambda: datetime.now(UTC))
        self.stage = stage
        self.taking_s = taking_s
        self.taken = 0

    def take(
        self, *, with_nodes: bool, with_holders: bool, beside: OnNode | None = None
    ) -> Parts[Capacity]:
        self.taken += 1
        yield 1
        self.stage.clock.now += self.taking_s
        return (
            yield from super().take(with_nodes=with_nodes, with_holders=with_holders, beside=beside)
        )


@pytest.mark.parametrize(
    ("taking_s", "rest_s"),
    [pytest.param(0.1, 10.0, id="hundredfold"), pytest.param(2.0, 30.0, id="bounded")],
)
async def test_early_scrapes_get_the_former_sums(taking_s: float, rest_s: float) -> None:
    stage = Stage()
    report = Slow(stage, taking_s)
    gauges = CapacityMetrics(report, lambda: True, stage.clock)

    await asyncio.gather(gauges.refresh(), gauges.refresh())
    stage.clock.now += rest_s - 0.1
    await gauges.refresh()
    assert report.taken == 1
    stage.clock.now += 0.2
    await gauges.refresh()
    assert report.taken == 2
