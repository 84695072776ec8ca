"""``python -m tools.sizes``: the files and functions that are longer than is the habit.

``make lint`` prints the list. It warns and never fails: what grows beyond the habit is looked at
again. tests/unit/docs/test_sizes.py has the hard limits.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final, NamedTuple

ROOT: Final = Path(__file__).parents[1]
CODE: Final = ("scheduler", "webhook", "fakegpu", "gpucheck", "gpuctl", "bench", "tools", "tests")
FILE_LINES_SOFT: Final = 250
FUNCTION_LINES_SOFT: Final = 40
#: Entries that are printed.
SHOWN_MAX: Final = 10


class Size(NamedTuple):
    """The lines of a file (``path``) or of a function (``path:line name``)."""

    name: str
    lines: int
    soft_limit: int

    @property
    def excess(self) -> float:
        """The size in soft limits."""
        return self.lines / self.soft_limit


def files(folder: str) -> list[Size]:
    """The sizes of the Python files in a folder of the root and in those below it."""
    return [Size(name, source.count("\n"), FILE_LINES_SOFT) for name, source in _sources(folder)]


def functions(folder: str) -> list[Size]:
    """The sizes of the functions in these files."""
    return [size for name, source in _sources(folder) for size in functions_of(name, source)]


def functions_of(name: str, source: str) -> list[Size]:
    """The sizes of the functions of one file."""
    return [
        Size(f"{name}:{node.lineno} {node.name}", _lines(node), FUNCTION_LINES_SOFT)
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    ]


def _sources(folder: str) -> Iterator[tuple[str, str]]:
    for path in sorted((ROOT / folder).rglob("*.py")):
        yield path.relative_to(ROOT).as_posix(), path.read_text(encoding="utf-8")


def _lines(node: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    assert node.end_lineno is not None, "a parsed node has its last line"
    return node.end_lineno - node.lineno + 1


def warning(sizes: Iterable[Size]) -> str:
    """The number of files and functions beyond their soft limits, and the longest of them; empty if
    there is none.
    """
    long = sorted((one for one in sizes if one.excess > 1), key=lambda one: -one.excess)
    if not long:
        return ""
    count = sum(one.soft_limit == FILE_LINES_SOFT for one in long)
    head = (
        f"sizes: {count} files over {FILE_LINES_SOFT} lines and {len(long) - count} functions over"
        f" {FUNCTION_LINES_SOFT} (allowed; check whether they have two purposes); the longest:"
    )
    return "\n".join((head, *(f"{one.lines:5} {one.name}" for one in long[:SHOWN_MAX])))


def main() -> None:
    """Print the warning."""
    print(warning(size for folder in CODE for size in (*files(folder), *functions(folder))))


if __name__ == "__main__":
    main()
