"""The claim for a pod's extended resources, from the placement to the Binding."""

from __future__ import annotations

from typing import Any

import pytest

from scheduler.framework.decision import AllocateClaims, PendingPlacement
from scheduler.model.actions import (
    CompleteStep,
    CreatedClaim,
    DropPlacement,
    ReleaseClaims,
    ReserveClaims,
)
from scheduler.model.dra.claim import ResourceClaim
from scheduler.state import event as ev
from scheduler.state.cache.cluster import Assumption
from scheduler.state.effects import Effects
from tests.builders import GPU, codes, placed, pod
from tests.dra import (
    CLASS,
    allocation_json,
    device_class,
    resource_claim,
    resource_slice,
    result_json,
)
from tests.unit.controllers.claim_stage import UID, Stage, failure

USER = pod("p", gpus=1)
NAME = "p-extended-resources-share"
CREATED = CreatedClaim("team", NAME, "p")
DELETE = ReleaseClaims(UID, (), created=CREATED)
DONE = (CompleteStep(UID, AllocateClaims.name),)


def created(version: str = "2", name: str = NAME, **more: Any) -> ResourceClaim:
    """The claim as the API server has it."""
    more.setdefault("allocation", allocation_json(result_json(request="container-0-request-0")))
    found: ResourceClaim = resource_claim(
        name, version=version, owner=UID, extended=True, users=["p"], **more
    )
    return found


@pytest.fixture
def stage() -> Stage:
    """A node with one device for ``nvidia.com/gpu``."""
    every = device_class(CLASS, f"device.driver == '{CLASS}'", extendedResourceName=GPU)
    one = Stage()
    one.see(every, resource_slice("n1", "gpu-0"))
    return one


def begin(stage: Stage) -> Effects:
    """Decide and assume the placement, as the loop does."""
    stage.cluster.upsert_pod(USER)
    found = placed(stage.cluster, USER)
    assert isinstance(found, PendingPlacement)
    stage.cluster.assume(USER, Assumption("n1", found.devices, claims=found.claims))
    return stage.controller.begin(found, stage.now)


def is_free(stage: Stage) -> bool:
    """Whether another pod could have the device."""
    node_info = stage.cluster.at("n1")
    assert node_info is not None
    return node_info.free(GPU) == 1


def test_claim_is_created_with_what_was_decided(stage: Stage) -> None:
    (reserve,) = begin(stage)

    assert isinstance(reserve, ReserveClaims)
    assert reserve.claims == ()
    assert reserve.extended is not None
    assert reserve.extended.key == f"team/{NAME}"
    assert [one.name for one in reserve.extended.asked.requests] == ["container-0-request-0"]
    [device] = reserve.extended.allocation.results
    assert device.device == "gpu-0"


@pytest.mark.parametrize("is_seen", [False, True], ids=["answer-first", "watch-first"])
def test_binding_follows_the_answer_in_any_order(stage: Stage, is_seen: bool) -> None:
    begin(stage)
    if is_seen:
        assert stage.see(created()) == ()

    assert stage.answer(created()) == DONE
    assert not is_free(stage)
    assert stage.see(created("3")) == ()
    assert not is_free(stage)


def test_late_events_of_the_creation_end_no_wait(stage: Stage) -> None:
    """The answer came first, and a device is not ready yet."""
    waits = allocation_json(
        result_json(request="container-0-request-0", bindingConditions=["Ready"])
    )
    begin(stage)
    stage.answer(created("3", allocation=waits))

    assert not [one for one in stage.see(created("1", allocation=None)) if one in DONE]
    assert stage.cluster.assumed
    stage.see(created("3", allocation=waits))
    assert stage.cluster.assumed
    stage.see(created("4", allocation=None))
    assert not stage.cluster.assumed


def test_refused_write_deletes_the_claim(stage: Stage) -> None:
    begin(stage)

    effects = stage.answer(problem="claim team/x: no")

    assert effects[0] == DELETE
    assert failure(effects).startswith("claim team/x: no")
    assert is_free(stage)


def test_failed_binding_deletes_the_claim(stage: Stage) -> None:
    begin(stage)
    stage.see(created())
    stage.answer(created())

    assert DELETE in stage.see(ev.BindEnded(UID, ev.BindOutcome.REFUSED, "no"))
    assert not is_free(stage)
    stage.see(ev.DraDeleted(ResourceClaim, f"team/{NAME}"))
    assert is_free(stage)


def test_pod_deleted_before_the_answer_keeps_its_device_until_then(stage: Stage) -> None:
    """The API server may still create and allocate the claim."""
    begin(stage)

    effects = stage.see(ev.PodDeleted(UID))

    assert DELETE in effects
    assert DropPlacement(UID) in effects
    assert not is_free(stage)
    stage.answer(problem="pods p not found")
    assert is_free(stage)


def test_second_attempt_outlives_the_answer_to_the_first(stage: Stage) -> None:
    begin(stage)
    stage.see(ev.PodDeleted(UID))
    stage.answer(problem="gone")
    begin(stage)

    assert not is_free(stage)
    assert stage.answer(created(), attempt=2) == DONE


def test_bound_pod_keeps_its_claim(stage: Stage) -> None:
    begin(stage)
    stage.answer(created())
    stage.see(created())

    stage.see(ev.PodUpdated(pod("p", gpus=1, node="n1")))

    assert stage.see(ev.PodDeleted(UID)) == ()
    assert stage.tick() == ()


def test_claim_of_an_earlier_attempt_is_deleted_on_sight(stage: Stage) -> None:
    stage.cluster.upsert_pod(USER)
    stage.see(created(name="left"))
    assert codes(stage.cluster, USER)

    asked = ReleaseClaims(UID, (), created=CreatedClaim("team", "left", "p"))
    assert stage.tick() == (asked,)
    assert stage.tick() == ()
    assert stage.tick(60.0) == (asked,)
    stage.see(ev.DraDeleted(ResourceClaim, "team/left"))
    assert stage.tick(60.0) == ()
    assert is_free(stage)


def test_claim_of_a_former_attempt_is_deleted_before_the_next(stage: Stage) -> None:
    stage.see(created(name="left", allocation=None))

    former, reserve = begin(stage)

    assert former == ReleaseClaims(UID, (), created=CreatedClaim("team", "left", "p"))
    assert isinstance(reserve, ReserveClaims)


@pytest.mark.parametrize(
    "other",
    [
        pytest.param(pod("p", gpus=1, node="n1"), id="bound"),
        pytest.param(pod("p", gpus=1, scheduler="default-scheduler"), id="of-another-scheduler"),
    ],
)
def test_claims_of_other_pods_are_left_alone(stage: Stage, other: Any) -> None:
    stage.cluster.upsert_pod(other)
    stage.see(created())

    assert stage.tick() == ()


def test_former_leader_deletes_nothing(stage: Stage) -> None:
    stage.cluster.upsert_pod(USER)
    stage.see(created())

    assert stage.tick(leads=False) == ()


def test_claim_with_a_device_of_another_claim_is_deleted(stage: Stage) -> None:
    begin(stage)
    stage.answer(created("4"), is_seen=False)
    stage.see(resource_claim("theirs", version="3", allocation=allocation_json(result_json())))

    effects = stage.see(created("4"))

    assert "device gpu.example.com/n1/gpu-0 is also allocated to claim team/theirs" in failure(
        effects
    )
    assert ReleaseClaims(UID, (), deallocate=True, created=CREATED) in effects
