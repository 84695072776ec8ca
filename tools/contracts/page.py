"""docs/contracts.md as text, from rows and tests: the same input gives the same bytes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tools.contracts.rows import Row, Section

HEAD = """\
# What the seed systems promise, and the tests that show it

Written by `make contracts` from the tests' `@pytest.mark.contract` markers; not edited by hand.
The rows are in `tools/contracts/rows.yaml`. A row says "not yet" until a test shows it, or until
it is said what we do instead (changed) or why it is left out (dropped). In a part that is complete
no row may say "not yet", and a test shows a row only if it contains the row's literal strings.
"""
COLUMNS = ("rows", "shown by a test", "changed", "dropped", "not yet")


def render(sections: Sequence[Section], tests_of_rows: Mapping[str, Sequence[str]]) -> str:
    parts = [HEAD, _summary(sections, tests_of_rows)]
    parts += [_table(section, tests_of_rows) for section in sections]
    return "\n".join(parts)


def _summary(sections: Sequence[Section], tests_of_rows: Mapping[str, Sequence[str]]) -> str:
    lines = [f"| part | {' | '.join(COLUMNS)} |", f"|---|{'---:|' * len(COLUMNS)}"]
    for section in sections:
        kinds = [_kind(row, name in tests_of_rows) for name, row in section.rows.items()]
        counts = [len(kinds), *(kinds.count(column) for column in COLUMNS[1:])]
        title = f"{section.title} (complete)" if section.complete else section.title
        lines.append(f"| {title} | {' | '.join(map(str, counts))} |")
    return "\n".join([*lines, ""])


def _kind(row: Row, is_shown: bool) -> str:
    """The column in which a row is counted: each in one."""
    if row.dropped:
        return "dropped"
    if row.changed:
        return "changed"
    return "shown by a test" if is_shown else "not yet"


def _table(section: Section, tests_of_rows: Mapping[str, Sequence[str]]) -> str:
    lines = [f"## {section.title}", "", "| row | what | shown by |", "|---|---|---|"]
    for name, row in section.rows.items():
        answer = _answer(row, tests_of_rows.get(name, ()))
        lines.append(f"| {name} | {_cell(row.what)} | {answer} |")
    return "\n".join([*lines, ""])


def _answer(row: Row, tests: Sequence[str]) -> str:
    said = [f"changed: {row.changed}"] if row.changed else []
    said += [f"dropped: {row.dropped}"] if row.dropped else []
    return "<br>".join([*map(_cell, said), *(f"`{_cell(test)}`" for test in tests)]) or "not yet"


def _cell(text: str) -> str:
    return text.replace("|", "\\|")
