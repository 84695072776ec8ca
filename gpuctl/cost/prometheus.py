"""The costs of a range of time, as Prometheus has them from the scheduler's counters.

``increase`` extrapolates to the ends of the range, so these are estimates, not exact sums.
"""

from __future__ import annotations

import re
from fractions import Fraction
from typing import Final

import msgspec

from gpuctl import cluster_access
from gpuctl.cost.rows import MODEL, NAMESPACE, STATES, Amounts, Table
from gpuctl.exporter.idle import ACTIVE, UTILIZATION
from gpuctl.input_error import NotReached
from scheduler.model.cost.share import ZERO
from scheduler.report.cost_metrics import COST_COUNTERS, DEGRADED
from scheduler.watch.client import ApiError, Client, Unreachable

QUERY_S: Final = 60.0
SINCE: Final = "7d"
_SINCE: Final = re.compile(r"([1-9][0-9]{0,4})([smhdw])")
_SECONDS: Final = {"s": 1, "m": 60, "h": 3600, "d": 86400, "w": 604800}
#: Samples of the use of GPUs, in a range.
_SAMPLES: Final = 500
_STEP_MIN_S: Final = 300
_HOUR_S: Final = 3600
_HELD, _SAVED, _IDLE, _COST, _SAVED_COST, _IDLE_COST = (f"{name}_total" for name in COST_COUNTERS)


class _Sample(msgspec.Struct, frozen=True):
    metric: dict[str, str] = {}
    value: tuple[float, str] = (0.0, "0")


class _Vector(msgspec.Struct, frozen=True, rename="camel"):
    result_type: str
    result: list[_Sample] = []


class _Answer(msgspec.Struct, frozen=True):
    status: str
    data: _Vector | None = None
    error: str = ""


class Range(msgspec.Struct, frozen=True, kw_only=True):
    """The rows of a range, its currency, and what is missing."""

    table: Table
    currency: str
    notes: tuple[str, ...] = ()


def seconds_of(since: str) -> int | None:
    """The seconds of a duration such as 12h, 7d or 4w; None for any other text.

    >>> seconds_of("7d"), seconds_of("0d"), seconds_of("a week")
    (604800, None, None)
    """
    found = _SINCE.fullmatch(since)
    return int(found[1]) * _SECONDS[found[2]] if found else None


async def read_range(
    url: str, since: str, by: str, namespace: str | None, *, with_use: bool
) -> Range:
    """The costs since a duration ago, by namespace or model; NotReached is one line."""
    async with cluster_access.server(url.rstrip("/")) as client:
        series = {name: await _query(client, url, _increase(name, since)) for name in _names()}
        use = await _use(client, url, since) if with_use else None
    return _range(series, by, namespace, use)


def _names() -> tuple[str, ...]:
    return _HELD, _SAVED, _IDLE, _COST, _SAVED_COST, _IDLE_COST


def _increase(name: str, since: str) -> str:
    """The increase by all labels of the metric; a Prometheus that adds its own label
    ``namespace`` has renamed that of the metric.
    """
    labels = COST_COUNTERS[name.removesuffix("_total")][1]
    by = ", ".join((*labels, "exported_namespace") if NAMESPACE in labels else labels)
    return f"sum by ({by}) (increase({name}[{since}]))"


async def _query(client: Client, url: str, query: str) -> list[_Sample]:
    try:
        content = await client.request(
            "GET", "/api/v1/query", params={"query": query}, timeout_s=QUERY_S
        )
        answer = msgspec.json.decode(content, type=_Answer)
    except ApiError as error:
        text = error.message or f"it answered {error.status}"
        raise NotReached(f"Prometheus at {url}: {text}") from error
    except Unreachable as error:
        raise NotReached(f"Prometheus at {url} does not answer: {error}") from error
    except msgspec.MsgspecError as error:
        raise NotReached(f"{url} is no Prometheus: {error}") from error
    if answer.status != "success" or answer.data is None or answer.data.result_type != "vector":
        raise NotReached(f"Prometheus at {url}: {answer.error or 'it answered no vector'}")
    return answer.data.result


