"""An allocation ends with the last pod that uses its claim."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from scheduler.model.dra.claim import ClaimConsumer
from scheduler.model.dra.claim_plan import ClaimPlan, NewClaim
from scheduler.model.dra.extended_resources import ExtendedRequests
from scheduler.model.gpu.device import Devices
from scheduler.state.cache.cluster import Assumption, Cluster
from scheduler.state.dra.ended_claims import ClaimUse
from tests.builders import cluster, node, pod
from tests.dra import (
    allocation_json,
    claiming,
    resource_claim,
    resource_slice,
    result_json,
)

GIVEN = allocation_json(result_json())
LOW = pod("low", node="n1", spec=claiming("gpu"))
BASE = (node("n1"), resource_slice("n1", "gpu-0"))


def use(state: Cluster) -> ClaimUse:
    return ClaimUse(state.dra, state.pods, state.assumed)


def claim(*users: str, **more: Any) -> Any:
    return resource_claim(allocation=GIVEN, users=users, **more)


JOB = ("batch/v1", "Job")
POD_X = ("example.com/v1", "Pod")
OTHER = pod("other", node="n1", spec=claiming("gpu"))
WAITS = pod("waits", spec=claiming("gpu"))
UNNAMED = pod("unnamed", node="n1")


@pytest.mark.parametrize(
    ("claim", "pods", "ends"),
    [
        pytest.param(claim("low"), [], True, id="its-only-user"),
        pytest.param(claim("low", "other"), [OTHER], False, id="another-user"),
        pytest.param(claim("low"), [OTHER], False, id="another-pod-with-a-node"),
        pytest.param(claim("low"), [WAITS], True, id="a-pod-that-waits"),
        pytest.param(claim("low", "waits"), [WAITS], False, id="a-pod-that-waits-and-reserved-it"),
        pytest.param(claim("low", "unnamed"), [UNNAMED], False, id="a-user-that-does-not-name-it"),
        pytest.param(claim("low", "former"), [], True, id="a-user-that-has-ended"),
        pytest.param(claim(), [], False, id="reserved-by-none"),
        pytest.param(claim(deleting=True), [], True, id="being-deleted"),
        pytest.param(claim(owner="team-low"), [], True, id="created-for-it"),
        pytest.param(claim(owner="team-former"), [], True, id="created-for-a-pod-that-has-ended"),
        pytest.param(claim(owner="team-other"), [OTHER], False, id="created-for-another-pod"),
        pytest.param(claim(owner="j", owner_type=JOB), [], False, id="controlled-by-a-job"),
        pytest.param(claim(owner="x", owner_type=POD_X), [], False, id="a-custom-pod"),
    ],
)
def test_when_the_claim_of_a_pod_is_deallocated(claim: Any, pods: list[Any], ends: bool) -> None:
    state = cluster(*BASE, LOW, claim, *pods)

    assert use(state).ends("team/gpu", {LOW.uid}) is ends
    assert not use(state).ends("team/gpu"), "the pod lives"


def test_a_consumer_that_is_no_pod_keeps_the_claim() -> None:
    train = ClaimConsumer("t", "t", resource="trains")
    reserved = msgspec.structs.replace(claim("low"), reserved_for=(ClaimConsumer(LOW.uid), train))
    state = cluster(*BASE, LOW, reserved)

    assert not use(state).ends("team/gpu", {LOW.uid})


def test_a_pod_on_its_way_to_a_node_keeps_the_claim() -> None:
    """It has not reserved it yet."""
    state = cluster(*BASE, LOW, claim("low"), WAITS)
    state.assume(WAITS, Assumption("n1", Devices()))

    assert not use(state).ends("team/gpu", {LOW.uid})
    assert use(state).ends("team/gpu", {LOW.uid, WAITS.uid})


def test_a_claim_that_is_to_be_created_ends_with_its_placement() -> None:
    newcomer = pod("p", requests={"example.com/gpu": 1})
    allocation = claim().allocation
    plan = ClaimPlan("n1", (), NewClaim(ExtendedRequests(), allocation))
    state = cluster(*BASE, newcomer)
    state.assume(newcomer, Assumption("n1", Devices(), claims=plan))
    [key] = state.dra.keys_of(newcomer)

    assert not use(state).ends(key)
    assert use(state).ends(key, {newcomer.uid})


def test_claims_are_found_by_the_devices_of_a_node() -> None:
    elsewhere = allocation_json(result_json("gpu-0", "n2"), node="n2")
    state = cluster(
        *(*BASE, LOW, claim("low"), resource_slice("n2", "gpu-0"), node("n2")),
        resource_claim("far", allocation=elsewhere, users=["low"]),
    )
    [there] = [one.node for one in state.candidates() if one.node and one.node.name == "n1"]

    assert list(use(state).at(there)) == ["team/gpu"]
