"""The Grafana dashboards: the JSON of the tables of panels.

Tests compare the series and labels of the queries with the programs' metrics, so that a renamed
metric leaves no empty panel.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from typing import Any, Final, NamedTuple

from tools.charts import dashboard_cost as cost
from tools.charts import dashboard_gpus as gpus
from tools.charts import dashboard_operation as operation
from tools.charts import dashboard_panels as panels
from tools.charts.dashboard_queries import Kind, Panel, Query, filtered

Json = dict[str, Any]


class Board(NamedTuple):
    """One dashboard; ``variables`` are the query of each variable's values, by its name."""

    uid: str
    title: str
    panels: tuple[Panel, ...]
    variables: Mapping[str, str]
    collapsed: str = ""


SCHEDULER: Final = Board(
    "gpu-scheduler",
    "gpu-scheduler",
    (
        *panels.NOW,
        *panels.CAPACITY,
        *panels.WAITING,
        *operation.MIG,
        *operation.NODES,
        *cost.COST,
        *operation.OPERATION,
    ),
    {
        "cluster": "label_values(gpu_scheduler_build_info, cluster)",
        "job": 'label_values({__name__=~"gpu_scheduler_(webhook_)?build_info"}, job)',
        "namespace": "label_values(gpu_scheduler_namespace_pending_pods, namespace)",
        "model": "label_values(gpu_scheduler_devices, model)",
        "node": "label_values(gpu_scheduler_node_devices, node)",
    },
    collapsed="Scheduler",
)
GPUS: Final = Board(
    operation.GPUS_UID,
    "GPUs by DCGM",
    gpus.PANELS,
    {
        "cluster": "label_values(DCGM_FI_DEV_FB_USED, cluster)",
        "Hostname": "label_values(DCGM_FI_DEV_FB_USED, Hostname)",
        "modelName": "label_values(DCGM_FI_DEV_FB_USED, modelName)",
    },
)
#: With the titles of the former operator's dashboard.
UTILIZATION: Final = Board("gpu-utilization", "GPU Utilization", operation.PER_GPU, {})

_WIDTH: Final = 24
_SIZES: Final[dict[Kind, tuple[int, int]]] = {
    "stat": (6, 4),
    "gauge": (6, 4),
    "bargauge": (12, 8),
    "table": (12, 8),
    "timeseries": (12, 8),
}
_SOURCE: Final = {"type": "prometheus", "uid": "${datasource}"}
#: One value of now; a series over the time is only drawn by a panel of type timeseries.
_LAST: Final = {"reduceOptions": {"calcs": ["lastNotNull"], "fields": "", "values": False}}


def render(board: Board) -> str:
    """The dashboard's JSON."""
    return json.dumps(_dashboard(board), indent=2) + "\n"


def _dashboard(board: Board) -> Json:
    return {
        "uid": board.uid,
        "title": board.title,
        "tags": ["gpu", "scheduler"],
        "schemaVersion": 39,
        "editable": True,
        "refresh": "30s",
        "time": {"from": "now-3h", "to": "now"},
        "links": [_link()],
        "templating": {"list": _variables(board.variables)},
        "panels": _numbered(_rows(board)),
    }


def _link() -> Json:
    """To the other dashboards of GPUs, for example those of the DCGM exporter."""
    return {
        "type": "dashboards",
        "title": "GPU dashboards",
        "tags": ["gpu"],
        "asDropdown": True,
        "keepTime": True,
    }


def _variables(queries: Mapping[str, str]) -> list[Json]:
    source = {"name": "datasource", "type": "datasource", "query": "prometheus"}
    return [source, *(_variable(name, query) for name, query in queries.items())]


def _variable(name: str, query: str) -> Json:
    """All is any value, so that series without the label are found too."""
    return {
        "name": name,
        "type": "query",
        "datasource": _SOURCE,
        "definition": query,
        "query": {"query": query, "refId": name},
        "refresh": 2,
        "sort": 1,
        "multi": True,
        "includeAll": True,
        "allValue": ".*",
        "current": {"selected": True, "text": ["All"], "value": ["$__all"]},
    }


def _rows(board: Board) -> Iterator[Json]:
    """Rows with their panels below; a collapsed row has its panels inside."""
    at = 0
    for title, members in groupby(board.panels, key=lambda panel: panel.row):
        if title:
            at += 1
        placed, end = _placed(tuple(members), at, tuple(board.variables))
        is_collapsed = bool(title) and title == board.collapsed
        if title:
            yield _row(title, at - 1, placed if is_collapsed else [], is_collapsed)
        if is_collapsed:
            end = at
        else:
            yield from placed
        at = end


