"""docs/contracts.md says what the tests say, and no test shows a row that does not exist."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tools.contracts.check import problems
from tools.contracts.code import TestCode
from tools.contracts.collect import ROOT, CollectionFailed, collect, group_by_row
from tools.contracts.page import render
from tools.contracts.rows import Row, Section, read_sections

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


def test_every_contract_row_has_the_required_answer(shown: dict[str, list[str]]) -> None:
    """Markers name rows; in a complete part each row is shown, literally, or said to be no more."""
    assert problems(read_sections(), shown, TestCode(ROOT)) == []


def test_page_equals_the_generator_output(shown: dict[str, list[str]]) -> None:
    page = (ROOT / "docs" / "contracts.md").read_text(encoding="utf-8")

    assert page == render(read_sections(), shown), "stale: run `make contracts` and commit the page"


def test_every_seed_row_is_present_once() -> None:
    expected = [
        *(f"S0-{n}" for n in range(1, 34)),
        *(f"S0-B{n}" for n in range(1, 13)),
        *(f"S2-{n}" for n in range(1, 35)),
        *(f"S2-B{n}" for n in range(1, 19)),
        *(f"S3-{n}" for n in range(1, 27)),
        *(f"S3-B{n}" for n in range(1, 22)),
        *(f"S1-{n}" for n in range(1, 87)),
        *(f"S1-B{n}" for n in range(1, 34)),
        *(f"S4-{n}" for n in range(1, 31)),
    ]

    assert [row for section in read_sections() for row in section.rows] == expected


def test_markers_of_functions_classes_and_parameters_are_found(tmp_path: Path) -> None:
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


SHOWN = {"S0-1": ["tests/t.py::x"]}
ANSWERS = [
    pytest.param("calls `a` and `b`", True, SHOWN, [], id="shown with its literals"),
    pytest.param(
        "calls `a` and `c`",
        True,
        SHOWN,
        ["S0-1: the code of no test that shows it contains 'c'"],
        id="a literal is missing",
    ),
    pytest.param("calls `c`", False, SHOWN, [], id="not complete, so not strict"),
    pytest.param(
        Row("calls `<node>-c`", literals=("a",)), True, SHOWN, [], id="literals of its own"
    ),
    pytest.param(
        "calls `a`",
        True,
        {},
        ["S0-1: no test shows it, and rows.yaml does not say changed or dropped, and why"],
        id="no answer",
    ),
    pytest.param("calls `a`", False, {}, [], id="no answer yet"),
    pytest.param(Row("calls `c`", changed="calls `d`"), True, SHOWN, [], id="changed and shown"),
    pytest.param(
        Row("calls `c`", changed="calls `d`"),
        False,
        {},
        ["S0-1: is changed, but no test shows what we do instead"],
        id="changed and not shown",
    ),
    pytest.param(
        Row("calls `c`", literals=("d",), changed="calls `d`"),
        False,
        SHOWN,
        ["S0-1: the code of no test that shows it contains 'd'"],
        id="changed, and a literal of what we do is missing",
    ),
    pytest.param(Row("calls `c`", dropped="unused"), True, {}, [], id="dropped"),
    pytest.param(
        Row("calls `a`", dropped="unused"),
        False,
        SHOWN,
        ["S0-1: is dropped, but tests/t.py::x shows it"],
        id="dropped and shown",
    ),
    pytest.param(
        Row("a", changed="b", dropped="c"),
        False,
        {},
        ["S0-1: is either changed or dropped, not both"],
        id="both",
    ),
    pytest.param(
        "a",
        False,
        {"S9-9": ["tests/t.py::y"]},
        ["tests/t.py::y: contract row 'S9-9' is not in rows.yaml"],
        id="no such row",
    ),
]


@pytest.mark.parametrize(("row", "complete", "shown_by", "wrong"), ANSWERS)
def test_valid_answers_to_a_row(
    row: str | Row, complete: bool, shown_by: dict[str, list[str]], wrong: list[str]
) -> None:
    section = Section("T", {"S0-1": row}, complete)

    codes = {"tests/t.py::x": "a b"}
    assert problems([section], shown_by, lambda test: codes.get(test, "")) == wrong


CONFTEST = """
import pytest

@pytest.fixture
def served():
    return "in-a-fixture"
"""
SHARED = """
# in-a-comment-of-another-file
WORDS = "in-another-file"
OTHER = "not-used"
"""
CODED = '''
import pytest
from tests.shared import WORDS
from tests import shared

TABLE = [pytest.param("in-the-table", id="one")]

def helped():
    """in-a-docstring-of-a-helper"""
    return "in-a-helper"

@pytest.mark.parametrize("word", TABLE)
def test_first(word, served):
    """in-a-docstring"""
    # in-a-comment
    assert word == helped() + WORDS, "in-a-message"
    assert "in-the-" "body" and b"in-bytes"

class TestGroup:
    word = "in-the-class"

    def test_second(self): assert shared.OTHER == "in-the-second"

    def test_third(self): assert self.word == "in-the-third"
'''
IN_CODE = [
    pytest.param(
        "test_first",
        {
            *("in-the-table", "in-a-helper", "in-another-file", "in-the-body", "in-bytes"),
            "in-a-fixture",
        },
        id="a function with table, helper, fixture and import",
    ),
    pytest.param(
        "TestGroup::test_second",
        {"in-the-class", "in-the-second", "not-used"},
        id="a method, without its neighbours",
    ),
]


@pytest.mark.parametrize(("test", "found"), IN_CODE)
def test_test_hash_covers_code_and_not_comments(tmp_path: Path, test: str, found: set[str]) -> None:
    folder = tmp_path / "tests"
    folder.mkdir()
    (folder / "conftest.py").write_text(CONFTEST)
    (folder / "shared.py").write_text(SHARED)
    (folder / "test_example.py").write_text(CODED)

    code = TestCode(tmp_path)(f"tests/test_example.py::{test}[one]")

    words = set(re.findall(r"in-[a-z-]+|not-used", CONFTEST + SHARED + CODED)) | {"in-the-body"}
    assert {word for word in words if word in code.split()} == found


def test_page_lists_and_counts_shown_changed_dropped_and_open_rows() -> None:
    rows: dict[str, str | Row] = {
        "S0-1": "a|b",
        "S0-2": "c",
        "S0-3": Row("d", changed="not d|e"),
        "S0-4": Row("f", dropped="gone"),
    }

    page = render([Section("T", rows)], {"S0-1": ["t.py::x[a|b]", "t.py::y"], "S0-3": ["t.py::z"]})

    assert "| S0-1 | a\\|b | `t.py::x[a\\|b]`<br>`t.py::y` |\n| S0-2 | c | not yet |" in page
    assert "| S0-3 | d | changed: not d\\|e<br>`t.py::z` |\n| S0-4 | f | dropped: gone |" in page
    assert "| T | 4 | 1 | 1 | 1 | 1 |" in page
    assert "| all | 4 | 1 | 1 | 1 | 1 |" in page
