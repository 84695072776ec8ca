"""The reason of the condition: one for every code, and Unschedulable only where a node helps."""

from __future__ import annotations

import pytest

from scheduler.model.condition_reason import ROWS, ConditionReason, reason_for, reason_of
from scheduler.model.reason import Diagnosis, Never, Reason
from scheduler.model.reason_code import ReasonCode, RequeueCause
from tests.autoscalers import wants_a_node
from tests.builders import pod_json

OURS = {ConditionReason.QUOTA_EXCEEDED, ConditionReason.WAITING_FOR_GROUP}
#: Written beside a nominated node, or for a profile: no code stands for these.
BY_STATE = {ConditionReason.WAITING_FOR_CAPACITY, ConditionReason.NO_SUCH_PROFILE}


def test_every_code_has_a_row() -> None:
    assert set(ROWS) == set(ReasonCode)


@pytest.mark.parametrize("reason", ConditionReason)
def test_no_other_reason_is_a_wish_for_nodes(reason: ConditionReason) -> None:
    """Quota and groups too: their reasons are reserved."""
    condition = {"type": "PodScheduled", "status": "False", "reason": reason.value}
    read = pod_json("w", status={"conditions": [condition]})

    assert wants_a_node(read) is (reason is ConditionReason.UNSCHEDULABLE)


def test_a_nominated_pod_is_no_wish_whatever_its_reason() -> None:
    condition = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}

    assert not wants_a_node(pod_json("w", nominated="n", status={"conditions": [condition]}))


def test_every_reason_can_be_written_or_is_reserved_and_has_a_meaning() -> None:
    given = {reason for row in ROWS.values() for reason in (row.packed, row.mapped)}

    assert given | OURS | BY_STATE == set(ConditionReason)
    assert not given & (OURS | BY_STATE)
    assert all(reason.meaning for reason in ConditionReason)


@pytest.mark.parametrize("code", ReasonCode, ids=lambda code: code.name)
def test_only_what_a_node_can_lift_is_a_wish_for_nodes(code: ReasonCode) -> None:
    row = ROWS[code]

    assert row.mapped is not ConditionReason.UNSCHEDULABLE
    if row.packed is ConditionReason.UNSCHEDULABLE:
        assert RequeueCause.NODE in code.causes or RequeueCause.FREED in code.causes
    if code.causes in (
        (RequeueCause.POD,),
        (RequeueCause.NAMESPACE,),
        (RequeueCause.ADMISSION,),
        (RequeueCause.OWNER,),
    ):
        assert row.packed is not ConditionReason.UNSCHEDULABLE


MIXED = [
    pytest.param(
        [ReasonCode.TAINT, ReasonCode.INSUFFICIENT], False, "Unschedulable", id="nodes-only"
    ),
    pytest.param(
        [ReasonCode.NO_VALUE_FOR_ENV, ReasonCode.TAINT], False, "Unschedulable", id="node-and-pod"
    ),
    pytest.param([ReasonCode.NO_VALUE_FOR_ENV], False, "NoDevicesToRead", id="pod-only"),
    pytest.param([], False, "Unschedulable", id="no-code"),
    pytest.param(
        [ReasonCode.NOT_IN_MAP, ReasonCode.INSUFFICIENT],
        True,
        "WaitingForMappedNode",
        id="map-full",
    ),
    pytest.param(
        [ReasonCode.NOT_IN_MAP, ReasonCode.TAINT], True, "WaitingForMappedNode", id="map-taint"
    ),
    pytest.param(
        [ReasonCode.MAP_NODE_UNKNOWN], True, "WaitingForMappedNode", id="map-node-to-come"
    ),
    pytest.param(
        [ReasonCode.NOT_IN_MAP, ReasonCode.DEVICE_NOT_FOUND], True, "DeviceNotFound", id="map-gpu"
    ),
    pytest.param(
        [ReasonCode.NO_VALUE_FOR_ENV, ReasonCode.NOT_IN_MAP], True, "NoDevicesToRead", id="map-env"
    ),
]


@pytest.mark.parametrize(("codes", "is_mapped", "reason"), MIXED)
def test_several_codes_give_one_reason(
    codes: list[ReasonCode], is_mapped: bool, reason: str
) -> None:
    assert reason_of(codes, is_mapped=is_mapped) == reason
    assert reason_of(reversed(codes), is_mapped=is_mapped) == reason


def test_a_larger_node_may_exist_elsewhere_and_a_profile_may_not() -> None:
    no = Reason(code=ReasonCode.INSUFFICIENT, text="Insufficient x", resource="x", need=9, have=8)
    full = Diagnosis(total=1, nodes={"n": (no,)})

    larger, absent = full.with_never(Never("asks for 9")), full.with_never(Never("no GPU", True))

    assert reason_for(full, is_mapped=False) == "Unschedulable"
    assert reason_for(larger, is_mapped=False) == "Unschedulable"
    assert reason_for(absent, is_mapped=False) == "NoSuchProfile"
