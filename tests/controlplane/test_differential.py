"""Sequences in lock step with the real kube-scheduler (tests/differential), run live."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import msgspec
import pytest

from tests.differential.generate.core import sequence
from tests.differential.live.driver import Differs
from tests.differential.live.run import lock_step
from tests.differential.our_side import PIPELINE
from tests.differential.replay import replay

#: None of these seeds is recorded.
FIRST: Final = 100_001
SEEDS: Final = [
    pytest.param(range(FIRST, FIRST + 15), id="fifteen"),
    pytest.param(
        range(FIRST + 15, FIRST + 115),
        id="a-hundred",
        marks=[pytest.mark.nightly, pytest.mark.timeout(1800)],
    ),
]


@pytest.mark.parametrize("seeds", SEEDS)
async def test_live_sequences_have_no_difference(tmp_path: Path, seeds: range) -> None:
    async with lock_step(tmp_path / "cp") as driver:
        for seed in seeds:
            recording = await driver.run(sequence(seed))
            assert len(recording.answers) > 10
            assert replay(recording) == ""


async def test_live_run_reports_a_filter_that_is_left_out(tmp_path: Path) -> None:
    rest = tuple(one for one in PIPELINE.plugins if one.name != "TaintToleration")
    crippled = msgspec.structs.replace(PIPELINE, plugins=rest)
    async with lock_step(tmp_path / "cp", crippled) as driver:
        with pytest.raises(Differs, match="only for us") as found:
            await driver.run(sequence(FIRST))
    assert replay(found.value.recording) == ""
