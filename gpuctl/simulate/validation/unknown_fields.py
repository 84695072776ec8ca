"""Fields that the API does not have, in pods and workloads.

``kubectl apply`` rejects such an object, other clients get a warning and the field is dropped.
``api_fields.json`` has the properties of each object (``tools/golden/api_fields.py``).
"""

from __future__ import annotations

import difflib
import json
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any, Final

from gpuctl.simulate.manifests import Document

_FILE: Final = Path(__file__).with_name("api_fields.json")
NOTES_MAX: Final = 20
NEAR: Final = 0.6

Fields = Mapping[str, Mapping[str, str]]
Steps = tuple[str | int, ...]


def notes(documents: Iterable[Document]) -> list[str]:
    """One line for each unknown field, with the field that was probably meant."""
    found = [line for document in documents for line in _of(document)]
    more = len(found) - NOTES_MAX
    return [*found[:NOTES_MAX], *([f"{more} more unknown fields"] if more > 0 else ())]


def _of(document: Document) -> Iterator[str]:
    if document.kind not in fields():
        return
    for path, near in _unknown(document.raw, document.kind, ()):
        line = document.line(path)
        at = f"line {line}: " if line else ""
        meant = f"; did you mean {near}?" if near else ""
        yield (
            f"{document.place} ({document.kind} {document.name}): {at}{_shown(path)}: unknown"
            f" field, which kubectl apply rejects and other clients drop{meant}"
        )


def _unknown(value: Any, name: str, path: Steps) -> Iterator[tuple[Steps, str]]:
    """The paths of unknown fields below an object called ``name``, with the nearest field."""
    known = fields()[name]
    if isinstance(value, list):
        for position, item in enumerate(value):
            yield from _unknown(item, name, (*path, position))
    elif isinstance(value, dict):
        for field, inner in value.items():
            if field not in known:
                near = difflib.get_close_matches(field[:64], known, 1, NEAR)
                yield (*path, field), next(iter(near), "")
            elif known[field]:
                yield from _unknown(inner, known[field], (*path, field))


def _shown(path: Steps) -> str:
    text = "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in path)
    return text.removeprefix(".")


@cache
def fields() -> Fields:
    """The properties of each object of the API, with the object that each refers to."""
    read: Fields = json.loads(_FILE.read_text(encoding="utf-8"))
    return read
