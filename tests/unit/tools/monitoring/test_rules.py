"""The chart's rules in a shorter time: what changes, and what stays."""

from __future__ import annotations

from typing import Any

import pytest

from tools.monitoring.rules import shortened, shortened_rule


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        pytest.param("rate(x[1h]) > 0.1", "rate(x[30s]) > 0.1", id="range"),
        pytest.param("rate(x[5m]) > 0", "rate(x[15s]) > 0", id="shortest-range"),
        pytest.param("time() - min(x) > 900", "time() - min(x) > 7.5", id="wait"),
        pytest.param("min(x) - time() < 7 * 86400", "min(x) - time() < 7 * 86400", id="days"),
        pytest.param("max(x) > 2", "max(x) > 2", id="count"),
    ],
)
def test_only_ranges_and_waits_are_shortened(expression: str, expected: str) -> None:
    rule: dict[str, Any] = {"alert": "A", "expr": expression, "for": "1h", "labels": {"a": "b"}}

    assert shortened_rule(rule, 120) == rule | {"expr": expected, "for": "30000ms"}


def test_groups_keep_their_names_and_rules() -> None:
    rules = [{"alert": "A", "expr": "x", "for": "2m"}, {"alert": "B", "expr": "y", "for": "15m"}]

    (found,) = shortened([{"name": "g", "rules": rules}], 60)

    assert found["name"] == "g"
    assert [(one["alert"], one["for"]) for one in found["rules"]] == [
        ("A", "2000ms"),
        ("B", "15000ms"),
    ]
