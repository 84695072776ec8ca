"""The pools of a node: the newest generation, complete and without contradictions."""

from __future__ import annotations

from typing import Any

import pytest

from scheduler.state.dra.pool import Pool
from scheduler.state.dra.pools import Pools
from tests.dra import device_json, resource_slice

ZONE_A = {
    "nodeSelectorTerms": [
        {"matchExpressions": [{"key": "zone", "operator": "In", "values": ["a"]}]}
    ]
}
CARD = [{"name": "card", "counters": {"memory": {"value": "1"}}}]
USES = {"consumesCounters": [{"counterSet": "card", "counters": {"memory": {"value": "1"}}}]}
UNKNOWN = {"consumesCounters": [{"counterSet": "card", "counters": {"x": {"value": "1"}}}]}


def pools(*slices: Any) -> Pools:
    found = Pools()
    for one in slices:
        found.put(found.slices.get(one.name), one)
    return found


def names(found: tuple[Pool, ...]) -> list[list[str]]:
    return [[device.name for one in pool.slices for device in one.devices] for pool in found]


def test_slices_count_by_name_and_pools_by_driver_and_name() -> None:
    found = pools(
        resource_slice("n1", "b", name="2", slices=2, pool="p"),
        resource_slice("n1", "a", name="1", slices=2, pool="p"),
        resource_slice("n1", "z", name="0", driver="a.example"),
    )

    assert names(found.on_node("n1", {})) == [["z"], ["a", "b"]]
    assert found.on_node("n2", {}) == ()


def test_a_pool_with_binding_conditions_comes_last() -> None:
    waits = device_json("w", bindingConditions=["ready"], bindingFailureConditions=["failed"])
    found = pools(
        resource_slice("n1", waits, name="0", driver="a.example"),
        resource_slice("n1", "a", name="1"),
    )

    assert names(found.on_node("n1", {})) == [["a"], ["w"]]


@pytest.mark.parametrize(
    ("slices", "problem"),
    [
        pytest.param([resource_slice("n1", "a", "a")], "duplicate device name a", id="device"),
        pytest.param(
            [
                resource_slice("n1", name="c", slices=2, nodeName="n1", sharedCounters=CARD * 2),
                resource_slice("n1", "a", name="d", slices=2),
            ],
            "duplicate counter set name card",
            id="counter-set",
        ),
        pytest.param(
            [
                resource_slice("n1", name="c", slices=2, nodeName="n1", sharedCounters=CARD),
                resource_slice("n1", device_json("a", **UNKNOWN), name="d", slices=2),
            ],
            "counter x not found in counter set card",
            id="counter",
        ),
        pytest.param(
            [resource_slice("n1", device_json("a", **USES))],
            "counter memory not found in counter set card",
            id="no-counters",
        ),
    ],
)
def test_a_pool_that_contradicts_itself_is_not_used(slices: list[Any], problem: str) -> None:
    (found,) = pools(*slices).on_node("n1", {})

    assert found.problem == problem
    assert not found.is_usable


def test_a_generation_that_is_replaced_elsewhere_is_no_pool() -> None:
    found = pools(
        resource_slice("n1", "a", name="1", slices=2, pool="p"),
        resource_slice("n2", "b", name="2", generation=2, pool="p"),
    )

    assert found.on_node("n1", {}) == ()
    assert names(found.on_node("n2", {})) == [["b"]]


def test_a_complete_older_generation_of_a_node_stays_in_use() -> None:
    """As kube-scheduler: it looks for newer slices of other nodes only if some are missing."""
    found = pools(
        resource_slice("n1", "a", name="1", pool="p"),
        resource_slice("n2", "b", name="2", generation=2, pool="p"),
    )

    assert names(found.on_node("n1", {})) == [["a"]]


def test_a_pool_is_complete_with_slices_of_other_nodes() -> None:
    found = pools(
        resource_slice("n1", "a", name="1", slices=2, pool="p"),
        resource_slice("n2", "b", name="2", slices=2, pool="p"),
    )

    (pool,) = found.on_node("n1", {})
    assert [device.name for device in pool.slices[0].devices] == ["a"]
    assert set(pool.by_name) == {"a", "b"}


def test_a_node_selector_follows_the_labels_of_the_node() -> None:
    found = pools(resource_slice("n1", "a", nodeSelector=ZONE_A))

    assert found.on_node("n1", {"zone": "b"}) == ()
    assert names(found.on_node("n1", {"zone": "a"})) == [["a"]]
    assert found.on_node("n1", {"zone": "b"}) == ()
    assert found.nodes() is None


@pytest.mark.parametrize(
    "newer",
    [
        pytest.param(resource_slice("n1", "new"), id="changed"),
        pytest.param(resource_slice("n1", "new", name="other", generation=2), id="generation"),
    ],
)
def test_pools_follow_their_slices(newer: Any) -> None:
    found = pools(resource_slice("n1", "old"))
    before = found.on_node("n1", {})
    assert found.on_node("n1", {}) is before

    found.put(found.slices.get(newer.name), newer)

    assert names(found.on_node("n1", {})) == [["new"]]


def test_nothing_is_kept_of_slices_that_are_gone() -> None:
    one = resource_slice("n1", "a")
    found = pools(one)

    found.put(one, None)

    assert found.on_node("n1", {}) == ()
    assert found.slices == {}
    assert found.nodes() == {}
