"""What becomes of the ResourceClaims of a placement that ends."""

from __future__ import annotations

import msgspec
import pytest

from scheduler.controllers.claim_allocation import TIMEOUT_S
from scheduler.decide.schedule_one import schedule_one
from scheduler.framework.decision import Rejection
from scheduler.model.actions import (
    DropPlacement,
    ReleaseClaims,
)
from scheduler.model.dra.claim import ResourceClaim
from scheduler.state import event as ev
from scheduler.state.effects import NOTHING
from tests.builders import ALLOW_ALL_MAPS
from tests.dra import allocation_json, device_class, resource_claim, resource_slice, result_json
from tests.unit.controllers.claim_stage import (
    DEALLOCATE,
    REF,
    RELEASE,
    UID,
    USER,
    WAITS,
    Stage,
    allocation,
    failure,
    reserved,
)


@pytest.mark.parametrize("is_written", [False, True], ids=["in-flight", "written"])
def test_deleted_pod_releases_its_claims(is_written: bool) -> None:
    stage = Stage()
    stage.begin(allocation())
    if is_written:
        stage.answer(reserved())

    effects = stage.see(ev.PodDeleted(UID))

    assert RELEASE in effects
    assert (DropPlacement(UID) in effects) is not is_written
    assert stage.tick() == NOTHING


def test_pod_being_deleted_is_not_bound() -> None:
    stage = Stage()
    stage.begin(allocation(WAITS))
    stage.answer(reserved(WAITS))

    effects = stage.see(ev.PodUpdated(msgspec.structs.replace(USER, is_deleting=True)))

    assert effects[0] == RELEASE
    assert DropPlacement(UID) in effects


@pytest.mark.parametrize(
    ("outcome", "is_released"),
    [
        pytest.param(ev.BindOutcome.BOUND, False, id="bound"),
        *(
            pytest.param(one, True, id=one.value)
            for one in ev.BindOutcome
            if one is not ev.BindOutcome.BOUND
        ),
    ],
)
def test_failed_binding_releases_the_claims(outcome: ev.BindOutcome, is_released: bool) -> None:
    """Case 60."""
    stage = Stage()
    stage.begin(allocation())
    stage.answer(reserved())

    effects = stage.see(ev.BindEnded(UID, outcome, "no"))

    assert effects == ((RELEASE,) if is_released else NOTHING)


def test_bound_pod_keeps_its_claims() -> None:
    stage = Stage()
    stage.begin(allocation())
    stage.answer(reserved())

    stage.see(ev.BindEnded(UID, ev.BindOutcome.BOUND))
    bound = msgspec.structs.replace(USER, node_name="n1")

    assert stage.see(ev.PodUpdated(bound)) == NOTHING
    assert stage.see(ev.PodDeleted(UID)) == NOTHING
    assert stage.tick() == NOTHING


def test_placement_that_another_step_ended_releases_the_claims() -> None:
    stage = Stage()
    stage.begin(allocation())
    stage.answer(reserved())
    stage.cluster.forget(UID)

    assert stage.tick() == (RELEASE,)


def test_preempted_placement_deallocates_the_claims() -> None:
    """The preemptor waits for the devices, not only for the reservation."""
    stage = Stage()
    stage.begin(allocation(WAITS))
    stage.answer(reserved(WAITS))

    effects = stage.controller.reject(UID, stage.now)

    assert effects is not None
    assert DEALLOCATE in effects
    assert stage.controller.reject("other", stage.now) is None
    assert stage.use().ends("team/gpu")
    stage.see(ev.ClaimsReleased(UID, (reserved(WAITS),)))
    assert not stage.use().ends("team/gpu"), "the API server did not carry it out"


def test_preemption_of_a_cancelled_placement_deallocates_its_claims() -> None:
    stage = Stage()
    stage.begin(allocation())
    stage.answer(reserved())
    stage.cluster.give_up(UID)

    assert stage.controller.reject(UID, stage.now) == (DEALLOCATE,)


