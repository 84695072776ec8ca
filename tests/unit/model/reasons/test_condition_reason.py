"""The reason of the condition: one for every code, and Unschedulable only where a node helps."""

from __future__ import annotations

import pytest

from scheduler.model.reasons.condition_reason import ConditionReason
from scheduler.model.reasons.reason import Diagnosis, ImpossibleRequest, Reason, condition_reason_of
from scheduler.model.reasons.reason_code import ReasonCode, RequeueCause
from scheduler.plugins import REASON_CODES
from tests.builders import pod_json
from tests.fake_autoscalers import wants_a_node

#: Written beside a nominated node, or for a profile: no code stands for these.
BY_STATE = {ConditionReason.WAITING_FOR_CAPACITY, ConditionReason.NO_SUCH_PROFILE}


@pytest.mark.parametrize("reason", ConditionReason)
def test_other_reasons_request_no_node(reason: ConditionReason) -> None:
    """Quota and groups too."""
    condition = {"type": "PodScheduled", "status": "False", "reason": reason.value}
    read = pod_json("w", status={"conditions": [condition]})

    assert wants_a_node(read) is (reason is ConditionReason.UNSCHEDULABLE)


def test_nominated_pod_requests_no_node() -> None:
    condition = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}

    assert not wants_a_node(pod_json("w", nominated="n", status={"conditions": [condition]}))


def test_every_reason_can_be_written_and_has_a_meaning() -> None:
    given = {
        condition_reason_of([code], is_mapped=is_mapped)
        for code in REASON_CODES.values()
        for is_mapped in (False, True)
    }

    assert given | BY_STATE == set(ConditionReason)
    assert not given & BY_STATE
    assert all(reason.meaning for reason in ConditionReason)


@pytest.mark.parametrize("code", REASON_CODES.values(), ids=lambda code: code.name)
def test_only_reasons_that_a_node_lifts_request_one(code: ReasonCode) -> None:
    packed = condition_reason_of([code], is_mapped=False)

    assert condition_reason_of([code], is_mapped=True) is not ConditionReason.UNSCHEDULABLE
    if packed is ConditionReason.UNSCHEDULABLE:
        assert RequeueCause.NODE in code.lifted_by or RequeueCause.FREED in code.lifted_by
    if code.lifted_by in (
        (RequeueCause.POD,),
        (RequeueCause.NAMESPACE,),
        (RequeueCause.ADMISSION,),
        (RequeueCause.OWNER,),
    ):
        assert packed is not ConditionReason.UNSCHEDULABLE


MIXED = [
    pytest.param(
        [REASON_CODES["TAINT"], REASON_CODES["INSUFFICIENT"]],
        False,
        "Unschedulable",
        id="nodes-only",
    ),
    pytest.param(
        [REASON_CODES["NO_DEVICE_FOR_ENV"], REASON_CODES["TAINT"]],
        False,
        "Unschedulable",
        id="node-and-pod",
    ),
    pytest.param([REASON_CODES["NO_DEVICE_FOR_ENV"]], False, "NoDeviceForEnv", id="pod-only"),
    pytest.param([], False, "Unschedulable", id="no-code"),
    pytest.param(
        [REASON_CODES["NOT_IN_MAP"], REASON_CODES["INSUFFICIENT"]],
        True,
        "WaitingForMappedNode",
        id="map-full",
    ),
    pytest.param(
        [REASON_CODES["NOT_IN_MAP"], REASON_CODES["TAINT"]],
        True,
        "WaitingForMappedNode",
        id="map-taint",
    ),
    pytest.param(
        [REASON_CODES["MAP_NODE_UNKNOWN"]], True, "WaitingForMappedNode", id="map-node-to-come"
    ),
    pytest.param(
        [REASON_CODES["NOT_IN_MAP"], REASON_CODES["DEVICE_NOT_FOUND"]],
        True,
        "DeviceNotFound",
        id="map-gpu",
    ),
    pytest.param(
        [REASON_CODES["NO_DEVICE_FOR_ENV"], REASON_CODES["NOT_IN_MAP"]],
        True,
        "NoDeviceForEnv",
        id="map-env",
    ),
]


@pytest.mark.parametrize(("codes", "is_mapped", "reason"), MIXED)
def test_several_codes_give_one_reason(
    codes: list[ReasonCode], is_mapped: bool, reason: str
) -> None:
    assert condition_reason_of(codes, is_mapped=is_mapped) == reason
    assert condition_reason_of(reversed(codes), is_mapped=is_mapped) == reason


def test_a_larger_node_may_exist_elsewhere_and_a_profile_may_not() -> None:
    no = Reason(
        code=REASON_CODES["INSUFFICIENT"], text="Insufficient x", resource="x", need=9, have=8
    )
    full = Diagnosis(total=1, nodes={"n": (no,)})

    larger, absent = (
        full.with_impossible(ImpossibleRequest("asks for 9")),
        full.with_impossible(ImpossibleRequest("no GPU", True)),
    )

    assert full.condition_reason(is_mapped=False) == "Unschedulable"
    assert larger.condition_reason(is_mapped=False) == "Unschedulable"
    assert absent.condition_reason(is_mapped=False) == "NoSuchProfile"
