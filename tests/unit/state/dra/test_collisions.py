"""Which of two claims gives way, where they have together more than there is."""

from __future__ import annotations

from typing import Any

import pytest

from scheduler.model.dra.claim import ResourceClaim
from scheduler.state import event as ev
from scheduler.state.dra.collisions import collision
from scheduler.state.dra.store import DraStore
from scheduler.state.fold import fold
from tests.builders import cluster, node
from tests.dra import allocation_json, device_json, resource_claim, resource_slice, result_json

GPU = result_json("gpu-0")
COUNTERS = [{"name": "card", "counters": {"slices": {"value": "4"}}}]


def share(memory: str, share_id: str) -> Any:
    return result_json("shared-0", shareID=share_id, consumedCapacity={"memory": memory})


def part(name: str) -> Any:
    """A partition that takes 3 of the 4 slices of its card."""
    use = {"counterSet": "card", "counters": {"slices": {"value": "3"}}}
    return device_json(name, consumesCounters=[use])


SHARED = device_json(
    "shared-0", allowMultipleAllocations=True, capacity={"memory": {"value": "8Gi"}}
)
SLICES = (
    resource_slice("n1", "gpu-0", "gpu-1", SHARED, slices=2, name="devices"),
    resource_slice("n1", slices=2, name="counters", sharedCounters=COUNTERS),
)
PARTS = (
    resource_slice("n1", part("mig-0"), part("mig-1"), slices=2, name="devices"),
    resource_slice("n1", slices=2, name="counters", sharedCounters=COUNTERS),
)


def claim(name: str, *results: Any, version: int) -> ResourceClaim:
    allocation = allocation_json(*results) if results else None
    return resource_claim(name, version=str(version), allocation=allocation)


def written(*claims: ResourceClaim, slices: Any = SLICES) -> DraStore:
    """A cluster that has watched claims from their creation on."""
    state = cluster(node("n1"), *slices)
    for one in claims:
        fold(state, ev.DraUpdated(claim(one.name, version=1)))
    for one in claims:
        fold(state, ev.DraUpdated(one))
    return state.dra


def said(store: DraStore, key: str) -> str:
    found = store.claim(key)
    return str((found and collision(store, found)) or "")


@pytest.mark.parametrize(
    ("first", "second", "what"),
    [
        pytest.param([GPU], [GPU], "device gpu.example.com/n1/gpu-0", id="device"),
        pytest.param([GPU], [result_json("gpu-1")], "", id="other-device"),
        pytest.param([GPU], [result_json("gpu-0", adminAccess=True)], "", id="admin-access"),
        pytest.param([share("4Gi", "a")], [share("4Gi", "b")], "", id="shares"),
        pytest.param(
            [share("4Gi", "a")],
            [share("5Gi", "b")],
            "capacity memory of device gpu.example.com/n1/shared-0",
            id="too-much-capacity",
        ),
        pytest.param(
            [share("1Gi", "a")],
            [result_json("shared-0")],
            "device gpu.example.com/n1/shared-0",
            id="share-and-whole",
        ),
        pytest.param(
            [result_json("lost")],
            [result_json("lost")],
            "device gpu.example.com/n1/lost",
            id="lost",
        ),
        pytest.param([result_json("lost")], [GPU], "", id="lost-and-another"),
    ],
)
def test_the_claim_that_was_allocated_later_has_too_much(
    first: list[Any], second: list[Any], what: str
) -> None:
    store = written(claim("a", *first, version=5), claim("b", *second, version=6))

    assert said(store, "team/a") == ""
    assert said(store, "team/b") == (what and f"{what} is also allocated to claim team/a")


def test_counters_of_a_card_are_given_once() -> None:
    mig = [claim(f"mig-{n}", result_json(f"mig-{n}"), version=5 + n) for n in range(2)]

    store = written(*mig, slices=PARTS)

    assert said(store, "team/mig-0") == ""
    assert said(store, "team/mig-1") == (
        "counter slices of card for device gpu.example.com/n1/mig-1"
        " is also allocated to claim team/mig-0"
    )


def test_later_shares_leave_an_earlier_one_what_it_has() -> None:
    """Of three shares the third is one too many, not the second."""
    shares = [claim(name, share("4Gi", name), version=5 + n) for n, name in enumerate("abc")]

    store = written(*shares)

    assert [said(store, f"team/{name}") != "" for name in "abc"] == [False, False, True]


@pytest.mark.parametrize("key", ["team/a", "team/b"])
def test_both_have_too_much_where_a_list_showed_them(key: str) -> None:
    """The order of their allocations is not known: the later version may be a reservation."""
    state = cluster(node("n1"), *SLICES)
    listed = (claim("a", GPU, version=5), claim("b", GPU, version=6))
    fold(state, ev.DraReplaced(ResourceClaim, listed))

    assert said(state.dra, key) != ""


def test_claim_that_the_watch_shows_later_than_the_list_is_later() -> None:
    state = cluster(node("n1"), *SLICES)
    fold(state, ev.DraReplaced(ResourceClaim, (claim("a", GPU, version=5), claim("b", version=4))))

    fold(state, ev.DraUpdated(claim("b", GPU, version=6)))

    assert said(state.dra, "team/a") == ""
    assert said(state.dra, "team/b") != ""


def test_a_new_reservation_does_not_make_an_allocation_later() -> None:
    store = written(claim("a", GPU, version=5), claim("b", GPU, version=6))
    store.upsert(claim("a", GPU, version=9))

    assert said(store, "team/a") == ""


@pytest.mark.parametrize("gone", ["deallocated", "deleted", "another"])
def test_collision_ends_with_the_earlier_allocation(gone: str) -> None:
    store = written(claim("a", GPU, version=5), claim("b", GPU, version=6))

    match gone:
        case "deallocated":
            store.upsert(claim("a", version=7))
        case "deleted":
            store.delete(ResourceClaim, "team/a")
        case "another":
            store.upsert(claim("a", version=7))
            store.upsert(claim("a", GPU, version=8))

    assert said(store, "team/b") == ""
    assert (said(store, "team/a") != "") == (gone == "another")


def test_counters_are_those_that_the_driver_publishes_now() -> None:
    mig = [claim(f"mig-{n}", result_json(f"mig-{n}"), version=5 + n) for n in range(2)]
    store = written(*mig, slices=PARTS)
    assert said(store, "team/mig-1") != ""

    larger = [{"name": "card", "counters": {"slices": {"value": "6"}}}]
    store.upsert(resource_slice("n1", slices=2, name="counters", sharedCounters=larger))

    assert said(store, "team/mig-1") == ""
