"""``python -m tools.monitoring.picture DATA OUTPUT``: a dashboard's panels as an SVG file.

DATA is the JSON that the tests of the monitoring write (``make grafana-picture``): each panel of
the rendered dashboard with the data of its queries. No Grafana draws it, and the caption says so.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from tools.monitoring.drawing import BORDER, MUTED, PAGE, PANEL, TEXT, element, text
from tools.monitoring.picture_panels import Box, body

Json = dict[str, Any]
#: A unit of the dashboard's grid in pixels; it is 24 units wide.
UNIT_X, UNIT_Y, GAP, EDGE = 52, 32, 4, 10
CAPTION_Y: Final = 26
TITLE_Y: Final = 26


def drawn(title: str, panels: Sequence[Json], caption: str) -> str:
    """The whole picture; rows are lines with their title."""
    width = 24 * UNIT_X + 2 * EDGE
    bottom = max(one["gridPos"]["y"] + one["gridPos"]["h"] for one in panels)
    height = bottom * UNIT_Y + TITLE_Y + CAPTION_Y + 2 * EDGE
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}"'
        ' font-family="Inter, Helvetica, Arial, sans-serif" font-size="12">',
        element("rect", width=width, height=height, fill=PAGE),
        text(EDGE + GAP, EDGE + 16, title, size=17, weight="bold"),
        *(_panel(one) for one in panels),
        text(EDGE + GAP, height - EDGE - 6, caption, fill=MUTED),
        "</svg>",
    ]
    return "\n".join(parts) + "\n"


def _panel(panel: Json) -> str:
    place = panel["gridPos"]
    x = EDGE + place["x"] * UNIT_X + GAP / 2
    y = EDGE + TITLE_Y + place["y"] * UNIT_Y + GAP / 2
    width, height = place["w"] * UNIT_X - GAP, place["h"] * UNIT_Y - GAP
    if panel["type"] == "row":
        return text(x + 4, y + 19, f"⌄  {panel['title']}", size=14, weight="bold")
    frame = element("rect", x=x, y=y, width=width, height=height, fill=PANEL, stroke=BORDER, rx=2)
    title = text(x + 8, y + 17, panel["title"], weight="bold", fill=TEXT)
    inside = Box(x + 8, y + 26, width - 16, height - 34)
    return "\n".join((frame, title, *body(panel, inside)))


def shown(board: Json, data: dict[str, list[list[Json]]]) -> list[Json]:
    """The panels in order with their data; a collapsed row is open, below the others."""
    found: list[Json] = []
    for one in board["panels"]:
        found.append(one | {"data": data.get(one["title"], [])})
        below = one["gridPos"]["y"] + 1
        inside = one.get("panels", ())
        offset = below - min((each["gridPos"]["y"] for each in inside), default=below)
        for each in inside:
            place = each["gridPos"] | {"y": each["gridPos"]["y"] + offset}
            found.append(each | {"gridPos": place, "data": data.get(each["title"], [])})
    return found


def main(words: Sequence[str]) -> int:
    """Write the file; exit status 0."""
    source, output = map(Path, words)
    told = json.loads(source.read_text(encoding="utf-8"))
    board = told["board"]
    caption = (
        "Drawn by tools/monitoring/picture.py from the answers of Prometheus to this dashboard's"
        " queries in a test run; Grafana itself draws it differently."
    )
    output.parent.mkdir(parents=True, exist_ok=True)
    output.write_text(drawn(board["title"], shown(board, told["data"]), caption), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
