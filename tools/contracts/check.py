"""What is wrong with the answers to the contracts: each problem is one line, and fails the build.

A test shows a row only if it contains the very strings that others depend on; a row that is not
shown says what we do instead, or why it is left out. Rows of a section that is not complete may
still wait for their test.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

from tools.contracts.rows import Row, Section

#: The text of a test's file, by the file's path in the repository.
TextOf = Callable[[str], str]


def read_from(root: Path) -> TextOf:
    """Files below a folder."""
    return lambda path: (root / path).read_text(encoding="utf-8")


def problems(
    sections: Sequence[Section], tests_of_rows: Mapping[str, Sequence[str]], text_of: TextOf
) -> list[str]:
    """All that is wrong, in the order of the rows."""
    known = {name for section in sections for name in section.rows}
    unknown = [
        f"{tests_of_rows[name][0]}: contract row {name!r} is not in rows.yaml"
        for name in sorted(tests_of_rows.keys() - known)
    ]
    return unknown + [
        f"{name}: {problem}"
        for section in sections
        for name, row in section.rows.items()
        for problem in _of_row(row, tests_of_rows.get(name, ()), text_of, section.complete)
    ]


def _of_row(row: Row, tests: Sequence[str], text_of: TextOf, is_strict: bool) -> Iterator[str]:
    if row.changed and row.dropped:
        yield "is either changed or dropped, not both"
    if row.dropped and tests:
        yield f"is dropped, but {tests[0]} shows it"
    if row.changed or row.dropped or not is_strict:
        return
    if not tests:
        yield "no test shows it, and rows.yaml does not say changed or dropped, and why"
        return
    texts = [text_of(path) for path in sorted({test.partition("::")[0] for test in tests})]
    for literal in row.wanted:
        if not any(literal in text for text in texts):
            yield f"no test that shows it contains {literal!r}"
