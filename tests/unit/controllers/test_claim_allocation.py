"""Placements that wait for ResourceClaims: what is written, and when they are bound."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from scheduler.controllers.claim_allocation import TIMEOUT_S
from scheduler.model.actions import (
    RecordWaiting,
    ReleaseClaims,
    ReserveClaim,
    ReserveClaims,
)
from scheduler.model.dra.allocation import Allocation
from scheduler.model.dra.claim import ResourceClaim
from scheduler.state import event as ev
from scheduler.state.effects import NOTHING
from tests.dra import DRIVER, FINALIZER, resource_claim, result_json
from tests.unit.controllers.claim_stage import (
    DONE,
    REF,
    RELEASE,
    TIME,
    UID,
    USER,
    WAITS,
    Stage,
    allocation,
    failure,
    reserved,
)


def test_claim_is_allocated_and_reserved_before_the_binding() -> None:
    stage = Stage()

    written = allocation(allocationTimestamp=TIME)
    claim = ReserveClaim("team", "gpu", "uid-gpu", "1", written)
    assert stage.begin(allocation()) == (ReserveClaims(UID, "p", 1, (claim,)),)
    assert stage.answer(reserved()) == DONE
    assert stage.counted() == {"reserved": 1}


def test_allocated_claim_is_reserved_as_it_is() -> None:
    claim = reserved(users=["other"], version="4")
    stage = Stage(claim)

    assert claim.allocation is not None
    assert stage.begin() == (
        ReserveClaims(
            *(UID, "p", 1),
            (
                ReserveClaim(
                    *("team", "gpu", "uid-gpu", "4", claim.allocation),
                    is_allocated=True,
                    finalizers=(FINALIZER,),
                ),
            ),
        ),
    )
    assert stage.answer(reserved(users=["other", "p"], version="5")) == DONE


@pytest.mark.parametrize("claim", [resource_claim(), reserved()], ids=["free", "reserved"])
def test_binding_waits_for_the_answer_to_the_write(claim: ResourceClaim) -> None:
    stage = Stage(claim)
    stage.begin(allocation() if claim.allocation is None else None)

    assert stage.tick() == NOTHING
    assert stage.see(ev.PodUpdated(USER)) == NOTHING


def test_claim_that_is_reserved_already_is_written_again() -> None:
    """A release of the same reservation may not be seen yet."""
    (action,) = Stage(reserved()).begin()

    assert isinstance(action, ReserveClaims)
    assert action.claims[0].is_allocated


def test_each_share_of_a_device_gets_its_own_id() -> None:
    shared = [result_json(f"gpu-{number}", consumedCapacity={"m": "1"}) for number in range(2)]

    (action,) = Stage().begin(allocation(*shared, result_json("gpu-9")))

    assert isinstance(action, ReserveClaims)
    ids = [one.share_id for one in action.claims[0].allocation.results]
    assert ids == ["share-0", "share-1", ""]


@pytest.mark.parametrize(
    ("claim", "given", "problem"),
    [
        pytest.param(resource_claim("other"), allocation(), "claim team/gpu is gone", id="gone"),
        pytest.param(
            msgspec.structs.replace(resource_claim(), uid="another"),
            allocation(),
            "claim team/gpu is gone",
            id="replaced",
        ),
        pytest.param(resource_claim(), None, "claim team/gpu was deallocated", id="deallocated"),
    ],
)
def test_claim_that_changed_since_the_decision_is_not_written(
    claim: ResourceClaim, given: Allocation | None, problem: str
) -> None:
    stage = Stage(claim)

    effects = stage.begin(given)

    assert failure(effects) == f"{problem} (node n1)"
    assert not [one for one in effects if isinstance(one, ReserveClaims | ReleaseClaims)]
    assert stage.cluster.assumed == {}


def test_failed_write_releases_the_claims_and_requeues_the_pod() -> None:
    stage = Stage()
    stage.begin(allocation())

    effects = stage.answer(problem="claim team/gpu: conflict")

    assert failure(effects) == "claim team/gpu: conflict (node n1)"
    assert effects[0] == RELEASE
    assert not stage.cluster.dra.is_being_allocated("team/gpu")
    assert stage.counted() == {"refused": 1}


def test_answer_to_an_earlier_attempt_is_ignored() -> None:
    stage = Stage()
    stage.begin(allocation())

    assert stage.answer(problem="x", attempt=7) == NOTHING


# --- binding conditions ----------------------------------------------------------------------


def told(**conditions: str) -> Any:
    found = [{"type": name, "status": status} for name, status in conditions.items()]
    return {"driver": DRIVER, "pool": "n1", "device": "gpu-0", "conditions": found}


def test_binding_waits_until_every_condition_is_true() -> None:
    stage = Stage()
    stage.begin(allocation(WAITS))

    (waits,) = stage.answer(reserved(WAITS))
    assert waits == RecordWaiting(
        USER, f"waits for condition Ready of device {DRIVER}/n1/gpu-0 on node n1", "n1"
    )
    assert stage.see(reserved(WAITS, version="4", devices=[told(Ready="False")])) == NOTHING
    assert stage.tick() == NOTHING
    assert stage.see(reserved(WAITS, version="5", devices=[told(Ready="True")])) == DONE


def test_conditions_do_not_count_before_the_claim_is_reserved() -> None:
    stage = Stage()
    stage.begin(allocation(WAITS))

    assert stage.see(reserved(WAITS, version="5", devices=[told(Ready="True")])) == NOTHING


def test_failed_device_is_deallocated_and_the_pod_is_decided_again() -> None:
    stage = Stage()
    stage.begin(allocation(WAITS))
    stage.answer(reserved(WAITS))

    effects = stage.see(reserved(WAITS, version="4", devices=[told(Failed="True")]))

    assert effects[0] == ReleaseClaims(UID, (REF,), deallocate=True)
    assert failure(effects) == (
        f"claim team/gpu: device {DRIVER}/n1/gpu-0 has the condition Failed (node n1)"
    )
    assert stage.counted() == {"failed": 1}


def test_device_that_is_not_ready_in_time_is_deallocated() -> None:
    stage = Stage()
    stage.begin(allocation(WAITS))
    stage.answer(reserved(WAITS))

    assert stage.tick(TIMEOUT_S - 1) == NOTHING
    effects = stage.tick(2)

    assert effects[0] == ReleaseClaims(UID, (REF,), deallocate=True)
    text = f"not ready within 600 s: condition Ready of device {DRIVER}/n1/gpu-0 (node n1)"
    assert failure(effects) == text
    assert stage.counted() == {"timeout": 1}


def test_time_that_a_former_leader_waited_counts() -> None:
    """The time of the allocation is in the claim."""
    stage = Stage(reserved(WAITS))
    stage.wall += TIMEOUT_S - 1
    stage.begin()

    stage.answer(reserved(WAITS, version="4"))
    assert "not ready within" in failure(stage.tick(2))


def test_claim_deallocated_during_the_wait_ends_it() -> None:
    stage = Stage()
    stage.begin(allocation(WAITS))
    stage.answer(reserved(WAITS))

    assert failure(stage.see(resource_claim(version="9"))) == (
        "claim team/gpu was deallocated (node n1)"
    )


def test_node_deleted_during_the_wait_ends_it() -> None:
    stage = Stage()
    stage.begin(allocation(WAITS))
    stage.answer(reserved(WAITS))

    effects = stage.see(ev.NodeDeleted("n1")) + stage.tick()

    assert failure(effects) == "node n1 is gone (node n1)"
    assert RELEASE in effects
