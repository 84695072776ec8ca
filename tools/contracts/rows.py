"""The rows of the contracts, read strictly from rows.yaml."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import msgspec

ROWS_FILE: Final = Path(__file__).with_name("rows.yaml")


class Section(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    title: str
    rows: dict[str, str]


def read_sections(file: Path = ROWS_FILE) -> list[Section]:
    return msgspec.yaml.decode(file.read_bytes(), type=list[Section])


def row_ids(sections: list[Section]) -> set[str]:
    return {row for section in sections for row in section.rows}
