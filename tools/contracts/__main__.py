"""``python -m tools.contracts``: write docs/contracts.md; refuse markers that name no row."""

from __future__ import annotations

import sys

from tools.contracts.collect import ROOT, CollectionFailed, collect, group_by_row
from tools.contracts.page import render
from tools.contracts.rows import read_sections, row_ids


def main() -> int:
    sections = read_sections()
    try:
        tests = group_by_row(collect())
    except CollectionFailed as problem:
        print(problem, file=sys.stderr)
        return 1
    unknown = sorted(set(tests) - row_ids(sections))
    for row in unknown:
        print(f"{tests[row][0]}: contract row {row!r} is not in rows.yaml", file=sys.stderr)
    if unknown:
        return 1
    page = ROOT / "docs" / "contracts.md"
    page.write_text(render(sections, tests), encoding="utf-8")
    print(f"docs/contracts.md: {len(tests)} of {len(row_ids(sections))} rows are shown by a test")
    return 0


if __name__ == "__main__":
    sys.exit(main())
