"""docs/contracts.md as text, from rows and tests: the same input gives the same bytes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tools.contracts.rows import Section

HEAD = """\
# What the seed systems promise, and the tests that show it

Written by `make contracts` from the tests' `@pytest.mark.contract` markers; not edited by hand.
The rows are in `tools/contracts/rows.yaml`. A row says "not yet" until a test shows it.
"""


def render(sections: Sequence[Section], tests_of_rows: Mapping[str, Sequence[str]]) -> str:
    parts = [HEAD, _summary(sections, tests_of_rows)]
    parts += [_table(section, tests_of_rows) for section in sections]
    return "\n".join(parts)


def _summary(sections: Sequence[Section], tests_of_rows: Mapping[str, Sequence[str]]) -> str:
    lines = ["| part | rows | shown by a test |", "|---|---:|---:|"]
    for section in sections:
        shown = sum(row in tests_of_rows for row in section.rows)
        lines.append(f"| {section.title} | {len(section.rows)} | {shown} |")
    return "\n".join([*lines, ""])


def _table(section: Section, tests_of_rows: Mapping[str, Sequence[str]]) -> str:
    lines = [f"## {section.title}", "", "| row | what | shown by |", "|---|---|---|"]
    for row, wording in section.rows.items():
        tests = "<br>".join(f"`{_cell(test)}`" for test in tests_of_rows.get(row, ()))
        lines.append(f"| {row} | {_cell(wording)} | {tests or 'not yet'} |")
    return "\n".join([*lines, ""])


def _cell(text: str) -> str:
    return text.replace("|", "\\|")
