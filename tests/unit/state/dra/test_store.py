"""What claims use, what placements assume, and whom a change wakes."""

from __future__ import annotations

from typing import Any

import pytest

from scheduler.model.dra.allocation import Allocation
from scheduler.model.dra.claim import ResourceClaim
from scheduler.model.dra.claim_plan import ClaimPlan, PlannedClaim
from scheduler.model.dra.device import DeviceId
from scheduler.model.reasons.reason import RequeueCause
from scheduler.state.dra.store import DraStore
from scheduler.state.event import ClusterEvent
from tests.builders import pod
from tests.dra import (
    DRIVER,
    allocation_json,
    claiming,
    device_class,
    resource_claim,
    resource_slice,
    result_json,
    taint_rule,
)

GPU_0 = DeviceId(DRIVER, "n1", "gpu-0")
ALLOCATED = resource_claim(version="3", allocation=allocation_json(result_json()))
CLAIM = ClusterEvent(RequeueCause.RESOURCE_CLAIM, what=frozenset(("team/gpu",)))
AT_N1 = ClusterEvent(RequeueCause.RESOURCE_DEVICES, node_name="n1")
ANYWHERE = ClusterEvent(RequeueCause.RESOURCE_DEVICES)
OF_CLASS = ClusterEvent(
    RequeueCause.FREED, what=frozenset(("deviceclass.resource.kubernetes.io/gpu.example.com",))
)


def plan(allocation: Allocation | None = ALLOCATED.allocation) -> ClaimPlan:
    return ClaimPlan("n1", (PlannedClaim("team/gpu", "uid-gpu", allocation),))


def store(*objects: Any) -> DraStore:
    found = DraStore()
    for one in objects:
        found.upsert(one)
    return found


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        pytest.param(None, resource_claim(), [CLAIM], id="claim"),
        pytest.param(resource_claim(), resource_claim(), [], id="the-same-again"),
        pytest.param(resource_claim(), resource_claim(version="2"), [], id="only-a-version"),
        pytest.param(resource_claim(), ALLOCATED, [CLAIM], id="allocated"),
        pytest.param(ALLOCATED, resource_claim(version="4"), [AT_N1, CLAIM], id="deallocated"),
        pytest.param(ALLOCATED, None, [AT_N1, CLAIM], id="deleted"),
        pytest.param(None, device_class(), [ANYWHERE, OF_CLASS], id="class"),
        pytest.param(device_class(), None, [], id="class-deleted"),
        pytest.param(None, taint_rule(), [], id="rule"),
        pytest.param(taint_rule(), None, [ANYWHERE], id="rule-deleted"),
        pytest.param(resource_slice(), resource_slice("n1", "new"), [AT_N1], id="slice"),
        pytest.param(resource_slice(), None, [], id="slice-deleted"),
    ],
)
def test_a_change_wakes_those_that_it_can_help(before: Any, after: Any, expected: Any) -> None:
    state = store(resource_slice(name="other"), *([] if before is None else [before]))
    if after is None:
        assert state.delete(type(before), before.key) == expected
    else:
        assert state.upsert(after) == expected


def test_a_slice_of_several_nodes_wakes_pods_for_any_node() -> None:
    assert DraStore().upsert(resource_slice("n1", "gpu-0", allNodes=True)) == [ANYWHERE]


def test_a_device_is_in_use_from_the_placement_on() -> None:
    state = store(resource_claim(), resource_slice("n1", "gpu-0"))

    state.assume("p", plan())

    assert GPU_0 in state.in_use.dedicated
    assert state.is_being_allocated("team/gpu")


def test_a_placement_that_is_taken_back_frees_its_devices() -> None:
    state = store(resource_claim(), resource_slice("n1", "gpu-0"))
    state.assume("p", plan())

    assert state.restore("p") == [AT_N1, CLAIM]
    assert GPU_0 not in state.in_use.dedicated
    assert state.restore("p") == []


def test_an_event_of_an_earlier_write_does_not_end_the_assumption() -> None:
    state = store(resource_claim())
    state.assume("p", plan())

    state.upsert(resource_claim(version="2"))

    assert GPU_0 in state.in_use.dedicated


def test_the_written_allocation_replaces_the_assumed_one() -> None:
    state = store(resource_claim())
    state.assume("p", plan())

    state.upsert(ALLOCATED)

    assert not state.is_being_allocated("team/gpu")
    assert state.restore("p") == []
    assert state.in_use.dedicated == {GPU_0: 1}


def test_an_older_event_does_not_undo_the_answer_to_a_write() -> None:
    state = store(resource_claim(), ALLOCATED)

    assert state.upsert(resource_claim(version="2")) == []
    assert state.claim("team/gpu") == ALLOCATED


@pytest.mark.parametrize(
    "known",
    [
        pytest.param((), id="gone"),
        pytest.param((ALLOCATED,), id="allocated-meanwhile"),
    ],
)
def test_a_plan_for_a_claim_that_changed_assumes_nothing(known: tuple[Any, ...]) -> None:
    state = store(*known)

    state.assume("p", plan())

    assert not state.is_being_allocated("team/gpu")


def test_a_deleted_claim_that_comes_again_has_no_devices() -> None:
    state = store(resource_claim())
    state.assume("p", plan())

    state.delete(ResourceClaim, "team/gpu")
    state.upsert(resource_claim())

    assert state.in_use.dedicated == {}


def test_a_device_of_two_claims_is_free_when_both_are_deallocated() -> None:
    twin = resource_claim("twin", allocation=allocation_json(result_json()))
    state = store(ALLOCATED, twin)

    state.delete(ResourceClaim, twin.key)
    assert GPU_0 in state.in_use.dedicated

    state.delete(ResourceClaim, ALLOCATED.key)
    assert state.in_use.dedicated == {}


def test_shares_add_up_and_end_one_by_one() -> None:
    def share(name: str, amount: str) -> ResourceClaim:
        result = result_json(shareID=name, consumedCapacity={"memory": amount})
        return resource_claim(name, allocation=allocation_json(result))

    state = store(share("a", "1Gi"), share("b", "2Gi"))
    assert state.in_use.consumed(GPU_0) == {"memory": 3 * 2**30 * 10**9}
    assert state.in_use.dedicated == {}

    state.delete(ResourceClaim, "team/a")
    state.delete(ResourceClaim, "team/b")
    assert state.in_use.consumed(GPU_0) == {}


def test_a_pod_of_another_scheduler_uses_its_claims_until_it_is_gone() -> None:
    state = DraStore()
    theirs = pod("theirs", scheduler="other", spec=claiming("gpu"))
    mine = pod("mine", spec=claiming("gpu"))
    for one in (theirs, mine):
        state.users.add(one)

    assert state.users.of_another_scheduler("team/gpu", mine) == "theirs"
    assert state.leave(theirs) == [CLAIM]
    assert state.users.of_another_scheduler("team/gpu", mine) == ""