def _range(
    series: dict[str, list[_Sample]],
    by: str,
    namespace: str | None,
    use: dict[str, tuple[Fraction, Fraction]] | None,
) -> Range:
    if not series[_HELD] and not series[_IDLE]:
        raise NotReached(
            f"Prometheus has no {_HELD}: it does not scrape the scheduler, or has not for as long"
            " (chart value metrics.serviceMonitor.enabled)"
        )
    money = [*series[_COST], *series[_IDLE_COST]]
    currencies = [*dict.fromkeys(one.metric.get("currency", "") for one in money)]
    currency = currencies[0] if currencies else ""
    notes = [f"amounts in {one} are left out" for one in currencies[1:]]
    of_currency = {
        name: [one for one in found if one.metric.get("currency", currency) == currency]
        for name, found in series.items()
    }
    rows = _held(of_currency, by, namespace)
    if use is not None:
        notes += _put_use(rows, use, by)
    notes.append("hours and amounts are Prometheus' estimates (increase) over the range")
    order = sorted(rows.items(), key=lambda item: (-item[1].cost, -item[1].hours, item[0]))
    return Range(
        table=Table(
            dict(order),
            _idle(of_currency) if namespace is None else None,
            bool(currency),
            is_range=True,
        ),
        currency=currency,
        notes=tuple(notes),
    )


def _held(series: dict[str, list[_Sample]], by: str, namespace: str | None) -> dict[str, Amounts]:
    rows: dict[str, Amounts] = {}
    for name, put in ((_HELD, _put_hours), (_COST, _put_cost), (_SAVED_COST, _put_saved)):
        for one in series[name]:
            space = _namespace(one)
            if namespace in (None, space):
                key = space if by == NAMESPACE else one.metric.get(MODEL, "")
                put(rows.setdefault(key, Amounts()), one)
    return rows


def _idle(series: dict[str, list[_Sample]]) -> dict[str, Amounts]:
    found = {state: Amounts() for state in STATES}
    for name, put in ((_IDLE, _put_hours), (_IDLE_COST, _put_cost)):
        for one in series[name]:
            put(found.setdefault(one.metric.get("state", ""), Amounts()), one)
    return found


def _namespace(one: _Sample) -> str:
    return one.metric.get("exported_namespace") or one.metric.get(NAMESPACE, "")


def _number(text: str) -> Fraction:
    try:
        return max(ZERO, Fraction(text))
    except ValueError:  # NaN or Inf
        return ZERO


def _put_hours(row: Amounts, one: _Sample) -> None:
    hours = _number(one.value[1]) / _HOUR_S
    row.hours += hours
    if one.metric.get("tier") == DEGRADED:
        row.degraded_hours += hours


def _put_cost(row: Amounts, one: _Sample) -> None:
    row.cost += _number(one.value[1])


def _put_saved(row: Amounts, one: _Sample) -> None:
    row.saved += _number(one.value[1])


# --- use of the GPUs ---------------------------------------------------------------------------


async def _use(client: Client, url: str, since: str) -> dict[str, tuple[Fraction, Fraction]]:
    """Samples of GPUs without use, and all samples, by namespace."""
    step = max(_STEP_MIN_S, (seconds_of(since) or 0) // _SAMPLES)
    every = f'({UTILIZATION}{{pod!=""}} or {ACTIVE}{{pod!=""}})'

    def count(compared: str) -> str:
        samples = f"count_over_time(({every} {compared})[{since}:{step}s])"
        return f"sum by (namespace, exported_namespace) ({samples})"

    found: dict[str, tuple[Fraction, Fraction]] = {}
    for at, compared in enumerate(("== 0", ">= 0")):
        for one in await _query(client, url, count(compared)):
            pair = list(found.get(_namespace(one), (ZERO, ZERO)))
            pair[at] += _number(one.value[1])
            found[_namespace(one)] = (pair[0], pair[1])
    return found


def _put_use(
    rows: dict[str, Amounts], use: dict[str, tuple[Fraction, Fraction]], by: str
) -> list[str]:
    """The part of the cost in which the GPUs of a namespace were not used."""
    if by != NAMESPACE:
        return ["held but idle is known by namespace only"]
    for name, row in rows.items():
        unused, every = use.get(name, (ZERO, ZERO))
        if every:
            row.idle = row.cost * min(unused / every, Fraction(1))
        else:
            row.unknown = row.cost
    if use:
        return ["held idle: the part of the samples of the DCGM exporter with 0% utilization"]
    return ["held idle is unknown: Prometheus has no series of a DCGM exporter"]
