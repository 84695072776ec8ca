"""A migration leaves a gang alone that would run below its minimum."""

from __future__ import annotations

import msgspec
import pytest

from scheduler.model import well_known
from scheduler.model.pods.pod import Pod
from tests.degraded_workload import full
from tests.migration_world import Workload, World


def degraded_gang(minimum: int) -> tuple[World, Pod]:
    """Three running members on a smaller tier, and the pod in their way."""
    world, holder = full(Workload("web", 3))
    for one in world.of("web"):
        annotations = {**one.annotations, well_known.GROUP_MIN: str(minimum)}
        labels = {**one.labels, well_known.GROUP: "train"}
        marked = msgspec.structs.replace(one, labels=labels, annotations=annotations, group="train")
        world.show(marked)
    return world, holder


def test_a_member_of_a_gang_at_its_minimum_is_not_moved() -> None:
    world, holder = degraded_gang(3)

    world.remove(holder.uid)
    world.pass_time(60, 5)

    assert world.writes == []
    [text] = {text for _, reason, text in world.notes if reason == "MigrationBlocked"}
    assert text.endswith(
        "is possible now, but the pod is not migrated: group train runs with 3 pods and needs 3"
    )


@pytest.mark.parametrize("minimum", [1, 2])
def test_a_member_above_the_minimum_is_moved(minimum: int) -> None:
    world, holder = degraded_gang(minimum)

    world.remove(holder.uid)
    world.pass_time(60, 5)

    assert world.tiers("web") == ["1g.10gb", "1g.10gb", "2g.20gb"]