def test_devices_of_a_failed_placement_are_in_use_until_released() -> None:
    """The pod does not use the claim meanwhile, and a preemptor needs no victim for the devices."""
    stage = Stage()
    stage.begin(allocation(WAITS))
    stage.answer(reserved(WAITS))

    effects = stage.tick(TIMEOUT_S)

    assert DEALLOCATE in effects
    assert len(stage.cluster.dra.in_use.dedicated) == 1, "not free before the answer"
    assert stage.use().ends("team/gpu")
    decision = schedule_one(stage.cluster, USER, ALLOW_ALL_MAPS)
    assert isinstance(decision, Rejection)
    assert "in the process of being deallocated" in str(decision.diagnosis.general)
    stage.see(ev.ClaimsReleased(UID, (resource_claim(version="9"),)))
    assert stage.cluster.dra.in_use.dedicated == {}


def test_placement_whose_binding_is_sent_is_not_cancelled() -> None:
    stage = Stage()
    stage.begin(allocation())
    stage.answer(reserved())

    assert stage.controller.reject(UID, stage.now) is None


def test_allocation_that_no_node_can_use_is_deallocated_once() -> None:
    elsewhere = allocation_json(result_json(node="n9"), node="n9")
    claim = resource_claim(allocation=elsewhere)
    stage = Stage(device_class(), resource_slice("n1", "gpu-0"), claim)
    stage.cluster.upsert_pod(USER)

    def decided() -> Rejection:
        decision = schedule_one(stage.cluster, USER, ALLOW_ALL_MAPS)
        assert isinstance(decision, Rejection)
        return decision

    assert stage.controller.deallocate(decided()) == (DEALLOCATE,)
    assert decided().deallocates is None, "it is requested already"
    stage.see(ev.ClaimsReleased(UID))
    assert decided().deallocates == REF, "the API server did not carry it out"


def test_former_leader_writes_nothing_more() -> None:
    """The next leader finds the claim reserved, and goes on from there."""
    stage = Stage()
    stage.begin(allocation(WAITS))
    stage.answer(reserved(WAITS))

    effects = stage.tick(leads=False)

    assert DropPlacement(UID) in effects
    assert not [one for one in effects if isinstance(one, ReleaseClaims)]
    assert stage.tick() == NOTHING


def test_unsent_write_gives_the_placement_up() -> None:
    stage = Stage()
    stage.begin(allocation())

    effects = stage.see(ev.ClaimsReserved(UID, 1, is_unsent=True))

    assert ev.PodPending(USER) in effects
    assert stage.counted() == {}


def test_answer_about_a_deleted_claim_leaves_it_deleted() -> None:
    """Its devices would stay in use until the next list."""
    stage = Stage()
    stage.begin(allocation())
    stage.see(ev.DraDeleted(ResourceClaim, "team/gpu"))

    effects = stage.answer(reserved())

    assert stage.cluster.dra.claim("team/gpu") is None
    assert "was deallocated" in failure(effects)


def test_devices_stay_in_use_until_the_write_is_answered() -> None:
    """The API server may still carry it out, whatever became of the pod."""
    stage = Stage()
    stage.begin(allocation())
    stage.see(ev.PodDeleted(UID))

    assert stage.cluster.dra.is_being_allocated("team/gpu")
    assert len(stage.cluster.dra.in_use.dedicated) == 1
    stage.answer(problem="no answer")

    assert not stage.cluster.dra.is_being_allocated("team/gpu")
    assert stage.cluster.dra.in_use.dedicated == {}


def test_devices_of_a_write_that_was_carried_out_stay_in_use() -> None:
    stage = Stage()
    stage.begin(allocation())
    stage.see(ev.PodDeleted(UID))

    stage.answer(reserved())

    assert len(stage.cluster.dra.in_use.dedicated) == 1
    stage.see(ev.ClaimsReleased(UID, (resource_claim(version="9"),)))
    assert stage.cluster.dra.in_use.dedicated == {}
