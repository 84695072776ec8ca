"""An autoscaler changes the number of replicas during a migration."""

from __future__ import annotations

import pytest

from scheduler.model.crd.migration_actions import EvictPod
from tests.builders import node, pod
from tests.migration_world import Workload, World


@pytest.mark.parametrize(
    ("at_s", "moves"),
    [
        pytest.param(0.0, 0, id="before-the-slice-has-been-free-for-a-while"),
        pytest.param(3.0, 1, id="while-one-is-moved"),
    ],
)
def test_scaled_up_owner_gets_a_freed_slice_once(at_s: float, moves: int) -> None:
    """A new pod takes the slice without an eviction, else one pod migrates once."""
    workload = Workload("web")
    world = World(node("cut", mig={"2g.20gb": 1, "1g.10gb": 5}))
    holder = world.create(pod("holder", uid="", mig={"2g.20gb": 1}))
    world.decide_due()
    world.add(workload)
    world.pass_time(120)
    assert holder is not None
    assert world.tiers("web") == ["1g.10gb"] * 2

    world.remove(holder.uid)
    world.pass_time(at_s)
    workload.replicas = 4
    world.pass_time(600)

    assert world.tiers("web") == [*["1g.10gb"] * 3, "2g.20gb"]
    assert len(world.sent(EvictPod)) == moves
    assert world.open == {}
    world.check()
