"""The shape of a panel, and its queries with the selectors of the dashboard's variables."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from functools import cache
from typing import Final, Literal, NamedTuple

from tools import metrics_page

Kind = Literal["stat", "gauge", "bargauge", "table", "timeseries"]


class Query(NamedTuple):
    """One expression. In a table the legend is the column's name, and the unit is the column's."""

    expression: str
    legend: str
    unit: str = ""


class Panel(NamedTuple):
    """One panel: what it shows and what to do, and from which value on it has which color."""

    row: str
    title: str
    kind: Kind
    description: str
    queries: tuple[Query, ...]
    unit: str
    thresholds: tuple[tuple[float, str], ...] = ()
    is_stacked: bool = False
    #: A column of a table and what it links to; ``${__value.raw}`` is the value of the column.
    link: tuple[str, str, str] | None = None


_METRIC: Final = re.compile(r"\b(?P<name>(?:gpu_scheduler|DCGM_FI)_\w+)(?:\{(?P<own>[^}]*)\})?")
#: Labels of pods in the DCGM exporter. A Prometheus that does not honor them renames them.
POD_LABELS: Final = ("namespace", "pod", "container")
#: Metrics of the DCGM exporter that its default list of counters has, with their labels. A metric
#: of a MIG instance also has the two labels of the instance.
EXPORTED: Final[Mapping[str, tuple[str, ...]]] = dict.fromkeys(
    (
        "DCGM_FI_DEV_GPU_UTIL",
        "DCGM_FI_DEV_FB_USED",
        "DCGM_FI_DEV_FB_FREE",
        "DCGM_FI_DEV_GPU_TEMP",
        "DCGM_FI_DEV_POWER_USAGE",
        "DCGM_FI_DEV_XID_ERRORS",
        "DCGM_FI_PROF_GR_ENGINE_ACTIVE",
    ),
    (
        *("cluster", "Hostname", "modelName", "gpu", "UUID", "GPU_I_ID", "GPU_I_PROFILE"),
        *POD_LABELS,
        *(f"exported_{label}" for label in POD_LABELS),
    ),
)


@cache
def labels() -> Mapping[str, tuple[str, ...]]:
    """Every series that a panel can query, with its labels."""
    found = dict(EXPORTED)
    for name, kind, own, _ in (
        *metrics_page.devices(),
        *metrics_page.costs(),
        *metrics_page.scheduler(),
        *metrics_page.webhook(),
    ):
        has = ("cluster", "job", *own)  # the first two are labels of the scrape
        if kind == "histogram":
            found |= {f"{name}_bucket": (*has, "le"), f"{name}_sum": has, f"{name}_count": has}
        else:
            found[name] = has
    return found


def metrics(expression: str) -> set[str]:
    """The series that an expression reads."""
    return {match["name"] for match in _METRIC.finditer(expression)}


def filtered(expression: str, variables: Collection[str]) -> str:
    """The expression in which every series has a matcher for each variable that is its label."""

    def selected(match: re.Match[str]) -> str:
        own = [match["own"]] if match["own"] else []
        has = labels()[match["name"]]
        matchers = [f'{name}=~"${name}"' for name in variables if name in has]
        inside = ",".join(own + matchers)
        return f"{match['name']}{{{inside}}}" if inside else match["name"]

    return _METRIC.sub(selected, expression)


def per_minute(metric: str, *by: str) -> tuple[Query, ...]:
    """How often a counter rises in a minute."""
    return (_rate(metric, by, 60),)


def per_hour(metric: str, *by: str) -> tuple[Query, ...]:
    """How often a counter rises in an hour."""
    return (_rate(metric, by, 3600),)


def _rate(metric: str, by: tuple[str, ...], seconds: int) -> Query:
    legend = " ".join(f"{{{{{label}}}}}" for label in by) or "all"
    group = f" by ({', '.join(by)}) " if by else ""
    return Query(f"sum{group}(rate({metric}[$__rate_interval])) * {seconds}", legend)


def quantiles(metric: str, *wanted: str) -> tuple[Query, ...]:
    """Quantiles of a histogram."""
    inner = f"sum by (le) (rate({metric}_bucket[$__rate_interval]))"
    return tuple(Query(f"histogram_quantile({q}, {inner})", f"quantile {q}") for q in wanted)
