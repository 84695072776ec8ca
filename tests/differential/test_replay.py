"""Our side answers as the real kube-scheduler did, for every recorded pod."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import pytest

from tests.differential import recordings
from tests.differential.recordings import KEPT_SEEDS
from tests.differential.replay import replay

#: How many sequences one test replays.
SLICE: Final = 25
FOUND: Final = sorted(recordings.FOUND.glob("*.json"))


SLICES: Final = [
    pytest.param(kind, seeds[first : first + SLICE], id=f"{kind} from {seeds[first]}")
    for kind, seeds in KEPT_SEEDS.items()
    for first in range(0, len(seeds), SLICE)
]


@pytest.mark.parametrize(("kind", "seeds"), SLICES)
def test_answers_equal_those_of_kube_scheduler(kind: str, seeds: range) -> None:
    every = recordings.read(recordings.file_of(kind, seeds.start))
    wanted = [one for one in every if one.sequence.seed in seeds]
    assert [one.sequence.seed for one in wanted] == list(seeds)
    assert [replay(one) for one in wanted] == [""] * len(seeds)


@pytest.mark.parametrize("path", [pytest.param(path, id=path.stem) for path in FOUND])
def test_difference_that_was_found_is_gone(path: Path) -> None:
    assert [replay(one) for one in recordings.read(path)] == [""]
