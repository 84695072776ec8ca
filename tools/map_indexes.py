"""``python -m tools.map_indexes``: write the table of pod index sources into docs/maps.md."""

from __future__ import annotations

import sys
from itertools import groupby
from pathlib import Path
from typing import Final

from scheduler.model.pods.pod_index import SOURCES, Source

PAGE: Final = Path(__file__).parents[1] / "docs" / "maps.md"
BEGIN: Final = (
    "<!-- written by `python -m tools.map_indexes` from scheduler/model/pods/pod_index.py -->\n"
)
END: Final = "<!-- end -->\n"


def render(page: str) -> str:
    """The page with the table of the code."""
    before, _, rest = page.partition(BEGIN)
    _, _, after = rest.partition(END)
    lines = [
        "| controlled by | index | read from | where it is written |",
        "|---|---|---|---|",
        *map(_row, SOURCES),
    ]
    return before + BEGIN + "\n".join(lines) + "\n" + END + after


def _row(source: Source) -> str:
    marks = [*(f"`{label}`" for label in source.labels), *filter(None, (source.also,))]
    cells = (_owners(source), source.meaning, ", ".join(marks), source.origin)
    return f"| {' | '.join(cells)} |"


def _owners(source: Source) -> str:
    """``PyTorchJob, MPIJob of kubeflow.org``; Kubernetes' own kinds need no group."""
    parts: list[str] = []
    words = [word.partition(".") for word in source.owners]
    for group, each in groupby(words, key=lambda word: word[2]):
        kinds = ", ".join(f"`{kind}`" if kind else "no controller" for kind, _, _ in each)
        parts.append(f"{kinds} of `{group}`" if group else kinds)
    return "; ".join(parts)


def main() -> int:
    """Write the table."""
    PAGE.write_text(render(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
    print(f"docs/{PAGE.name}: {len(SOURCES)} rows")
    return 0


if __name__ == "__main__":
    sys.exit(main())
