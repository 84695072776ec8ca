"""The order in which the files of the API server tests run."""

from __future__ import annotations

from pathlib import Path
from typing import cast

import msgspec
import pytest

from tests.controlplane.file_order import LONGEST, sort_items
from tools.product import ROOT

FOLDER = ROOT / "tests" / "controlplane"


class Item(msgspec.Struct):
    """A test of a file."""

    name: str
    path: Path


def test_every_long_file_exists() -> None:
    assert [name for name in LONGEST if not (FOLDER / name).is_file()] == []


def test_long_files_run_first_then_those_with_most_tests() -> None:
    files = ("test_b.py", LONGEST[1], "test_c.py", "test_c.py", LONGEST[0], LONGEST[1])
    items = [Item(str(number), FOLDER / name) for number, name in enumerate(files)]
    items.insert(2, Item("elsewhere", ROOT / "tests" / "unit" / "test_a.py"))

    sort_items(FOLDER, cast("list[pytest.Item]", items))

    assert [one.name for one in items] == ["elsewhere", "4", "1", "5", "2", "3", "0"]
