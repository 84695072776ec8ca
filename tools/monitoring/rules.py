"""The alerts' rules in a shorter time, so that a test need not wait for hours.

Divided by one factor: every ``for``, every range (``[10m]``), and the one threshold that is a
number of seconds of waiting. Expressions, labels and thresholds of rates and counts stay. A range
stays at least RANGE_MIN_S, since the product's own retries are not faster in a test.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any, Final

from tools.charts.dashboard_panels import WAIT_MAX_S

Json = dict[str, Any]
#: Several scrapes, and longer than the pauses between retries of the product.
RANGE_MIN_S: Final = 15
_UNITS: Final = {"s": 1, "m": 60, "h": 3600, "d": 86400}
_RANGE: Final = re.compile(r"\[(\d+)([smhd])\]")
_WAIT: Final = re.compile(rf"> {WAIT_MAX_S}\b")


def shortened(groups: Iterable[Json], factor: int) -> list[Json]:
    """The groups of a PrometheusRule with shorter times."""
    return [
        group | {"rules": [shortened_rule(rule, factor) for rule in group["rules"]]}
        for group in groups
    ]


def shortened_rule(rule: Json, factor: int) -> Json:
    """One rule.

    >>> shortened_rule({"expr": "rate(x[1h]) > 2", "for": "10m"}, 60)
    {'expr': 'rate(x[60s]) > 2', 'for': '10000ms'}
    """

    def shorter(found: re.Match[str]) -> str:
        return f"[{max(seconds(found[1], found[2]) // factor, RANGE_MIN_S)}s]"

    expression = _RANGE.sub(shorter, rule["expr"])
    expression = _WAIT.sub(f"> {WAIT_MAX_S / factor:g}", expression)
    amount, unit = re.fullmatch(r"(\d+)([smhd])", rule["for"]).groups()  # type: ignore[union-attr] # a rule of ours
    lasting_ms = 1000 * seconds(amount, unit) // factor
    return rule | {"expr": expression, "for": f"{lasting_ms}ms"}


def seconds(amount: str, unit: str) -> int:
    """A duration of Prometheus in seconds.

    >>> seconds("10", "m")
    600
    """
    return int(amount) * _UNITS[unit]
