"""Files and functions stay small enough to be read in one go (CONTRIBUTING.md, Style)."""

from __future__ import annotations

from collections import Counter
from pathlib import PurePosixPath
from typing import Final

import pytest

from tools.sizes import CODE, SHOWN_MAX, Size, files, functions, functions_of, warning

#: The hard limits; `make lint` lists what is over the soft ones (tools/sizes.py).
FUNCTION_LINES_MAX: Final = 70
FILE_LINES_MAX: Final = 400

#: Files in one folder, without __init__.py.
FOLDER_FILES_MAX: Final = 16
#: These grow with the number of their subjects: a file for each plugin, kind of object, promise of
#: the product on a real cluster, safety sentence, or page of docs; and the builders of all tests.
UNBOUND_FOLDERS: Final = {
    *("scheduler/plugins", "scheduler/model/crd"),
    *("tests", "tests/controlplane", "tests/e2e", "tests/property", "tests/unit/docs"),
}


def over(limit: int, sizes: list[Size]) -> dict[str, int]:
    return {one.name: one.lines for one in sizes if one.lines > limit}


@pytest.mark.parametrize("folder", CODE)
def test_file_length_limit(folder: str) -> None:
    assert over(FILE_LINES_MAX, files(folder)) == {}


@pytest.mark.parametrize("folder", CODE)
def test_function_length_limit(folder: str) -> None:
    assert over(FUNCTION_LINES_MAX, functions(folder)) == {}


def test_folder_size_limit() -> None:
    paths = [PurePosixPath(one.name) for folder in CODE for one in files(folder)]
    counts = Counter(str(path.parent) for path in paths if path.name != "__init__.py")

    full = {folder: n for folder, n in counts.items() if n > FOLDER_FILES_MAX}
    assert {folder: n for folder, n in full.items() if folder not in UNBOUND_FOLDERS} == {}


def test_function_has_the_lines_from_its_first_to_its_last() -> None:
    source = "class A:\n    def one(self) -> None:\n        return\n\nasync def two(): ...\n"

    assert functions_of("a.py", source) == [Size("a.py:5 two", 1, 40), Size("a.py:2 one", 2, 40)]


def test_warning_has_the_counts_and_the_ten_longest() -> None:
    sizes = [Size("a.py", 250, 250), Size("b.py", 251, 250), Size("b.py:1 f", 41, 40)]
    sizes += [Size(f"c.py:{n} g", 50 + n, 40) for n in range(10)]

    head, *lines = warning(sizes).splitlines()

    assert head.startswith("sizes: 1 files over 250 lines and 11 functions over 40 ")
    assert len(lines) == SHOWN_MAX
    assert (lines[0], lines[-1]) == ("   59 c.py:9 g", "   50 c.py:0 g")


def test_nothing_is_printed_without_an_excess() -> None:
    assert warning([Size("a.py", 250, 250), Size("a.py:1 f", 40, 40)]) == ""
