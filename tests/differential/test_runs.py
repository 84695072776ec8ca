"""The counts of what was run: each sequence once, and the table on the page."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.differential import recordings, runs
from tests.differential.answers import Answer
from tests.differential.generate.core import sequence
from tests.differential.recordings import Recording
from tests.differential.runs import Run

PLACED, REJECTED = Answer(nodes="n1", choice="n1"), Answer(reasons={"Insufficient cpu": 1})
BEFORE = Run(((1, 10), (21, 30)), 100, 50)


def recorded(*seeds: int) -> list[Recording]:
    """Sequences with two placed pods and one rejected pod each."""
    return [
        Recording(sequence=sequence(seed), answers=(PLACED, REJECTED, PLACED)) for seed in seeds
    ]


@pytest.mark.parametrize(
    ("seeds", "expected"),
    [
        pytest.param(range(11, 21), Run(((1, 30),), 120, 60), id="between"),
        pytest.param(range(8, 13), Run(((1, 12), (21, 30)), 104, 52), id="partly-known"),
        pytest.param(range(1, 31), Run(((1, 30),), 120, 60), id="around"),
        pytest.param(range(22, 25), BEFORE, id="known"),
        pytest.param((40,), Run(((1, 10), (21, 30), (40, 40)), 102, 51), id="apart"),
    ],
)
def test_each_sequence_counts_once(seeds: range, expected: Run) -> None:
    assert BEFORE.with_recordings(recorded(*seeds)) == expected


def test_recorded_seeds_count_as_run() -> None:
    for kind, seeds in recordings.KEPT_SEEDS.items():
        assert seeds.start in runs.read()[kind]
        assert seeds[-1] in runs.read()[kind]


def test_table_on_the_page_has_the_counts() -> None:
    assert runs.table(runs.read()) in runs.PAGE.read_text(encoding="utf-8")


def test_new_run_is_kept_and_written_into_the_page(tmp_path: Path) -> None:
    path, page = tmp_path / "runs.json", tmp_path / "page.md"
    page.write_text(f"before\n{runs.BEGIN}\nold\n{runs.END}\nafter\n", encoding="utf-8")

    runs.write({"core": BEFORE}, path, page)

    assert runs.read(path) == {"core": BEFORE}
    text = page.read_text(encoding="utf-8")
    assert "| `core` | 1 to 10 and 21 to 30 | 20 | 100 | 50 | 0 |" in text
    assert "old" not in text
    assert text.startswith("before\n")
    assert text.endswith("after\n")
