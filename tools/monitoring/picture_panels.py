"""The content of each kind of panel, from the data of its queries."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from typing import Any, Final, NamedTuple

from tools.monitoring.drawing import (
    COLORS,
    GRID,
    MUTED,
    SERIES,
    TEXT,
    element,
    fitting,
    number,
    text,
)

Json = dict[str, Any]
_LEGEND: Final = re.compile(r"\{\{(\w+)\}\}")
LEGEND_Y, LINE_Y, AXIS_X = 18, 19, 44
#: Columns of a table that say nothing in a picture of one cluster.
HIDDEN: Final = ("cluster", "__name__")


class Box(NamedTuple):
    """A rectangle in pixels."""

    x: float
    y: float
    width: float
    height: float


class Series(NamedTuple):
    """One line of a panel: its name, and (time, value)."""

    name: str
    points: tuple[tuple[float, float], ...]

    @property
    def last(self) -> float:
        """The newest value."""
        return self.points[-1][1]


def body(panel: Json, box: Box) -> Iterator[str]:
    """The elements inside of a panel."""
    if panel["type"] == "table":
        return _table(panel, box)
    found = list(_series(panel))
    if not found:
        return iter((text(box.x + box.width / 2, box.y + box.height / 2, "No data", fill=MUTED),))
    kinds = {"timeseries": _lines, "bargauge": _bars, "gauge": _gauges, "stat": _stats}
    return kinds[panel["type"]](panel, found, box)


def _series(panel: Json) -> Iterator[Series]:
    for target, result in zip(panel["targets"], panel["data"], strict=False):
        for one in result:
            name = _named(target["legendFormat"], one["metric"])
            points = [(float(at), float(v)) for at, v in one.get("values") or [one["value"]]]
            kept = tuple(point for point in points if math.isfinite(point[1]))
            if kept:
                yield Series(name, kept)


def _named(legend: str, labels: Json) -> str:
    """The legend with the values of the labels."""
    filled = _LEGEND.sub(lambda found: str(labels.get(found[1], "")), legend)
    return " ".join(filled.split()) or "value"


def _unit(panel: Json) -> str:
    return str(panel["fieldConfig"]["defaults"]["unit"])


def _color(panel: Json, value: float, otherwise: str) -> str:
    steps = panel["fieldConfig"]["defaults"].get("thresholds", {}).get("steps", ())
    found = otherwise
    for step in steps:
        if step["value"] is None or value >= step["value"]:
            found = COLORS[step["color"]]
    return found


def _stats(panel: Json, found: Sequence[Series], box: Box) -> Iterator[str]:
    share = box.width / len(found)
    for at, one in enumerate(found):
        middle = box.x + share * (at + 0.5)
        shown = number(one.last, _unit(panel))
        size = min(30.0, share / (0.62 * len(shown)))
        color = _color(panel, one.last, COLORS["green"])
        yield text(middle, box.y + 22, fitting(one.name, share), fill=MUTED, anchor="middle")
        yield text(middle, box.y + 58, shown, size=size, fill=color, anchor="middle")


def _gauges(panel: Json, found: Sequence[Series], box: Box) -> Iterator[str]:
    share = box.width / len(found)
    radius = min(share / 2 - 12, box.height - 26)
    for at, one in enumerate(found):
        x, y = box.x + share * (at + 0.5), box.y + radius + 4
        part = min(max(one.last, 0.0), 1.0)
        color = _color(panel, one.last, COLORS["green"])
        for end, stroke in ((1.0, GRID), (part, color)):
            angle = math.pi * (1 - end)
            tip = f"{x + radius * math.cos(angle):.1f} {y - radius * math.sin(angle):.1f}"
            path = f"M {x - radius:.1f} {y:.1f} A {radius:.1f} {radius:.1f} 0 0 1 {tip}"
            yield element("path", d=path, fill="none", stroke=stroke, stroke_width=12)
        shown = number(one.last, _unit(panel))
        yield text(x, y - 4, shown, size=20, fill=color, anchor="middle")
        yield text(x, y + 18, fitting(one.name, share), fill=MUTED, anchor="middle")


def _bars(panel: Json, found: Sequence[Series], box: Box) -> Iterator[str]:
    most = max(one.last for one in found) or 1.0
    name_x = box.width * 0.35
    for at, one in enumerate(sorted(found, key=lambda each: -each.last)):
        y = box.y + 6 + at * 24
        if y + 18 > box.y + box.height:
            return
        width = (box.width - name_x - 50) * one.last / most
        yield text(box.x, y + 13, fitting(one.name, name_x), fill=TEXT)
        yield element("rect", x=box.x + name_x, y=y, width=width, height=17, fill=SERIES[0])
        yield text(box.x + name_x + width + 8, y + 13, number(one.last, _unit(panel)))


def _lines(panel: Json, found: Sequence[Series], box: Box) -> Iterator[str]:
    is_stacked = "stacking" in panel["fieldConfig"]["defaults"].get("custom", {})
    times = sorted({at for one in found for at, _ in one.points})
    drawn = _stacked(found, times) if is_stacked else [one.points for one in found]
    most = max(value for points in drawn for _, value in points) or 1.0
    rows = _legend(found, box)
    plot = Box(box.x + AXIS_X, box.y + 4, box.width - AXIS_X, box.height - rows * LEGEND_Y - 24)
    first, lasting = times[0], max(times[-1] - times[0], 1.0)

    def place(point: tuple[float, float]) -> str:
        x = plot.x + plot.width * (point[0] - first) / lasting
        return f"{x:.1f},{plot.y + plot.height * (1 - point[1] / most):.1f}"

    for share in (0.0, 0.5, 1.0):
        y = plot.y + plot.height * (1 - share)
        yield element("line", x1=plot.x, x2=plot.x + plot.width, y1=y, y2=y, stroke=GRID)
        shown = number(most * share, _unit(panel))
        yield text(plot.x - 5, y + 4, shown, size=10, fill=MUTED, anchor="end")
    for share in (0.0, 0.5):
        at = plot.x + plot.width * share
        ago = number(lasting * (1 - share), "s")
        yield text(at, plot.y + plot.height + 14, f"{ago} ago", size=10, fill=MUTED)
    for at, points in reversed(list(enumerate(drawn))):
        color, path = SERIES[at % len(SERIES)], " ".join(map(place, points))
        if is_stacked:
            corners = (place((points[-1][0], 0.0)), place((points[0][0], 0.0)))
            yield element("polygon", points=f"{path} {' '.join(corners)}", fill=color, opacity=0.35)
        yield element("polyline", points=path, fill="none", stroke=color, stroke_width=1.5)
    yield from _legend_lines(found, box, rows)


def _stacked(
    found: Sequence[Series], times: Sequence[float]
) -> list[tuple[tuple[float, float], ...]]:
    sums = dict.fromkeys(times, 0.0)
    result = []
    for one in found:
        for at, value in one.points:
            sums[at] += value
        result.append(tuple(sorted(sums.items())))
    return result


def _legend(found: Sequence[Series], box: Box) -> int:
    """How many lines it has; at most three."""
    return len(_wrapped(found, box))


def _wrapped(found: Sequence[Series], box: Box) -> list[list[int]]:
    rows: list[list[int]] = [[]]
    left = 0.0
    for at, one in enumerate(found):
        width = 22 + 6.1 * len(one.name)
        if left + width > box.width and rows[-1]:
            rows.append([])
            left = 0.0
        rows[-1].append(at)
        left += width
    return rows[:3]


def _legend_lines(found: Sequence[Series], box: Box, rows: int) -> Iterator[str]:
    for line, members in enumerate(_wrapped(found, box)):
        x, y = box.x, box.y + box.height - (rows - line - 1) * LEGEND_Y - 2
        for at in members:
            yield element("rect", x=x, y=y - 6, width=12, height=3, fill=SERIES[at % len(SERIES)])
            yield text(x + 16, y, fitting(found[at].name, box.width - 16, 11), size=11, fill=TEXT)
            x += 22 + 6.1 * len(found[at].name)


def _table(panel: Json, box: Box) -> Iterator[str]:
    lines: dict[tuple[tuple[str, str], ...], dict[str, float]] = {}
    for target, result in zip(panel["targets"], panel["data"], strict=False):
        for one in result:
            labels = tuple(sorted((k, v) for k, v in one["metric"].items() if k not in HIDDEN))
            lines.setdefault(labels, {})[target["legendFormat"]] = float(one["value"][1])
    values = [target["legendFormat"] for target in panel["targets"]]
    names = sorted({name for labels in lines for name, _ in labels})
    units = {
        one["matcher"]["options"]: one["properties"] for one in panel["fieldConfig"]["overrides"]
    }
    columns = [*names, *values]
    share = box.width / max(len(columns), 1)
    for at, name in enumerate(columns):
        yield text(
            box.x + at * share, box.y + 12, fitting(name, share - 8, 13), weight="bold", fill=MUTED
        )
    for row, (labels, amounts) in enumerate(sorted(lines.items())):
        y = box.y + 14 + (row + 1) * LINE_Y
        if y > box.y + box.height:
            return
        yield element("line", x1=box.x, x2=box.x + box.width, y1=y - 14, y2=y - 14, stroke=GRID)
        for at, name in enumerate(columns):
            unit = next((p["value"] for p in units.get(name, ()) if p["id"] == "unit"), "short")
            known = dict(labels).get(name, "")
            shown = number(amounts[name], unit) if name in amounts else known
            yield text(box.x + at * share, y, fitting(shown, share - 8, 13), fill=TEXT)
