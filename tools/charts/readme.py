"""The table of values in a chart's README.md, between two markers; the rest is written by hand."""

from __future__ import annotations

import json
from typing import Final

from tools.charts.values import BadValues, Value

BEGIN: Final = "<!-- values: written by `make charts` from values.yaml -->"
END: Final = "<!-- end of values -->"
_LONG: Final = 60


def render(page: str, values: list[Value]) -> str:
    """The page with a new table."""
    before, begin, rest = page.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise BadValues(f"README.md: the lines {BEGIN} and {END} are needed")
    return f"{before}{BEGIN}\n{table(values)}{END}{after}"


def table(values: list[Value]) -> str:
    """One row for each value."""
    rows = [f"| `{value.name}` | {_default(value)} | {value.text} |" for value in values]
    return "\n".join(["| value | default | meaning |", "|---|---|---|", *rows]) + "\n"


def _default(value: Value) -> str:
    text = json.dumps(value.default)
    if len(text) > _LONG:
        return "see values.yaml"
    return f"`{text}`"
