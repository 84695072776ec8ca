"""Which devices are held for the claims of a replacement: whole ones, and no shares."""

from __future__ import annotations

import pytest

from tests.claim_migration_world import ClaimWorld, web
from tests.dra import Json, device_json, resource_slice
from tests.unit.controllers.migration.test_claims import MINUTE_S, free_the_device


@pytest.mark.parametrize(
    ("sharing", "got"),
    [
        pytest.param({}, ["large-0"], id="a-whole-device-is-held"),
        pytest.param(
            {"allowMultipleAllocations": True, "capacity": {"memory": {"value": "2"}}},
            [],
            id="a-share-is-not",
        ),
    ],
)
def test_other_pods_take_a_share_before_the_replacement(sharing: Json, got: list[str]) -> None:
    """Two pods of the same priority, and one device beside the one that it was evicted for."""
    workload = web()
    sizes_of = {"large-0": "large", "small-0": "small", "small-1": "small"}
    published = [
        device_json(name, attributes={"size": {"string": size}}, **(sharing if at == 0 else {}))
        for at, (name, size) in enumerate(sizes_of.items())
    ]
    world = ClaimWorld(resource_slice("n1", *published))
    world.user("holder")
    world.add(workload)
    world.pass_time(2 * MINUTE_S)
    workload.is_closed = True  # the replacement comes after the others
    free_the_device(world)
    world.pass_time(5)
    assert len(world.open) == 1

    for name in ("first", "second"):
        world.user(name)
    workload.is_closed = False
    world.pass_time(MINUTE_S)

    assert [one for one in world.given("web") if one != "small-1"] == got
