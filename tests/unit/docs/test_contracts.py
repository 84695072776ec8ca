"""docs/contracts.md says what the tests say, and no test shows a row that does not exist."""

from __future__ import annotations

from pathlib import Path

import pytest

from tools.contracts.collect import ROOT, CollectionFailed, collect, group_by_row
from tools.contracts.page import render
from tools.contracts.rows import Section, read_sections, row_ids

EXAMPLE = """
import pytest

TABLE = [
    pytest.param(1, id="one", marks=pytest.mark.contract("S0-1")),
    pytest.param(2, id="two"),
]

@pytest.mark.parametrize("number", TABLE)
def test_table(number): ...

@pytest.mark.contract("S0-2", "S0-3")
@pytest.mark.parametrize("number", [1, 2])
def test_every_case(number): ...

@pytest.mark.contract("S0-4")
class TestGroup:
    def test_inner(self): ...

    @pytest.mark.contract("S0-4", "S0-5")
    def test_more(self): ...

def test_plain(): ...
"""


@pytest.fixture(scope="module")
def shown() -> dict[str, list[str]]:
    return group_by_row(collect())


def test_every_marker_names_a_row(shown: dict[str, list[str]]) -> None:
    unknown = {row: tests for row, tests in shown.items() if row not in row_ids(read_sections())}

    assert unknown == {}, "not in tools/contracts/rows.yaml"


def test_the_page_is_fresh(shown: dict[str, list[str]]) -> None:
    page = (ROOT / "docs" / "contracts.md").read_text(encoding="utf-8")

    assert page == render(read_sections(), shown), "stale: run `make contracts` and commit the page"


def test_every_row_of_the_seeds_is_there_once() -> None:
    expected = [
        *(f"S0-{n}" for n in range(1, 32)),
        *(f"S0-B{n}" for n in range(1, 13)),
        *(f"S2-{n}" for n in range(1, 30)),
        *(f"S2-B{n}" for n in range(1, 19)),
        *(f"S3-{n}" for n in range(1, 24)),
        *(f"S3-B{n}" for n in range(1, 22)),
        *(f"S1-{n}" for n in range(1, 79)),
        *(f"S1-B{n}" for n in range(1, 34)),
        *(f"S4-{n}" for n in range(1, 27)),
    ]

    assert [row for section in read_sections() for row in section.rows] == expected


def test_marks_of_functions_classes_and_single_parameters_are_all_found(tmp_path: Path) -> None:
    (tmp_path / "test_example.py").write_text(EXAMPLE)
    (tmp_path / "pytest.ini").write_text("[pytest]\nmarkers = contract(*rows)\n")

    assert group_by_row(collect(tmp_path)) == {
        "S0-1": ["test_example.py::test_table[one]"],
        "S0-2": ["test_example.py::test_every_case"],
        "S0-3": ["test_example.py::test_every_case"],
        "S0-4": ["test_example.py::TestGroup::test_inner", "test_example.py::TestGroup::test_more"],
        "S0-5": ["test_example.py::TestGroup::test_more"],
    }


def test_tests_that_cannot_be_read_are_an_error_and_not_an_empty_page(tmp_path: Path) -> None:
    (tmp_path / "test_broken.py").write_text("import a_module_that_is_not_there\n")

    with pytest.raises(CollectionFailed, match="a_module_that_is_not_there"):
        collect(tmp_path)


def test_a_row_without_a_test_says_not_yet_and_a_bar_does_not_break_the_table() -> None:
    sections = [Section(title="T", rows={"S0-1": "a|b", "S0-2": "c"})]

    page = render(sections, {"S0-1": ["t.py::x[a|b]", "t.py::y"]})

    assert "| S0-1 | a\\|b | `t.py::x[a\\|b]`<br>`t.py::y` |\n| S0-2 | c | not yet |" in page
    assert "| T | 2 | 1 |" in page
