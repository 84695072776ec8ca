"""Checks the contracts against the tests: each problem is one line, and fails the build.

A row of a complete section needs a test, and each changed row needs a test of the replacement. The
row's literals must appear in the code of one of its tests: in its function, or in the code of
tests/ that it uses (``tools/contracts/code.py``). For a changed row these are only the literals in
rows.yaml. The check cannot tell whether a test proves the wording.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from tools.contracts.code import CodeOf
from tools.contracts.rows import Row, Section


def problems(
    sections: Sequence[Section], tests_of_rows: Mapping[str, Sequence[str]], code_of: CodeOf
) -> list[str]:
    """All problems, in the order of the rows."""
    known = {name for section in sections for name in section.rows}
    unknown = [
        f"{tests_of_rows[name][0]}: contract row {name!r} is not in rows.yaml"
        for name in sorted(tests_of_rows.keys() - known)
    ]
    return unknown + [
        f"{name}: {problem}"
        for section in sections
        for name, row in section.rows.items()
        for problem in _of_row(row, tests_of_rows.get(name, ()), code_of, section.complete)
    ]


def _of_row(row: Row, tests: Sequence[str], code_of: CodeOf, is_strict: bool) -> Iterator[str]:
    if row.changed and row.dropped:
        yield "is either changed or dropped, not both"
    if row.dropped and tests:
        yield f"is dropped, but {tests[0]} shows it"
    if row.dropped:
        return
    if row.changed and not tests:
        yield "is changed, but no test shows what we do instead"
    if not tests and is_strict and not row.changed:
        yield "no test shows it, and rows.yaml does not say changed or dropped, and why"
    if not tests or not (is_strict or row.changed):
        return
    codes = [code_of(test) for test in tests]
    for literal in row.wanted:
        if not any(literal in code for code in codes):
            yield f"the code of no test that shows it contains {literal!r}"