def _row(title: str, at: int, inside: list[Json], is_collapsed: bool) -> Json:
    return {
        "type": "row",
        "title": title,
        "collapsed": is_collapsed,
        "gridPos": {"h": 1, "w": _WIDTH, "x": 0, "y": at},
        "panels": inside,
    }


def _placed(
    members: Sequence[Panel], at: int, variables: tuple[str, ...]
) -> tuple[list[Json], int]:
    """The panels from left to right in lines, and where the last line ends."""
    found: list[Json] = []
    left = height = 0
    for panel in members:
        width, own_height = _SIZES[panel.kind]
        if left + width > _WIDTH:
            at, left, height = at + height, 0, 0
        position = {"h": own_height, "w": width, "x": left, "y": at}
        found.append(_panel(panel, variables) | {"gridPos": position})
        left, height = left + width, max(height, own_height)
    return found, at + height


def _numbered(rows: Iterator[Json]) -> list[Json]:
    """Every panel has an id, also inside of a row."""
    found = list(rows)
    flat = (one for row in found for one in (row, *row.get("panels", ())))
    for number, one in enumerate(flat, start=1):
        one["id"] = number
    return found


def _panel(panel: Panel, variables: tuple[str, ...]) -> Json:
    defaults: Json = {"unit": panel.unit, "min": 0}
    if panel.kind == "gauge":
        defaults["max"] = 1
    if panel.thresholds:
        defaults["thresholds"] = _thresholds(panel)
    if panel.is_stacked:
        defaults["custom"] = {"stacking": {"mode": "normal"}, "fillOpacity": 30}
    overrides = _columns(panel) if panel.kind == "table" else []
    return {
        "title": panel.title,
        "type": panel.kind,
        "description": panel.description,
        "datasource": _SOURCE,
        "fieldConfig": {"defaults": defaults, "overrides": overrides},
        "options": _options(panel),
        "targets": [
            _target(panel.kind, at, query, variables) for at, query in enumerate(panel.queries)
        ],
        **({"transformations": _merged(panel)} if panel.kind == "table" else {}),
    }


def _thresholds(panel: Panel) -> Json:
    """The first color has no lower end."""
    steps = [
        {"color": color, "value": value if number else None}
        for number, (value, color) in enumerate(panel.thresholds)
    ]
    return {"mode": "absolute", "steps": steps}


def _options(panel: Panel) -> Json:
    if panel.kind == "timeseries":
        return {"legend": {"displayMode": "list", "placement": "bottom"}}
    if panel.kind == "table":
        return {"sortBy": [{"displayName": panel.queries[0].legend, "desc": True}]}
    if panel.kind == "bargauge":
        return _LAST | {"orientation": "horizontal", "displayMode": "basic"}
    if panel.kind == "stat":
        return _LAST | {"textMode": "value_and_name", "graphMode": "none", "colorMode": "value"}
    return dict(_LAST)


def _target(kind: Kind, at: int, query: Query, variables: tuple[str, ...]) -> Json:
    expression = filtered(query.expression, variables)
    target: Json = {"refId": _ref(at), "expr": expression, "legendFormat": query.legend}
    if kind != "timeseries":
        target |= {"instant": True, "range": False}
    if kind == "table":
        target |= {"format": "table"}
    return target


def _ref(at: int) -> str:
    return chr(ord("A") + at)


def _merged(panel: Panel) -> list[Json]:
    """One line for each combination of labels, one column for each query."""
    names = {f"Value #{_ref(at)}": query.legend for at, query in enumerate(panel.queries)}
    hidden = {"excludeByName": {"Time": True}, "renameByName": names}
    return [{"id": "merge", "options": {}}, {"id": "organize", "options": hidden}]


def _columns(panel: Panel) -> list[Json]:
    """The columns with a unit of their own, which alone have the panel's colors, and links."""
    found: list[Json] = [
        {
            "matcher": {"id": "byName", "options": query.legend},
            "properties": [
                {"id": "unit", "value": query.unit},
                {"id": "custom.cellOptions", "value": {"type": "color-text"}},
            ],
        }
        for query in panel.queries
        if query.unit
    ]
    if panel.link is not None:
        name, title, url = panel.link
        shown = [{"id": "links", "value": [{"title": title, "url": url}]}]
        found.append({"matcher": {"id": "byName", "options": name}, "properties": shown})
    return found
