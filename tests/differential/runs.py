"""What was run without a difference: seeds and decisions of each kind, and their table.

Recordings are lost with the user's cache; these counts are kept in the repository.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final

import msgspec

from tests.differential.recordings import Recording

RUNS: Final = Path(__file__).with_name("runs.json")
PAGE: Final = Path(__file__).parents[2] / "docs" / "conformance.md"
BEGIN: Final = "<!-- differential: written by make differential -->"
END: Final = "<!-- differential: end -->"


class Run(msgspec.Struct, frozen=True):
    """``seeds`` are the first and the last seed of each span, in order."""

    seeds: tuple[tuple[int, int], ...] = ()
    placed: int = 0
    rejected: int = 0

    def __contains__(self, seed: object) -> bool:
        return any(isinstance(seed, int) and first <= seed <= last for first, last in self.seeds)

    def with_recordings(self, recordings: Iterable[Recording]) -> Run:
        """The run with these sequences; one that it has already is not counted again."""
        new = {one.sequence.seed: one for one in recordings if one.sequence.seed not in self}
        answers = [answer for one in new.values() for answer in one.answers]
        placed = sum(bool(answer.nodes) for answer in answers)
        return Run(
            _joined([*self.seeds, *((seed, seed) for seed in new)]),
            self.placed + placed,
            self.rejected + len(answers) - placed,
        )


Runs = Mapping[str, Run]


def read(path: Path = RUNS) -> Runs:
    """The runs by kind."""
    return msgspec.json.decode(path.read_bytes(), type=dict[str, Run])


def write(runs: Runs, path: Path = RUNS, page: Path = PAGE) -> None:
    """Keep the runs, and write their table into the page."""
    path.write_bytes(msgspec.json.format(msgspec.json.encode(runs), indent=1) + b"\n")
    head, _, rest = page.read_text(encoding="utf-8").partition(BEGIN)
    tail = rest.partition(END)[2]
    page.write_text(f"{head}{BEGIN}\n{table(runs)}\n{END}{tail}", encoding="utf-8")


def table(runs: Runs) -> str:
    """One row for each kind."""
    lines = [
        "| kind | seeds | sequences | pods placed | pods rejected | differences |",
        "|---|---|---:|---:|---:|---:|",
    ]
    for kind, run in runs.items():
        spans = " and ".join(f"{first} to {last}" for first, last in run.seeds)
        count = sum(last - first + 1 for first, last in run.seeds)
        lines.append(f"| `{kind}` | {spans} | {count:,} | {run.placed:,} | {run.rejected:,} | 0 |")
    return "\n".join(lines)


def _joined(spans: Iterable[tuple[int, int]]) -> tuple[tuple[int, int], ...]:
    """The same seeds in the fewest spans."""
    found: list[tuple[int, int]] = []
    for first, last in sorted(spans):
        if found and first <= found[-1][1] + 1:
            found[-1] = (found[-1][0], max(last, found[-1][1]))
        else:
            found.append((first, last))
    return tuple(found)
