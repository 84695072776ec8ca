"""Writes the property names of pods and workloads from an API server's OpenAPI documents.

    python -m tools.golden.api_fields > gpuctl/simulate/validation/api_fields.json
    python -m tools.golden.api_fields openapi-v3-api-v1.json

Without an argument it reads the documents in the Kubernetes sources, through the Go module cache;
with some, saved responses of ``/openapi/v3/api/v1`` and the like. The result maps each object in a
pod or a workload to its properties, and each property to the object that it refers to, or to "".
A status is not looked into.

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
_FOLDER: Final = "api/openapi-spec/v3"
_DOCUMENTS: Final = (
    "api__v1_openapi.json",
    "apis__apps__v1_openapi.json",
    "apis__batch__v1_openapi.json",
)
_KINDS: Final = (
    "io.k8s.api.core.v1.Pod",
    "io.k8s.api.apps.v1.Deployment",
    "io.k8s.api.apps.v1.ReplicaSet",
    "io.k8s.api.apps.v1.StatefulSet",
    "io.k8s.api.batch.v1.Job",
)
_STATUS: Final = "status"


def fields(document: Mapping[str, Any]) -> dict[str, dict[str, str]]:
    """Every object reachable from the kinds in a document: its properties and their objects."""
    schemas = document["components"]["schemas"]
    found: dict[str, dict[str, str]] = {}
    full_names: dict[str, str] = {}
    waiting = [kind for kind in _KINDS if kind in schemas]
    while waiting:
        full_name = waiting.pop()
        name = _short(full_name)
        if name in found:
            assert full_names[name] == full_name, f"two objects are called {name}"
            continue
        found[name] = {}
        full_names[name] = full_name
        for prop, schema in sorted(schemas[full_name].get("properties", {}).items()):
            target = "" if prop == _STATUS else next(_references(schema), "")
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


def _documents(arguments: list[str]) -> list[Path]:
    if arguments:
        return [Path(argument) for argument in arguments]
    answer = subprocess.run(
        ["go", "mod", "download", "-json", KUBERNETES], check=True, stdout=subprocess.PIPE
    )
    folder = Path(json.loads(answer.stdout)["Dir"]) / _FOLDER
    return [folder / name for name in _DOCUMENTS]


def main(arguments: list[str]) -> None:
    """Print one object per line, so that a change of a version is readable."""
    found: dict[str, dict[str, str]] = {}
    for path in _documents(arguments):
        found |= fields(json.loads(path.read_text(encoding="utf-8")))
    lines = [f"{json.dumps(name)}: {json.dumps(row)}" for name, row in sorted(found.items())]
    print("{\n" + ",\n".join(lines) + "\n}")


if __name__ == "__main__":
    main(sys.argv[1:])
