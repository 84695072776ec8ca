"""The picture of a dashboard: every panel is in it, with the values of its queries."""

from __future__ import annotations

import json
import re
import xml.etree.ElementTree as ElementTree
from pathlib import Path
from typing import Any

import pytest

from tools.charts.dashboard import GPUS, SCHEDULER, Board, render
from tools.monitoring.picture import main

Json = dict[str, Any]


def series(panel: Json, target: Json, value: str = "3") -> Json:
    """One series of a query, with a value for each label of its legend."""
    names = re.findall(r"\{\{(\w+)\}\}", target["legendFormat"])
    metric = {name: f"{name}-1" for name in names} | {"node": "n1"}
    if panel["type"] == "timeseries":
        return {"metric": metric, "values": [[100, value], [101, "NaN"], [102, value]]}
    return {"metric": metric, "value": [100, value]}


def panels(board: Json) -> list[Json]:
    return [
        panel
        for one in board["panels"]
        for panel in (one, *one.get("panels", ()))
        if panel["type"] != "row"
    ]


@pytest.mark.parametrize("board", [SCHEDULER, GPUS], ids=lambda board: board.uid)
def test_every_panel_is_drawn_inside_of_the_picture(board: Board, tmp_path: Path) -> None:
    told = json.loads(render(board))
    data = {
        panel["title"]: [[series(panel, target)] for target in panel["targets"]]
        for panel in panels(told)
    }
    source, output = tmp_path / "data.json", tmp_path / "images" / "board.svg"
    source.write_text(json.dumps({"board": told, "data": data}))

    assert main([str(source), str(output)]) == 0

    root = ElementTree.parse(output).getroot()  # noqa: S314 - our own file
    drawn = {"".join(one.itertext()) for one in root.iter() if one.tag.endswith("text")}
    assert {panel["title"] for panel in panels(told)} <= drawn
    assert "No data" not in drawn
    _, _, width, height = map(float, root.attrib["viewBox"].split())
    for one in root.iter():
        assert 0 <= float(one.attrib.get("x", 0)) <= width
        assert 0 <= float(one.attrib.get("y", 0)) <= height
    assert any("Grafana itself draws it differently" in one for one in drawn)


def test_panel_without_data_says_so(tmp_path: Path) -> None:
    source, output = tmp_path / "data.json", tmp_path / "board.svg"
    source.write_text(json.dumps({"board": json.loads(render(GPUS)), "data": {}}))

    main([str(source), str(output)])

    assert "No data" in output.read_text()
