"""Sequences in lock step with the real kube-scheduler (tests/differential), run live."""

from __future__ import annotations

from itertools import product
from pathlib import Path
from typing import Final

import msgspec
import pytest

from tests.differential.generate.core import sequence
from tests.differential.generate.kinds import KINDS
from tests.differential.live.driver import Differs
from tests.differential.live.run import lock_step, steady
from tests.differential.our_side import PIPELINE
from tests.differential.replay import replay

pytestmark = pytest.mark.kubernetes(
    "1.37", "kube-scheduler has no metric that says which objects it has seen before"
)

#: None of these seeds is recorded.
FIRST: Final = 100_001
#: These share one control plane.
FEW: Final = ("volumes", "sources", "preemption")
_NIGHTLY: Final = (pytest.mark.nightly, pytest.mark.timeout(1800))
SEEDS: Final = [
    pytest.param(("core",), range(FIRST, FIRST + 15), id="fifteen"),
    pytest.param(("claims",), range(FIRST, FIRST + 5), id="five-with-claims"),
    pytest.param(FEW, range(FIRST, FIRST + 3), id="three-each-with-volumes-and-preemption"),
    pytest.param(("core",), range(FIRST + 15, FIRST + 115), id="a-hundred", marks=_NIGHTLY),
    pytest.param(("claims",), range(FIRST + 5, FIRST + 65), id="sixty-with-claims", marks=_NIGHTLY),
    pytest.param(FEW, range(FIRST + 3, FIRST + 33), id="thirty-each", marks=_NIGHTLY),
]


@pytest.mark.parametrize(("kinds", "seeds"), SEEDS)
async def test_live_sequences_have_no_difference(
    tmp_path: Path, kinds: tuple[str, ...], seeds: range
) -> None:
    async with lock_step(tmp_path / "cp") as driver:
        for kind, seed in product(kinds, seeds):
            recording = await steady(driver, KINDS[kind](seed))
            assert len(recording.answers) > 8
            assert replay(recording) == ""


async def test_live_run_reports_a_filter_that_is_left_out(tmp_path: Path) -> None:
    rest = tuple(one for one in PIPELINE.plugins if one.name != "TaintToleration")
    crippled = msgspec.structs.replace(PIPELINE, plugins=rest)
    async with lock_step(tmp_path / "cp", crippled) as driver:
        with pytest.raises(Differs, match="only for us") as found:
            await driver.run(sequence(FIRST))
    assert replay(found.value.recording) == ""
