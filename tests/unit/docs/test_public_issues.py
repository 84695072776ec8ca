"""docs/conformance.md, public issues: each has a test that names it, and a guard for its rule."""

from __future__ import annotations

import ast
import re
from typing import Final

import pytest

from tests.unit.docs.test_conformance import named_in, rows, source
from tools.mutants.guards import read

#: The 25 rows that have to be there; two of them are of two issues.
REQUIRED: Final = (
    *("VOL#3373", "KOO#872", "SPL#713", "SPL#358", "VOL#5805", "VOL#6010"),
    *("K8S#140263, K8S#140478", "RAY#4656", "RAY#5205", "KAI#500", "MPI#608", "LWS#379"),
    *("JS#341", "KUE#14543", "VOL#3869", "KAI#1565", "KAI#1750", "KUE#5243", "KUE#14570"),
    *("KUE#10108", "KAI#1615, CA#9828", "VOL#2558", "CA#8095", "VOL#5205", "OC#3828"),
)
ISSUE: Final = re.compile(r"[A-Z0-9]{2,4}#\d+")
ROWS: Final = rows("Public issues that are tests here")
GUARDS: Final = read()


def docstrings(path: str) -> dict[str, str]:
    """The docstrings of the tests of a file."""
    return {
        one.name: ast.get_docstring(one) or ""
        for one in ast.parse(source(path)).body
        if isinstance(one, ast.FunctionDef | ast.AsyncFunctionDef)
    }


def test_all_required_issues_have_a_row() -> None:
    issues = [row[0] for row in ROWS]

    assert len(REQUIRED) == 25
    assert issues[: len(REQUIRED)] == list(REQUIRED)
    assert len(issues) == len(set(issues))


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row[0])
def test_the_first_test_of_a_row_names_its_issue(row: list[str]) -> None:
    found = named_in(row[-1])

    assert found
    for path, function, _ in found:
        assert function in docstrings(path), f"{path}::{function}"
    path, function, _ = found[0]
    assert set(ISSUE.findall(row[0])) <= set(ISSUE.findall(docstrings(path)[function]))


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row[0])
def test_the_rule_of_each_row_has_a_guard(row: list[str]) -> None:
    """One that runs a test of the row."""
    shown = {(path, function) for path, function, _ in named_in(row[-1])}
    for issue in ISSUE.findall(row[0]):
        guards = [one for one in GUARDS if issue in ISSUE.findall(one.guard.partition(":")[0])]
        tests = {test for one in guards for test in one.tests}

        assert any(path in tests or f"{path}::{function}" in tests for path, function in shown)


def test_each_guard_that_names_an_issue_has_a_row() -> None:
    listed = {issue for row in ROWS for issue in ISSUE.findall(row[0])}

    assert {issue for one in GUARDS for issue in ISSUE.findall(one.guard)} <= listed
