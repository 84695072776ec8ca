"""``python -m tools.contracts``: write docs/contracts.md; refuse answers that are none."""

from __future__ import annotations

import sys

from tools.contracts.check import problems, read_from
from tools.contracts.collect import ROOT, CollectionFailed, collect, group_by_row
from tools.contracts.page import render
from tools.contracts.rows import read_sections


def main() -> int:
    sections = read_sections()
    try:
        tests = group_by_row(collect())
    except CollectionFailed as problem:
        print(problem, file=sys.stderr)
        return 1
    wrong = problems(sections, tests, read_from(ROOT))
    for line in wrong:
        print(line, file=sys.stderr)
    if wrong:
        return 1
    page = ROOT / "docs" / "contracts.md"
    page.write_text(render(sections, tests), encoding="utf-8")
    count = sum(len(section.rows) for section in sections)
    print(f"docs/contracts.md: {len(tests)} of {count} rows are shown by a test")
    return 0


if __name__ == "__main__":
    sys.exit(main())
