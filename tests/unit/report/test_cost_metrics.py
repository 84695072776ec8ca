"""The counters of GPU seconds and money, as scrapes of the leader read them."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import UTC, datetime

import pytest
from prometheus_client import CollectorRegistry

from scheduler.model import well_known
from scheduler.model.cost.prices import PriceTable, parse_prices
from scheduler.report import cost_metrics
from scheduler.report.cost_metrics import COST_COUNTERS, COST_GAUGES, CostMetrics
from scheduler.report.decisions.cost import CostReport
from scheduler.report.scraped_sums import OTHERS, REST_MAX_S
from scheduler.state import event as ev
from tests.builders import node, pod
from tests.unit.loop.loop_world import WALL, Stage, playing
from tests.unit.report.scraped_series import series_of
from tests.unit.report.test_capacity_metrics import place

A100 = "NVIDIA-A100-SXM4-80GB"
HELD, SAVED, IDLE, COST, SAVED_COST, IDLE_COST = COST_COUNTERS
PER_HOUR, IDLE_PER_HOUR = COST_GAUGES
RECORD = {
    well_known.ORIGINAL: '{"app": {"limits": {"nvidia.com/mig-3g.40gb": "1"}}}',
    well_known.FALLBACK: "1g.10gb",
}
PRICES = parse_prices("currency: EUR\nmodels: {H100: 7.2, A100: 3.6}")
Values = dict[tuple[str, ...], float]


class Table:
    """A price table that a test can change."""

    problem = ""

    def __init__(self) -> None:
        self.table = PRICES

    def read(self) -> PriceTable:
        return self.table


class Scraped:
    """A loop whose counters are scraped."""

    def __init__(self, stage: Stage) -> None:
        self.stage = stage
        self.prices = Table()
        self.registry = CollectorRegistry()
        wall = datetime.fromtimestamp(WALL, UTC)
        report = CostReport(stage.loop, self.prices, stage.leader.leads, lambda: wall)
        self.metrics = CostMetrics(report, stage.leader.leads, stage.clock)
        self.registry.register(self.metrics)

    async def after(self, seconds: float) -> None:
        """A scrape so many seconds after the one before."""
        self.stage.clock.now += seconds
        await self.metrics.refresh()

    def series(self, name: str) -> Values:
        """Label values in the order of the table -> value; zeros left out."""
        labels = (COST_COUNTERS | COST_GAUGES)[name][1]
        return series_of(self.registry, name, labels)


@pytest.fixture
async def scraped() -> AsyncIterator[Scraped]:
    async with playing(Stage()) as stage:
        stage.see(
            ev.NodeUpdated(node("a", gpus=8, labels={well_known.GPU_PRODUCT: "H100"})),
            ev.NodeUpdated(node("m", mig={"1g.10gb": 7}, labels={well_known.GPU_PRODUCT: A100})),
        )
        stage.sync()
        yield Scraped(stage)


async def test_seconds_are_counted_between_scrapes(scraped: Scraped) -> None:
    await place(scraped.stage, pod("p", gpus=2), pod("s", mig={"1g.10gb": 1}, namespace="other"))
    await scraped.after(0)
    assert scraped.series(HELD) == {}
    await scraped.after(700)

    assert scraped.series(HELD) == {
        ("team", "H100", "granted"): 1400,
        ("other", A100, "granted"): 100,
    }
    assert scraped.series(IDLE) == {("H100", "free"): 4200, (A100, "free"): 600}


async def test_a_pod_that_came_in_between_counts_for_half_of_the_time(scraped: Scraped) -> None:
    await scraped.after(0)
    await place(scraped.stage, pod("p", gpus=2))
    await scraped.after(100)

    assert scraped.series(HELD) == {("team", "H100", "granted"): 100}
    assert scraped.series(IDLE)["H100", "free"] == 700


@pytest.mark.contract("S4-24")
async def test_money_is_the_price_of_the_seconds(scraped: Scraped) -> None:
    await place(scraped.stage, pod("p", gpus=2))
    await scraped.after(0)
    await scraped.after(1800)

    assert scraped.series(COST) == {("team", "H100", "granted", "EUR"): 7.2}
    assert scraped.series(PER_HOUR) == {("team", "EUR"): 14.4}
    assert scraped.series(IDLE_PER_HOUR) == {("free", "EUR"): pytest.approx(6 * 7.2 + 3.6)}


async def test_degraded_time_and_what_it_saves_have_series(scraped: Scraped) -> None:
    await place(scraped.stage, pod("s", mig={"1g.10gb": 1}, annotations=RECORD))
    await scraped.after(0)
    await scraped.after(1400)

    assert scraped.series(HELD) == {("team", A100, "degraded"): 200}
    assert scraped.series(SAVED) == {("team", A100): 500}
    assert scraped.series(SAVED_COST) == {("team", A100, "EUR"): 0.5}


async def test_counters_stay_when_the_prices_go(scraped: Scraped) -> None:
    await place(scraped.stage, pod("p", gpus=1))
    await scraped.after(0)
    await scraped.after(1000)
    scraped.prices.table = PriceTable()
    await scraped.after(1000)
    before = scraped.series(COST)
    await scraped.after(1000)

    assert scraped.series(COST) == before
    assert scraped.series(PER_HOUR) == {}
    assert scraped.series(HELD) == {("team", "H100", "granted"): 3000}


async def test_sums_of_all_series_are_the_gpus_times_the_time(scraped: Scraped) -> None:
    pods = [pod(f"p{n}", mig={"1g.10gb": 1}, namespace=f"team-{n}") for n in range(3)]
    await place(scraped.stage, pod("p", gpus=3), *pods)
    await scraped.after(0)
    await scraped.after(1001)

    seconds = sum(scraped.series(HELD).values()) + sum(scraped.series(IDLE).values())
    assert seconds == pytest.approx(9 * 1001)


async def test_pods_and_idle_parts_cost_what_the_gpus_cost(scraped: Scraped) -> None:
    """OC#3828: slices were billed as whole GPUs, or as nothing."""
    pods = [pod(f"p{n}", mig={"1g.10gb": 1}, namespace=f"team-{n}") for n in range(3)]
    await place(scraped.stage, pod("p", gpus=3), *pods)
    await scraped.after(0)
    for _ in range(2):
        before = sum(scraped.series(COST).values()) + sum(scraped.series(IDLE_COST).values())
        await scraped.after(3600)
        after = sum(scraped.series(COST).values()) + sum(scraped.series(IDLE_COST).values())
        assert after - before == pytest.approx(8 * 7.2 + 3.6)

    assert scraped.series(COST)["team-0", A100, "granted", "EUR"] == pytest.approx(2 * 3.6 / 7)


async def test_a_standby_has_no_series_and_counts_no_time(scraped: Scraped) -> None:
    await place(scraped.stage, pod("p", gpus=1))
    await scraped.after(0)
    scraped.stage.leader.is_leading = False
    await scraped.after(1000)
    assert scraped.series(PER_HOUR) == {}
    scraped.stage.leader.is_leading = True
    await scraped.after(1000)
    await scraped.after(10 + REST_MAX_S)

    assert scraped.series(HELD) == {("team", "H100", "granted"): 10 + REST_MAX_S}


async def test_namespaces_beyond_the_bound_share_a_series(
    scraped: Scraped, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cost_metrics, "NAMESPACES_MAX", 1)
    await place(scraped.stage, *(pod(f"p{n}", gpus=1, namespace=f"team-{n}") for n in range(3)))
    await scraped.after(0)
    await scraped.after(100)
    scraped.stage.see(ev.PodDeleted("team-0-p0"))
    await scraped.stage.quiet()
    await scraped.after(100)

    assert scraped.series(HELD)[OTHERS, "H100", "granted"] == 400
    assert len(scraped.series(HELD)) == 2
