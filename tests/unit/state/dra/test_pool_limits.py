"""Pools with more devices than a node is compared with: they are not used, and say so."""

from __future__ import annotations

from typing import Any

import pytest

from scheduler.model.dra.resource_slice import ResourceSlice
from scheduler.model.limits import NODE_DEVICES_MAX, POOL_DEVICES_MAX
from scheduler.state.dra.pools import Pools
from tests.dra import resource_slice

#: Devices of a slice: as many as the API server allows.
FULL = 128
TOO_MANY = f"{NODE_DEVICES_MAX + 1} devices of one node; the limit is {NODE_DEVICES_MAX}"


def slices_of(count: int, pool: str = "p", prefix: str = "", **more: Any) -> list[ResourceSlice]:
    """A pool with so many devices."""
    devices = [f"gpu-{at}" for at in range(count)]
    parts = [devices[at : at + FULL] for at in range(0, count, FULL)]
    return [
        resource_slice(
            "n1", *part, name=f"{prefix}{pool}-{at}", pool=pool, slices=len(parts), **more
        )
        for at, part in enumerate(parts)
    ]


def problems(*slices: ResourceSlice) -> list[str]:
    """What is wrong with each pool of the node n1."""
    found = Pools()
    for one in slices:
        found.put(None, one)
    pools = found.on_node("n1", {})
    assert all(bool(pool.slices) is not bool(pool.problem) for pool in pools)
    return [pool.problem for pool in pools]


@pytest.mark.parametrize(
    ("count", "problem"),
    [
        pytest.param(NODE_DEVICES_MAX, "", id="at-the-limit"),
        pytest.param(NODE_DEVICES_MAX + 1, TOO_MANY, id="one-more"),
    ],
)
@pytest.mark.parametrize("place", [{}, {"allNodes": True}], ids=["one-node", "all-nodes"])
def test_pool_with_too_many_devices_for_a_node_is_not_used(
    count: int, problem: str, place: dict[str, Any]
) -> None:
    assert problems(*slices_of(count, **place)) == [problem]


def test_pools_are_used_as_long_as_the_node_has_not_too_many_devices() -> None:
    """In the order of their names; a small one is used after a large one that is not."""
    every = (*slices_of(NODE_DEVICES_MAX - 1, "a"), *slices_of(2, "b"), *slices_of(1, "c"))

    assert problems(*every) == ["", TOO_MANY, ""]


def test_generation_that_is_replaced_does_not_count() -> None:
    former = slices_of(NODE_DEVICES_MAX)
    newer = slices_of(NODE_DEVICES_MAX, prefix="new-", generation=2)

    assert problems(*former, *newer) == [""]


def test_pool_of_many_nodes_has_a_limit_too() -> None:
    """Every node looks for contradictions in all of it."""
    count = POOL_DEVICES_MAX // FULL + 1
    every = [
        resource_slice(
            f"n{at}", *(f"gpu-{at}-{one}" for one in range(FULL)), pool="p", slices=count
        )
        for at in range(1, count + 1)
    ]

    assert problems(*every) == [f"{count * FULL} devices; the limit is {POOL_DEVICES_MAX}"]
