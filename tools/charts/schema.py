"""values.schema.json, with which helm rejects unknown values with their path.

Types come from the defaults, constraints from ``@schema`` comments. The section ``config`` of the
scheduler's chart is the scheduler's configuration; its schema comes from the struct that reads it.
"""

from __future__ import annotations

import json
from typing import Any, Final

import msgspec

from fakegpu.config import Config as FakeGpu
from scheduler.config import Config as Scheduler
from scheduler.model.cost.prices import PriceFile
from scheduler.model.teams.configuration import TeamDocument
from tools.charts.values import Value

#: Configuration name in values.yaml -> its struct, and the sections that the chart sets itself;
#: `make charts` fails if the struct lacks one of those sections.
STRUCTS: Final = {
    "Scheduler": Scheduler,
    "FakeGpu": FakeGpu,
    "Prices": PriceFile,
    "TeamQuotas": TeamDocument,
}
OURS: Final[dict[str, dict[str, tuple[str, ...]]]] = {
    "Scheduler": {
        "Config": (
            "apiVersion",
            "kind",
            "schedulerName",
            "healthAddress",
            "forward",
            "certificates",
            "decisionsApi",
            "dashboard",
            "costs",
        ),
        "Webhook": ("enabled", "socket"),
        "LeaderElection": ("resourceName", "resourceNamespace"),
    },
    "FakeGpu": {
        "Config": ("apiVersion", "kind", "topology"),
        "Node": (
            "devicePlugin",
            "exporter",
            "kubeletFolder",
            "folder",
            "hostFolder",
            "prometheusUrl",
        ),
    },
    "Prices": {},
    "TeamQuotas": {},
}
_NAMES: Final = {
    bool: "boolean",
    int: "integer",
    str: "string",
    list: "array",
    dict: "object",
    type(None): "null",
}


def render(title: str, values: list[Value]) -> str:
    """The file's text."""
    root = _section()
    # A parent chart's own keys are allowed there too.
    root["properties"]["global"] = {"type": ["object", "null"], "properties": {}}
    for value in values:
        section = root
        for key in value.path[:-1]:
            section = section["properties"].setdefault(key, _section())
        section["properties"][value.path[-1]] = _one(value)
    head: dict[str, Any] = {"$schema": "http://json-schema.org/draft-07/schema#", "title": title}
    used = json.dumps(root)
    for name in STRUCTS:
        if f'"#/$defs/{name}"' in used:
            head.setdefault("$defs", {}).update(_configuration(name))
    return json.dumps(head | root, indent=2) + "\n"


def _section() -> dict[str, Any]:
    return {"type": ["object", "null"], "additionalProperties": False, "properties": {}}


def _one(value: Value) -> dict[str, Any]:
    if "$ref" in value.schema:
        return {"description": value.text, **_or_null("object", value.schema)}
    schema: dict[str, Any] = {"description": value.text, "type": [_NAMES[type(value.default)]]}
    schema |= value.schema
    if "null" not in schema["type"]:
        schema["type"] = [*schema["type"], "null"]
    if "enum" in schema:
        return {**schema, **_or_null(schema["type"][0], {"enum": schema.pop("enum")})}
    return schema


def _or_null(kind: str, rule: dict[str, Any]) -> dict[str, Any]:
    """A value of this type that satisfies a rule, or null.

    With ``anyOf`` helm would report both: that the rule is broken, and that null was wanted.
    """
    return {"type": [kind, "null"], "if": {"type": kind}, "then": rule}


def _configuration(struct: str) -> dict[str, Any]:
    """The sections of a configuration without those that the chart sets itself."""
    _, found = msgspec.json.schema_components([STRUCTS[struct]])
    for name, keys in OURS[struct].items():
        for key in keys:
            del found[name]["properties"][key]
    root = {"$ref": f"#/$defs/{STRUCTS[struct].__name__}"}
    return {struct: root, **dict(sorted(found.items()))}
