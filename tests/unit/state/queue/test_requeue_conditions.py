"""What a refused pod waits for, and which changes requeue it."""

from __future__ import annotations

import pytest

from scheduler.model.reasons.reason import Diagnosis, Reason, RequeueCause
from scheduler.plugins import REASON_CODES
from scheduler.state.event import ClusterEvent
from scheduler.state.queue.requeue_conditions import (
    ANYTHING,
    RequeueCondition,
    RequeueIndex,
    requeue_condition,
)
from tests.builders import GPU, MIG_2G

CPU = Reason(code=REASON_CODES["INSUFFICIENT"], text="Insufficient cpu", resource="cpu", need=2)
TIER = Reason(code=REASON_CODES["INSUFFICIENT"], text="Insufficient tier", resource=MIG_2G, need=1)
PORTS = Reason(code=REASON_CODES["PORTS"], text="ports")
FULL = Reason(code=REASON_CODES["TOO_MANY_PODS"], text="full")
TAINT = Reason(code=REASON_CODES["TAINT"], text="taint")
NUMBERS = Reason(code=REASON_CODES["DEVICE_ASSIGNMENT_UNKNOWN"], text="unknown")

FREES = [
    pytest.param([(TIER,)], {MIG_2G}, id="one-resource"),
    pytest.param([(TIER, CPU), (TAINT,)], {MIG_2G, "cpu"}, id="either-of-two"),
    pytest.param([(FULL,)], {"pods"}, id="a-place"),
    pytest.param([(TIER,), (PORTS,)], {MIG_2G, ANYTHING}, id="a-port-is-no-resource"),
    pytest.param([(NUMBERS,)], {ANYTHING}, id="unknown-numbers"),
    pytest.param([(TAINT,)], set(), id="nothing-that-a-pod-holds"),
]


@pytest.mark.parametrize(("rows", "frees"), FREES)
def test_resources_that_must_become_free(rows: list[tuple[Reason, ...]], frees: set[str]) -> None:
    nodes = {f"n{at}": reasons for at, reasons in enumerate(rows)}

    assert requeue_condition(Diagnosis(total=len(nodes), nodes=nodes)).frees == frees


def test_pod_level_reason_waits_for_the_pod() -> None:
    general = requeue_condition(
        Diagnosis(total=1, general=Reason(code=REASON_CODES["INDEX_HELD"], text="x"))
    )

    assert (general.is_alone, general.causes) == (True, frozenset((RequeueCause.OWNER,)))


def test_refusal_without_reason_waits_for_nodes_and_the_pod() -> None:
    assert requeue_condition(Diagnosis(total=0)).causes == {RequeueCause.NODE, RequeueCause.POD}


HEARD = [
    pytest.param(
        ClusterEvent(RequeueCause.FREED, what=frozenset(("cpu",))), [], id="cpu-is-not-the-tier"
    ),
    pytest.param(
        ClusterEvent(RequeueCause.FREED, what=frozenset((MIG_2G,))), ["tier"], id="the-tier"
    ),
    pytest.param(
        ClusterEvent(RequeueCause.FREED, what=frozenset((GPU, MIG_2G))), ["tier"], id="among-others"
    ),
    pytest.param(ClusterEvent(RequeueCause.FREED), ["tier"], id="whatever-it-was"),
    pytest.param(ClusterEvent(RequeueCause.NODE, node_name="n1"), ["tier", "label"], id="a-node"),
    pytest.param(ClusterEvent(RequeueCause.OWNER, "x"), [], id="unmatched-cause"),
]


@pytest.mark.parametrize(("change", "heard"), HEARD)
def test_pods_requeued_by_each_change(change: ClusterEvent, heard: list[str]) -> None:
    """Freed cpu does not requeue a pod that lacks a MIG slice."""
    listeners = RequeueIndex()
    tier = RequeueCondition(
        frozenset((RequeueCause.FREED, RequeueCause.NODE)), frees=frozenset((MIG_2G,))
    )
    listeners.add(("tier", 0, "team"), tier)
    listeners.add(
        ("label", 0, "team"), RequeueCondition(frozenset((RequeueCause.NODE, RequeueCause.POD)))
    )

    assert [key[0] for key in listeners.of(change)] == heard


def test_removed_pod_is_not_remembered() -> None:
    listeners = RequeueIndex()
    reason = RequeueCondition(
        frozenset((RequeueCause.FREED, RequeueCause.NODE)), frees=frozenset((MIG_2G, GPU))
    )
    for number in range(3):
        listeners.add((number, 0, "team"), reason)
    for number in range(3):
        listeners.discard((number, 0, "team"), reason)

    assert len(listeners) == 0
