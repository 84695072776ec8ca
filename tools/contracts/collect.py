"""Collects the tests of each row with pytest, without running them.

The source alone does not show all marks: classes, modules, parameters and tables have marks as
well. This module is the pytest plugin that writes the result, and the function that starts pytest
with it.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections import defaultdict
from pathlib import Path
from typing import Final

import msgspec
import pytest

ROOT: Final = Path(__file__).parents[2]
OPTION: Final = "--contracts-to"

# One collected test: its node id and the rows that its marks name.
Marked = tuple[str, list[str]]


class CollectionFailed(Exception):
    """pytest could not read the tests, so the rows cannot be checked."""


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(OPTION, type=Path, help="write the rows of every collected test to this file")


def pytest_collection_finish(session: pytest.Session) -> None:
    marked: list[Marked] = [
        (item.nodeid, [str(row) for mark in item.iter_markers("contract") for row in mark.args])
        for item in session.items
    ]
    session.config.getoption(OPTION).write_bytes(msgspec.json.encode(marked))


def collect(root: Path = ROOT) -> list[Marked]:
    with tempfile.TemporaryDirectory() as folder:
        answer = Path(folder, "marked.json")
        command = [
            *(sys.executable, "-m", "pytest", "--collect-only", "--quiet"),
            *("-p", "tools.contracts.collect", "-p", "no:cacheprovider", OPTION, str(answer)),
            *("-m", ""),  # nightly and e2e tests prove rows as well
            "--assert=plain",  # no test runs, and rewriting assertions takes most of the time
        ]
        result = subprocess.run(command, cwd=root, capture_output=True, text=True, check=False)
        if result.returncode != 0:
            raise CollectionFailed(f"pytest could not collect the tests:\n{result.stdout[-4000:]}")
        return msgspec.json.decode(answer.read_bytes(), type=list[Marked])


def group_by_row(marked: list[Marked]) -> dict[str, list[str]]:
    """Map each row to its tests; a parameter is named only if not every one shows the row."""
    cases_of_test: dict[str, int] = defaultdict(int)
    cases_of_row: dict[str, dict[str, list[str]]] = defaultdict(lambda: defaultdict(list))
    for node, rows in marked:
        test = node.partition("[")[0]
        cases_of_test[test] += 1
        for row in dict.fromkeys(rows):
            cases_of_row[row][test].append(node)
    return {
        row: sorted(
            name
            for test, nodes in tests.items()
            for name in ([test] if len(nodes) == cases_of_test[test] else nodes)
        )
        for row, tests in cases_of_row.items()
    }
