"""The rows of the contracts, read strictly from rows.yaml.

A row is its wording, or a map with the wording and what became of it:

    S1-5: "Nodes carry `a` and `b` as labels"
    S1-6: {what: "...", literals: ["kwok.x-k8s.io/node"]}
    S1-7: {what: "...", changed: "what we do instead, and why"}
    S1-8: {what: "...", dropped: "why nobody misses it"}

``literals`` are the strings that the code of a test of the row has to contain; without them those
that stand in backticks in the wording, and for a row that is changed none. A section is
``complete`` once no row of it may be without an answer.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

import msgspec

ROWS_FILE: Final = Path(__file__).with_name("rows.yaml")
_QUOTED: Final = re.compile(r"`([^`]+)`")


class Row(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """One promise; ``changed`` and ``dropped`` say what became of it, and why."""

    what: str
    literals: tuple[str, ...] | None = None
    changed: str = ""
    dropped: str = ""

    @property
    def wanted(self) -> tuple[str, ...]:
        """What the code of a test that shows the row has to contain."""
        if self.literals is not None:
            return self.literals
        return () if self.changed or self.dropped else tuple(_QUOTED.findall(self.what))


class Section(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    title: str
    wordings: dict[str, str | Row] = msgspec.field(name="rows")
    complete: bool = False

    @property
    def rows(self) -> dict[str, Row]:
        return {
            name: Row(row) if isinstance(row, str) else row for name, row in self.wordings.items()
        }


def read_sections(file: Path = ROWS_FILE) -> list[Section]:
    return msgspec.yaml.decode(file.read_bytes(), type=list[Section])
