"""The queries of a rendered dashboard, with values in the place of Grafana's variables."""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterator, Mapping
from typing import Any, Final, NamedTuple

from tools.monitoring.prometheus import Prometheus

Json = dict[str, Any]
ALL: Final = ".*"
#: At least four scrapes, as Grafana's $__rate_interval.
RATE_INTERVAL: Final = "15s"
_VARIABLE: Final = re.compile(r"\$\{?(\w+)\}?")


class Target(NamedTuple):
    """One query of a panel."""

    row: str
    panel: Json
    legend: str
    expression: str

    @property
    def title(self) -> str:
        """The panel's title."""
        return str(self.panel["title"])

    def data(self, prometheus: Prometheus, seconds: float) -> list[Json]:
        """The query's series, as Grafana asks for them: over the time, or one value of now."""
        if self.panel["type"] == "timeseries":
            return prometheus.over_time(self.expression, seconds)
        return prometheus.instant(self.expression)


def variables(board: str) -> dict[str, str]:
    """The query of each variable of a dashboard's JSON, without that of the data source."""
    listed = json.loads(board)["templating"]["list"]
    return {one["name"]: one["definition"] for one in listed if one["type"] == "query"}


def targets(board: str, values: Mapping[str, Collection[str]]) -> Iterator[Target]:
    """Every query of a dashboard; a variable without values is All."""
    row = ""
    for one in json.loads(board)["panels"]:
        if one["type"] == "row":
            row = one["title"]
        for panel in one.get("panels", ()) if one["type"] == "row" else (one,):
            for target in panel["targets"]:
                expression = substituted(target["expr"], values)
                yield Target(row, panel, target["legendFormat"], expression)


def substituted(expression: str, values: Mapping[str, Collection[str]]) -> str:
    """The expression as Grafana sends it; several values of a variable are an alternative.

    >>> substituted('rate(x{node=~"$node",job=~"$job"}[$__rate_interval])', {"node": ["a.b"]})
    'rate(x{node=~"a\\\\\\\\.b",job=~".*"}[15s])'
    """

    def value(found: re.Match[str]) -> str:
        if found[1].isdigit():
            return found[0]  # a group of label_replace
        if found[1] == "__rate_interval":
            return RATE_INTERVAL
        chosen = [re.escape(one).replace("\\", "\\\\") for one in values.get(found[1], ())]
        return f"({'|'.join(chosen)})" if len(chosen) > 1 else "".join(chosen) or ALL

    return _VARIABLE.sub(value, expression)


def choices(prometheus: Prometheus, definition: str) -> set[str]:
    """The values of a variable by its ``label_values(QUERY, LABEL)``."""
    query, label = re.fullmatch(r"label_values\((.*), (\w+)\)", definition).groups()  # type: ignore[union-attr] # ours
    return {one["metric"].get(label, "") for one in prometheus.instant(query)} - {""}
