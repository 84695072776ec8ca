"""values.schema.json: a typo in a value is refused by helm itself, with its path.

Types come from the defaults, what is narrower from ``@schema`` comments. The section ``config``
of the scheduler's chart is the scheduler's own configuration, from the very struct that reads it.
"""

from __future__ import annotations

import json
from typing import Any, Final

import msgspec

from scheduler.config import Config
from tools.charts.values import Value

#: What the chart decides itself; `make charts` fails when the struct no longer has one of them.
OURS: Final = {
    "Config": (
        "apiVersion",
        "kind",
        "schedulerName",
        "healthAddress",
        "forward",
        "certificates",
    ),
    "Webhook": ("enabled", "socket"),
    "LeaderElection": ("resourceName", "resourceNamespace"),
}
_NAMES: Final = {bool: "boolean", int: "integer", str: "string", list: "array", dict: "object"}


def render(title: str, values: list[Value]) -> str:
    """The file's text."""
    root = _section()
    root["properties"]["global"] = {"type": ["object", "null"]}
    for value in values:
        section = root
        for key in value.path[:-1]:
            section = section["properties"].setdefault(key, _section())
        section["properties"][value.path[-1]] = _one(value)
    used = json.dumps(root)
    head: dict[str, Any] = {"$schema": "http://json-schema.org/draft-07/schema#", "title": title}
    if "#/$defs/" in used:
        head["$defs"] = _configuration()
    return json.dumps(head | root, indent=2) + "\n"


def _section() -> dict[str, Any]:
    return {"type": ["object", "null"], "additionalProperties": False, "properties": {}}


def _one(value: Value) -> dict[str, Any]:
    if "$ref" in value.schema:
        return {"anyOf": [value.schema, {"type": "null"}], "description": value.text}
    schema: dict[str, Any] = {"description": value.text, "type": [_NAMES[type(value.default)]]}
    schema |= value.schema
    if "null" not in schema["type"]:
        schema["type"] = [*schema["type"], "null"]
    if "enum" in schema:
        schema["enum"] = [*schema["enum"], None]
    return schema


def _configuration() -> dict[str, Any]:
    """The structs of the scheduler's configuration, without what the chart decides."""
    _, found = msgspec.json.schema_components([Config])
    for name, keys in OURS.items():
        for key in keys:
            del found[name]["properties"][key]
    return dict(sorted(found.items()))
