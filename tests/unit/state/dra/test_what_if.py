"""A store with hypothetical allocations on top: what a decision sees, and what stays as it is."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from scheduler.model.dra.claim import ResourceClaim
from scheduler.model.dra.claim_plan import ClaimPlan, PlannedClaim
from scheduler.model.dra.device import DeviceId
from scheduler.state.dra.store import DraStore
from scheduler.state.dra.what_if import WhatIfDra
from tests.builders import pod
from tests.dra import DRIVER, allocation_json, resource_claim, resource_slice, result_json

GPU_0, GPU_1 = (DeviceId(DRIVER, "n1", f"gpu-{number}") for number in range(2))
CLAIM = resource_claim(allocation=allocation_json(result_json()))


def store() -> DraStore:
    """Two nodes with devices; a claim has the first one of n1."""
    found = DraStore()
    for one in (resource_slice("n1", "gpu-0", "gpu-1"), resource_slice("n2", "gpu-0"), CLAIM):
        found.upsert(one)
    return found


def test_devices_that_a_pod_holds_no_more_are_free_again() -> None:
    base, holder = store(), pod("holder")
    given = resource_claim("other", allocation=allocation_json(result_json("gpu-1"))).allocation
    plan = ClaimPlan("n1", (PlannedClaim("team/other", "", given),))
    view = WhatIfDra(base)

    view.give(holder, plan)
    assert view.in_use.is_whole(GPU_1)
    assert view.version("n1") is None
    assert view.version("n2") == base.version("n2")
    view.take_back(holder, plan)

    assert not view.in_use.is_whole(GPU_1)
    assert view.in_use.is_whole(GPU_0)
    assert view.version("n1") == base.version("n1")
    assert view.holders.of(GPU_1) == ()


def claim_of_share(amount: str | None) -> ResourceClaim:
    """A claim that has a share of the first device of n1, or the whole device."""
    shared: Any = {} if amount is None else {"shareID": "s", "consumedCapacity": {"mem": amount}}
    return resource_claim("share", allocation=allocation_json(result_json(**shared)))


@pytest.mark.parametrize(
    ("freed", "held", "is_changed"),
    [
        pytest.param("6", "3", True, id="smaller-share"),
        pytest.param("3", "6", True, id="larger-share"),
        pytest.param(None, "3", True, id="share-for-whole"),
        pytest.param("3", None, True, id="whole-for-share"),
        pytest.param("3", "3", False, id="equal-share"),
    ],
)
def test_device_freed_by_one_claim_and_held_by_another_is_a_change(
    freed: str | None, held: str | None, is_changed: bool
) -> None:
    base, ending = store(), claim_of_share(freed)
    base.delete(ResourceClaim, CLAIM.key)
    base.upsert(ending)
    plan = ClaimPlan("n1", (PlannedClaim("team/new", "", claim_of_share(held).allocation),))
    view = WhatIfDra(base)

    view.set_free(frozenset((ending.key,)))
    view.give(pod("holder"), plan)

    assert (view.version("n1") is None) == is_changed
    assert view.version("n2") == base.version("n2")
    view.take_back(pod("holder"), plan)
    view.set_free(frozenset())
    assert view.version("n1") == base.version("n1")


def test_a_claim_is_seen_in_its_other_state_and_keeps_its_devices() -> None:
    """The replacement of a pod gets a new claim beside the old one."""
    base = store()
    new = msgspec.structs.replace(CLAIM, allocation=None)

    view = WhatIfDra(base, (new,))

    assert view.claim(CLAIM.key) == new
    assert base.claim(CLAIM.key) == CLAIM
    assert view.in_use.is_whole(GPU_0)
    assert view.version("n1") == base.version("n1")
