"""docs/contracts.md as text, from rows and tests: the same input gives the same bytes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tools.contracts.rows import Row, Section

HEAD = """\
# What the seed systems promise, and the tests that show it

Written by `make contracts` from the tests' `@pytest.mark.contract` markers; not edited by hand.
The rows are in `tools/contracts/rows.yaml`: what the seeds' documents and programs promise, and
their weaknesses that we must not have. A row says "not yet" until a test shows it, or until it is
said what we do instead (changed) or why it is left out (dropped). A row of which we do a part
otherwise counts as changed. Rules that follow from several seeds at once, and wishes that users
of the seeds' programs wrote elsewhere, are no rows.

What `make contracts` checks, and a unit test with it: in a part that is complete no row says "not
yet"; a row that is changed has a test of what we do instead; a row's literal strings, those in
backticks unless `rows.yaml` names others, stand in the code of one of its tests, which is its
function and what that uses of `tests/`, without comments, docstrings and messages of assertions.
{literal} of the {shown} rows that are shown have such strings. Of the others, and of everything
else that a wording says, the marker is the word of its author: no program can tell whether a test
shows it. Nothing here starts kind, docker or Ansible: rows about scripts for them are shown by
their dry runs and by what real programs (the API server, helm, kubectl, a kubelet) make of their
files.
"""
COLUMNS = ("rows", "shown by a test", "changed", "dropped", "not yet")


def render(sections: Sequence[Section], tests_of_rows: Mapping[str, Sequence[str]]) -> str:
    shown = [
        row
        for section in sections
        for name, row in section.rows.items()
        if _kind(row, name in tests_of_rows) == COLUMNS[1]
    ]
    literal = sum(1 for row in shown if row.wanted)
    parts = [HEAD.format(literal=literal, shown=len(shown)), _summary(sections, tests_of_rows)]
    parts += [_table(section, tests_of_rows) for section in sections]
    return "\n".join(parts)


def counted(
    sections: Sequence[Section], tests_of_rows: Mapping[str, Sequence[str]]
) -> list[tuple[str, int]]:
    """The number of rows, and of each kind, in the order of the columns."""
    kinds = [
        _kind(row, name in tests_of_rows)
        for section in sections
        for name, row in section.rows.items()
    ]
    return [(COLUMNS[0], len(kinds)), *((one, kinds.count(one)) for one in COLUMNS[1:])]


def _summary(sections: Sequence[Section], tests_of_rows: Mapping[str, Sequence[str]]) -> str:
    lines = [f"| part | {' | '.join(COLUMNS)} |", f"|---|{'---:|' * len(COLUMNS)}"]
    for section in sections:
        counts = [count for _, count in counted([section], tests_of_rows)]
        title = f"{section.title} (complete)" if section.complete else section.title
        lines.append(f"| {title} | {' | '.join(map(str, counts))} |")
    sums = [str(count) for _, count in counted(sections, tests_of_rows)]
    lines.append(f"| all | {' | '.join(sums)} |")
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
