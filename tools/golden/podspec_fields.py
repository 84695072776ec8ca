"""Writes the property names of a pod spec from an API server's OpenAPI document.

    python -m tools.golden.podspec_fields > tests/golden/podspec_fields.json
    python -m tools.golden.podspec_fields openapi-v3-api-v1.json

Without an argument it reads the document in the Kubernetes sources, through the Go module cache;
with one, a saved response of ``/openapi/v3/api/v1``. The result maps each object in a PodSpec to
its properties, and each property to the object that it refers to, or to "".

The use of each field is in the table of ``tests/pod_field_use.py``.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

KUBERNETES: Final = "k8s.io/kubernetes@v1.37.2"
_DOCUMENT: Final = "api/openapi-spec/v3/api__v1_openapi.json"
_POD_SPEC: Final = "io.k8s.api.core.v1.PodSpec"


def fields(document: Mapping[str, Any]) -> dict[str, dict[str, str]]:
    """Every object reachable from a PodSpec: its properties and their objects."""
    schemas = document["components"]["schemas"]
    found: dict[str, dict[str, str]] = {}
    full_names: dict[str, str] = {}
    waiting = [_POD_SPEC]
    while waiting:
        full_name = waiting.pop()
        name = _short(full_name)
        if name in found:
            assert full_names[name] == full_name, f"two objects are called {name}"
            continue
        found[name] = {}
        full_names[name] = full_name
        for prop, schema in sorted(schemas[full_name].get("properties", {}).items()):
            target = next(_references(schema), "")
            found[name][prop] = _short(target) if _is_object(schemas, target) else ""
            if found[name][prop]:
                waiting.append(target)
    return dict(sorted(found.items()))


def _short(full_name: str) -> str:
    return full_name.rpartition(".")[2]


def _is_object(schemas: Mapping[str, Any], full_name: str) -> bool:
    """False for names of plain values such as Quantity."""
    return bool(full_name) and "properties" in schemas[full_name]


def _references(schema: Mapping[str, Any]) -> Iterator[str]:
    """Names that a property's schema refers to: itself, its items or its values."""
    if "$ref" in schema:
        yield schema["$ref"].rpartition("/")[2]
    for part in schema.get("allOf", ()):
        yield from _references(part)
    for inner in ("items", "additionalProperties"):
        if isinstance(schema.get(inner), dict):
            yield from _references(schema[inner])


def _document(arguments: list[str]) -> Path:
    if arguments:
        return Path(arguments[0])
    answer = subprocess.run(
        ["go", "mod", "download", "-json", KUBERNETES], check=True, stdout=subprocess.PIPE
    )
    return Path(json.loads(answer.stdout)["Dir"]) / _DOCUMENT


def main(arguments: list[str]) -> None:
    """Print one object per line, so that a change of a version is readable."""
    document = json.loads(_document(arguments).read_text(encoding="utf-8"))
    lines = [f"{json.dumps(name)}: {json.dumps(row)}" for name, row in fields(document).items()]
    print("{\n" + ",\n".join(lines) + "\n}")


if __name__ == "__main__":
    main(sys.argv[1:])
