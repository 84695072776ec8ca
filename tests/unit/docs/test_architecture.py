"""docs/architecture.md: the picture is fresh, every file exists, and no trip became longer."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import Final

from tools.architecture import DRAWING, reduced, render

ROOT = Path(__file__).parents[3]
PAGE = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
#: A change may add so many files before the page is written again.
GROWTH: Final = 3


def test_the_picture_is_fresh() -> None:
    """Run `python -m tools.architecture` after a change of the imports."""
    assert DRAWING.read_text(encoding="utf-8") == render()


def test_an_arrow_that_follows_from_others_is_not_drawn() -> None:
    assert reduced([("a", "b"), ("b", "c"), ("a", "c")]) == {("a", "b"), ("b", "c")}


def test_the_story_has_ten_steps_and_each_file_exists() -> None:
    steps = re.findall(r"^\d+\. ((?:.|\n   )*)", PAGE, re.MULTILINE)
    named = [re.findall(r"`(scheduler/[\w/]+\.py)`", step) for step in steps]

    assert len(steps) == 10
    assert all(named)
    assert [name for names in named for name in names if not (ROOT / name).exists()] == []


def test_no_trip_enters_more_files_than_the_page_says() -> None:
    """After a trip became shorter, the page gets the table that `python -m tools.walk` prints.

    A process of its own has no caches of other tests.
    """
    command = [sys.executable, "-m", "tools.walk"]
    printed = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout

    found, written = trips(printed), trips(PAGE)

    assert found.keys() == written.keys()
    assert {name: files for name, files in found.items() if files > written[name] + GROWTH} == {}


def trips(text: str) -> dict[str, int]:
    """The files of each trip."""
    rows = re.findall(r"^\| ([^|]+?) \| (\d+) \|", text, re.MULTILINE)
    return {name: int(files) for name, files in rows}
