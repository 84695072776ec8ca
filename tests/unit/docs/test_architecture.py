"""docs/architecture.md: the picture is fresh, every file exists, and no trip became longer."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

from tools.architecture import DRAWING, reduced, render
from tools.walk import walks

ROOT = Path(__file__).parents[3]
PAGE = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
#: The page is about a fresh process; the caches of one that ran other tests, and its load, change
#: which of these files are entered.
VARIES_BY: Final = 3


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


async def test_no_trip_enters_more_files_than_the_page_says() -> None:
    """After a trip became shorter, the page gets the table that `python -m tools.walk` prints."""
    rows = re.findall(r"^\| ([^|]+?) \| (\d+) \|", PAGE, re.MULTILINE)

    found = {trip: walk.figures()[0] for trip, walk in (await walks()).items()}

    assert found.keys() == {trip for trip, _ in rows}
    written = {trip: int(files) + VARIES_BY for trip, files in rows}
    assert {trip: files for trip, files in found.items() if files > written[trip]} == {}
