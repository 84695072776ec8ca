"""A workload on a smaller MIG instance than requested, and the pod in its way."""

from __future__ import annotations

from typing import Any

from scheduler.model.pods.pod import Pod
from tests.builders import node, pod
from tests.migration_world import Workload, World


def cut_node() -> Any:
    """One big slice and three small ones."""
    return node("cut", mig={"2g.20gb": 1, "1g.10gb": 3})


def held(world: World, name: str = "holder", **fields: Any) -> Pod:
    """A bare pod that takes the big slice."""
    made = world.create(pod(name, uid="", mig={"2g.20gb": 1}, **fields))
    world.decide_due()
    assert made is not None
    return made


def full(workload: Workload, **more: Any) -> tuple[World, Pod]:
    """A workload of degraded pods, old enough to migrate, and the pod in their way."""
    world = World(cut_node(), **more)
    holder = held(world)
    world.add(workload)
    assert set(world.tiers(workload.name)) == {"1g.10gb"}
    world.pass_time(120.0)
    assert world.writes == []
    return world, holder
