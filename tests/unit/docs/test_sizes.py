"""Files and functions stay small enough to be read in one go (CONTRIBUTING.md, Style)."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
# The hard limits; what grows beyond 250 lines, or 40 in a function, is looked at again.
FUNCTION_LINES_MAX = 70
FILE_LINES_MAX = dict.fromkeys(
    ("scheduler", "webhook", "fakegpu", "gpucheck", "gpuctl", "tools", "tests"), 400
)


def sources(folder: str) -> Iterator[Path]:
    return (ROOT / folder).rglob("*.py")


@pytest.mark.parametrize("folder", FILE_LINES_MAX)
def test_file_length_limit(folder: str) -> None:
    lines = {str(file.relative_to(ROOT)): file.read_text().count("\n") for file in sources(folder)}

    assert {file: n for file, n in lines.items() if n > FILE_LINES_MAX[folder]} == {}


@pytest.mark.parametrize("folder", FILE_LINES_MAX)
def test_function_length_limit(folder: str) -> None:
    long = {
        f"{file.relative_to(ROOT)}:{node.lineno} {node.name}": node.end_lineno - node.lineno + 1
        for file in sources(folder)
        for node in ast.walk(ast.parse(file.read_text()))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and node.end_lineno is not None
        and node.end_lineno - node.lineno + 1 > FUNCTION_LINES_MAX
    }

    assert long == {}
