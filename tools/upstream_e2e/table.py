"""Results of the specs as a table, and its place in docs/conformance.md."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Final

import msgspec

BEGIN: Final = "<!-- upstream-e2e: written by make upstream-e2e -->"
END: Final = "<!-- upstream-e2e: end -->"
_IN_A_TABLE: Final = str.maketrans({"|": "/", "\n": " "})


class _Spec(
    msgspec.Struct,
    frozen=True,
    rename={
        "containers": "ContainerHierarchyTexts",
        "text": "LeafNodeText",
        "kind": "LeafNodeType",
        "state": "State",
    },
):
    text: str = ""
    kind: str = ""
    state: str = ""
    containers: tuple[str, ...] | None = None


class _Suite(msgspec.Struct, frozen=True, rename={"specs": "SpecReports"}):
    specs: tuple[_Spec, ...] | None = None


#: The state of each spec that ran, by its name.
Results = Mapping[str, str]


def read(report: Path) -> Results:
    """The results in ginkgo's JSON report; specs that were skipped are left out.

    A run that was killed has no report, and so no results.
    """
    if not report.exists():
        return {}
    suites = msgspec.json.decode(report.read_bytes(), type=list[_Suite])
    return {
        " ".join((*(spec.containers or ()), spec.text)).removeprefix(
            "[sig-scheduling] "
        ): spec.state
        for suite in suites
        for spec in suite.specs or ()
        if spec.kind == "It" and spec.state != "skipped"
    }


def table(theirs: Results, ours: Results) -> str:
    """Both results of each spec."""
    theirs, ours = _named(theirs), _named(ours)
    lines = ["| spec | kube-scheduler | gpu-scheduler |", "|---|---|---|"]
    for name in sorted({*theirs, *ours}):
        cells = (name, theirs.get(name, "not run"), ours.get(name, "not run"))
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def _named(results: Results) -> Results:
    return {name.translate(_IN_A_TABLE): state for name, state in results.items()}


def missed(theirs: Results, ours: Results) -> list[str]:
    """The specs that kube-scheduler passes and gpu-scheduler does not."""
    return sorted(
        name for name, state in theirs.items() if state == "passed" != ours.get(name, "not run")
    )


def rows(page: str) -> tuple[Results, Results]:
    """Both results of each spec in the page's table."""
    text = page.partition(BEGIN)[2].partition(END)[0]
    found = [line.strip("| ").split(" | ") for line in text.splitlines()[3:] if line]
    return {name: one for name, one, _ in found}, {name: one for name, _, one in found}


def put_into(page: str, text: str) -> str:
    """The page with the table between its marks."""
    head, _, rest = page.partition(BEGIN)
    _, found, tail = rest.partition(END)
    assert found, f"the page has no marks: {BEGIN}, {END}"
    return f"{head}{BEGIN}\n{text}\n{END}{tail}"
