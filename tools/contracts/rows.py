"""The rows of the contracts, read strictly from rows.yaml.

A row is its wording, or a map with the wording and its state:

    S1-5: "Nodes carry `a` and `b` as labels"
    S1-6: {what: "...", literals: ["kwok.x-k8s.io/node"]}
    S1-7: {what: "...", changed: "what we do instead, and why"}
    S1-8: {what: "...", dropped: "why it is not needed"}

``literals`` are the strings that the code of the row's tests must contain. The default is the
strings in backticks in the wording, and none for a changed row. In a ``complete`` section every row
needs a test or a state.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

import msgspec

ROWS_FILE: Final = Path(__file__).with_name("rows.yaml")
_QUOTED: Final = re.compile(r"`([^`]+)`")


class Row(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """One contract; ``changed`` and ``dropped`` contain its state with the reason."""

    what: str
    literals: tuple[str, ...] | None = None
    changed: str = ""
    dropped: str = ""

    @property
    def wanted(self) -> tuple[str, ...]:
        """The literals that the code of the row's tests must contain."""
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
