"""docs/conformance.md: every case and every deliberate difference has tests that exist."""

from __future__ import annotations

import re
from functools import cache
from typing import Final

import pytest

from tests.unit.docs.sources import ROOT
from tools.upstream_e2e import table as upstream

CASES: Final = 60
DIFFERENCES_MAX: Final = 10
PAGE: Final = (ROOT / "docs" / "conformance.md").read_text(encoding="utf-8")
TEST_ID: Final = re.compile(r"`(tests/[\w/]+\.py)::(\w+)(?:\[([^\]`]+)\])?`")
FUNCTION: Final = re.compile(r"^(?:async )?def (test_\w+)", re.MULTILINE)
CASE: Final = re.compile(r"test_case_\d\d_")


def rows(heading: str) -> list[list[str]]:
    """The cells of the table below a heading."""
    section = PAGE.partition(f"\n## {heading}\n")[2].partition("\n## ")[0]
    lines = [line for line in section.splitlines() if line.startswith("| ")]
    return [[cell.strip() for cell in line.strip("|").split(" | ")] for line in lines[1:]]


def named_in(cell: str) -> list[tuple[str, str, str]]:
    """The tests in a cell: file, function, parameter."""
    return TEST_ID.findall(cell)


@cache
def source(path: str) -> str:
    """The text of a file."""
    return (ROOT / path).read_text(encoding="utf-8")


CASE_ROWS: Final = rows("Scheduling cases")
DIFFERENCE_ROWS: Final = rows("Deliberate differences")
NVIDIA_ROWS: Final = rows("NVIDIA's device plugin and DRA driver")


def test_each_case_has_one_row() -> None:
    assert [row[0] for row in CASE_ROWS] == [str(number) for number in range(1, CASES + 1)]


def test_there_are_at_most_ten_deliberate_differences() -> None:
    assert 0 < len(DIFFERENCE_ROWS) <= DIFFERENCES_MAX
    assert [row[0] for row in DIFFERENCE_ROWS] == [f"D{n + 1}" for n in range(len(DIFFERENCE_ROWS))]


@pytest.mark.parametrize("row", [*CASE_ROWS, *DIFFERENCE_ROWS], ids=lambda row: row[0])
def test_each_row_names_tests_that_exist(row: list[str]) -> None:
    found = named_in(row[-1])

    assert found
    for path, function, parameter in found:
        assert function in FUNCTION.findall(source(path)), f"{path}::{function}"
        assert not parameter or f'id="{parameter}"' in source(path), f"{function}[{parameter}]"


def test_each_test_that_is_named_after_a_case_is_in_its_row() -> None:
    paths = [one.relative_to(ROOT).as_posix() for one in (ROOT / "tests").rglob("test_*.py")]
    named = {
        (path, function)
        for path in paths
        for function in FUNCTION.findall(source(path))
        if CASE.match(function)
    }
    listed = {
        (path, function): row[0]
        for row in CASE_ROWS
        for path, function, _ in named_in(row[-1])
        if CASE.match(function)
    }

    assert named == set(listed)
    assert all(f"test_case_{int(case):02}_" in name for (_, name), case in listed.items())


def test_we_pass_every_upstream_spec_that_kube_scheduler_passes() -> None:
    theirs, ours = upstream.rows(PAGE)

    assert len(theirs) > 20
    assert upstream.missed(theirs, ours) == []


def test_each_test_with_nvidias_programs_has_passed() -> None:
    folder = ROOT / "tests" / "e2e" / "nvidia"
    paths = [one.relative_to(ROOT).as_posix() for one in folder.glob("test_*.py")]
    there = {(path, name) for path in paths for name in FUNCTION.findall(source(path))}

    recorded = {named_in(row[0])[0][:2]: row[-1] for row in NVIDIA_ROWS}

    assert recorded == dict.fromkeys(there, "passed")
