"""``python -m tools.contracts``: write docs/contracts.md; fail on invalid rows."""

from __future__ import annotations

import sys

from tools.contracts.check import problems
from tools.contracts.code import TestCode
from tools.contracts.collect import ROOT, CollectionFailed, collect, group_by_row
from tools.contracts.page import counted, render
from tools.contracts.rows import read_sections


def main() -> int:
    sections = read_sections()
    try:
        tests = group_by_row(collect())
    except CollectionFailed as problem:
        print(problem, file=sys.stderr)
        return 1
    wrong = problems(sections, tests, TestCode(ROOT))
    for line in wrong:
        print(line, file=sys.stderr)
    if wrong:
        return 1
    page = ROOT / "docs" / "contracts.md"
    page.write_text(render(sections, tests), encoding="utf-8")
    print("docs/contracts.md:", ", ".join(f"{n} {what}" for what, n in counted(sections, tests)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
