"""Every reason code can happen: for each one the smallest world that shows it."""

from __future__ import annotations

import pytest

from scheduler.model.reasons.reason import ReasonCode
from tests.builders import codes
from tests.reason_worlds import DECIDED, world_of


@pytest.mark.parametrize("code", DECIDED, ids=lambda code: code.name)
def test_every_reason_code_is_produced_by_a_minimal_cluster(code: ReasonCode) -> None:
    world = world_of(code)

    assert code in codes(world.cluster, world.pod, world.pipeline)
