"""Counters of GPU seconds and of money, by namespace, model and tier, and what is idle.

They advance when they are scraped: for the time since the scrape before, the mean of what was held
then and now counts. A pod that starts and ends between two scrapes is not counted. A new leader
begins at zero, and Prometheus' ``increase`` adds the parts up. The sum of all namespaces and of all
idle states is the number of GPUs times the seconds, exactly.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from fractions import Fraction
from itertools import chain
from typing import Final

import msgspec
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from scheduler.model.cost.share import ZERO
from scheduler.report.decisions.cost import CostReport
from scheduler.report.scraped_sums import OTHERS, ScrapedSums
from scheduler.state.capacity.cost import CostSummary, HeldCost, PriceKey
from scheduler.state.capacity.gpu_pools import Idle
from scheduler.state.parts import Parts

#: Namespaces with series of their own, the first that held GPUs while this process leads.
NAMESPACES_MAX: Final = 1_000
#: Series that advance in one part.
PART: Final = 500
GRANTED, DEGRADED = "granted", "degraded"
STATES: Final = ("free", "stranded", "failed", "unavailable")
_HOUR_S: Final = 3600
_MS: Final = 1000

_HELD, _SAVED = "gpu_scheduler_namespace_gpu_seconds", "gpu_scheduler_namespace_saved_gpu_seconds"
_IDLE = "gpu_scheduler_idle_gpu_seconds"
_COST, _SAVED_COST = "gpu_scheduler_namespace_cost", "gpu_scheduler_namespace_saved_cost"
_IDLE_COST = "gpu_scheduler_idle_cost"
_PER_HOUR, _IDLE_PER_HOUR = (
    "gpu_scheduler_namespace_cost_per_hour",
    "gpu_scheduler_idle_cost_per_hour",
)

COST_COUNTERS: Final[dict[str, tuple[str, tuple[str, ...]]]] = {
    _HELD: (
        "GPU seconds that the pods of a namespace held, a MIG instance by its share of the GPU"
        " (docs/cost.md); the tier is granted, or degraded if it is smaller than requested; of more"
        f" than {NAMESPACES_MAX} namespaces the later ones are summed as {OTHERS}.",
        ("namespace", "model", "tier"),
    ),
    _SAVED: (
        "GPU seconds that degraded pods of a namespace would have held more with the tier that they"
        " requested.",
        ("namespace", "model"),
    ),
    _IDLE: (
        "GPU seconds that no pod held, by state: free, stranded (the rest of a GPU into which no"
        " profile in use fits), failed or unavailable.",
        ("model", "state"),
    ),
    _COST: (
        "The price of the GPU seconds that the pods of a namespace held, in the currency of the"
        " price table; GPUs without a price do not count.",
        ("namespace", "model", "tier", "currency"),
    ),
    _SAVED_COST: (
        "The price of the GPU seconds that degraded pods of a namespace would have held more.",
        ("namespace", "model", "currency"),
    ),
    _IDLE_COST: ("The price of the GPU seconds that no pod held.", ("model", "state", "currency")),
}
COST_GAUGES: Final[dict[str, tuple[str, tuple[str, ...]]]] = {
    _PER_HOUR: (
        "The price per hour of what the pods of a namespace hold now.",
        ("namespace", "currency"),
    ),
    _IDLE_PER_HOUR: (
        "The price per hour of the GPUs that no pod holds now.",
        ("state", "currency"),
    ),
}

#: Family and label values -> an exact value.
Series = dict[tuple[str, tuple[str, ...]], Fraction]


class Rates(msgspec.Struct, frozen=True):
    """What is held and idle at one time: in GPUs, in money per second, and in money per hour."""

    at_ms: int
    rates: Series
    gauges: Series


class CostMetrics(Collector):
    """Collects the costs of one process; ``clock`` is in seconds."""

    def __init__(
        self, report: CostReport, leads: Callable[[], bool], clock: Callable[[], float]
    ) -> None:
        self._report = report
        self._clock = clock
        self._counters: Series = {}
        self._own: dict[str, None] = {}
        self._sums = ScrapedSums(self._advance, leads, clock)

    async def refresh(self) -> None:
        """Advance the counters, unless they are recent."""
        await self._sums.refresh()

    def collect(self) -> Iterator[Metric]:
        """The families; without sums they are empty."""
        families: dict[str, CounterMetricFamily | GaugeMetricFamily] = {
            name: CounterMetricFamily(name, text, labels=labels)
            for name, (text, labels) in COST_COUNTERS.items()
        }
        for name, (text, labels) in COST_GAUGES.items():
            families[name] = GaugeMetricFamily(name, text, labels=labels)
        sums = self._sums.last
        if sums is not None:
            for (name, labels), value in chain(self._counters.items(), sums.gauges.items()):
                families[name].add_metric(labels, float(value))
        yield from families.values()

    def _advance(self) -> Parts[Rates]:
        before = self._sums.last
        summary = yield from self._report.summary()
        now = Rates(int(self._clock() * _MS), {}, {})
        yield from self._read(summary, now)
        elapsed_ms = 0 if before is None else max(0, now.at_ms - before.at_ms)
        former: Mapping[tuple[str, tuple[str, ...]], Fraction] = (
            {} if before is None else before.rates
        )
        mean = Fraction(elapsed_ms, 2 * _MS)
        for number, key in enumerate(dict.fromkeys((*former, *now.rates)), start=1):
            rate = former.get(key, ZERO) + now.rates.get(key, ZERO)
            self._counters[key] = self._counters.get(key, ZERO) + rate * mean
            if number % PART == 0:
                yield PART
        return now

    def _read(self, summary: CostSummary, now: Rates) -> Parts[None]:
        currency = summary.prices.currency
        every = ((key, *item) for key, cells in summary.held.items() for item in cells.items())
        for number, (key, namespace, cell) in enumerate(every, start=1):
            _add_held(now, self._name_of(namespace), key, cell, currency)
            if number % PART == 0:
                yield PART
        for key, model in summary.models.items():
            _add_idle(now, key, model.idle, currency)

    def _name_of(self, namespace: str) -> str:
        """A namespace keeps its series, so a counter never goes down."""
        if namespace in self._own or len(self._own) < NAMESPACES_MAX:
            self._own[namespace] = None
            return namespace
        return OTHERS


def _add_held(now: Rates, name: str, key: PriceKey, cell: HeldCost, currency: str) -> None:
    model, price = key
    held, degraded, saved = cell.gpus.value, cell.degraded.value, cell.saved.value
    tiers = ((GRANTED, held - degraded), (DEGRADED, degraded))
    for tier, gpus in tiers:
        _add(now.rates, _HELD, (name, model, tier), gpus)
    _add(now.rates, _SAVED, (name, model), saved)
    if price is None:
        return
    for tier, gpus in tiers:
        _add(now.rates, _COST, (name, model, tier, currency), gpus * price / _HOUR_S)
    _add(now.rates, _SAVED_COST, (name, model, currency), saved * price / _HOUR_S)
    _add(now.gauges, _PER_HOUR, (name, currency), held * price)


def _add_idle(now: Rates, key: PriceKey, idle: Idle, currency: str) -> None:
    model, price = key
    for state in STATES:
        gpus: Fraction = getattr(idle, state)
        _add(now.rates, _IDLE, (model, state), gpus)
        if price is not None:
            _add(now.rates, _IDLE_COST, (model, state, currency), gpus * price / _HOUR_S)
            _add(now.gauges, _IDLE_PER_HOUR, (state, currency), gpus * price)


def _add(series: Series, name: str, labels: tuple[str, ...], value: Fraction) -> None:
    if value:
        series[name, labels] = series.get((name, labels), ZERO) + value
