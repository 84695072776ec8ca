"""A preemptor between the end of its victims and that of their claims."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from scheduler.decide.explain import explain_preemption
from scheduler.decide.schedule_one import schedule_one
from scheduler.framework.decision import Placement
from scheduler.model.dra.claim import ResourceClaim
from scheduler.model.reasons.reason import sentence
from scheduler.state.cache.cluster import Cluster
from scheduler.state.event import Change, ClusterEvent
from scheduler.state.queue.requeue_conditions import requeue_condition
from tests.builders import cluster, node
from tests.dra import device_class, device_json, request_json, resource_claim, resource_slice
from tests.unit.plugins.preemption.claim_scene import deallocate, holding, newcomer, nominated
from tests.unit.plugins.preemption.scene import OWN, preemption, rejection


def two_nodes() -> Cluster:
    """Two nodes with a device each, and the holder of either."""
    return cluster(
        *(node("n1"), node("n2"), device_class()),
        *(resource_slice("n1", "gpu-0"), resource_slice("n2", "gpu-0")),
        *(resource_claim("mine"), resource_claim("other")),
        *holding("low", "gpu-0", at=9),
        *holding("next", "gpu-0", on="n2", priority=1),
    )


def test_the_preemptor_waits_for_the_claims_of_its_victims() -> None:
    state = two_nodes()
    boss = nominated(state, preemption(state, newcomer("mine")))
    state.delete_pod("team-low")

    waiting = rejection(state, boss)

    assert waiting.nominated_node == "n1"
    assert sentence(waiting.diagnosis).endswith(
        "preemption: not eligible due to claims of ended pods on the nominated node."
    )
    assert deallocate(state) == ["low"]
    placed = schedule_one(state, boss, OWN)
    assert isinstance(placed, Placement)
    assert placed.node_name == "n1"


@pytest.mark.parametrize("is_gone", [True, False], ids=["claim-ends", "victim-ends"])
def test_a_new_leader_finds_the_devices_that_a_preemptor_waits_for(is_gone: bool) -> None:
    """It knows the node, by the status of the pod."""
    state = two_nodes()
    boss = newcomer("mine", nominated="n1")
    state.upsert_pod(boss)
    going = holding("low", "gpu-0", deleting=True)[1]
    state.upsert_pod(msgspec.structs.replace(going, is_preempted=True))
    if is_gone:
        state.delete_pod(going.uid)

    waiting = rejection(state, boss)

    assert waiting.nominated_node == "n1"
    assert waiting.claims is not None
    told = explain_preemption(waiting)
    assert told is not None
    assert told.claims == "mine (gpu.example.com/n1/gpu-0)"


def test_a_preemptor_whose_device_went_to_another_pod_preempts_again() -> None:
    state = two_nodes()
    boss = nominated(state, preemption(state, newcomer("mine")))
    state.delete_pod("team-low")
    deallocate(state)
    claim, foreign = holding("foreign", "gpu-0", scheduler="other")
    state.dra.upsert(claim)
    state.upsert_pod(foreign)

    assert [one.name for one in preemption(state, boss).victims] == ["next"]


@pytest.mark.parametrize("priority", [0, 9], ids=["weaker", "equal"])
def test_preemptors_device_is_given_only_to_a_stronger_pod(priority: int) -> None:
    state = two_nodes()
    nominated(state, preemption(state, newcomer("mine")))
    state.delete_pod("team-low")
    deallocate(state)

    decision = schedule_one(state, newcomer("other", name="rival", priority=priority), OWN)

    assert not isinstance(decision, Placement)


def shares(**amounts: str) -> Cluster:
    """A device of 8 parts, of which a pod has 6, and claims of so many parts."""
    device = device_json("gpu-0", allowMultipleAllocations=True, capacity={"mem": {"value": "8"}})
    low: Any = {"device": "gpu-0", "shareID": "low", "consumedCapacity": {"mem": "6"}}
    wanted = [
        resource_claim(name, request_json(capacity={"requests": {"mem": amount}}))
        for name, amount in amounts.items()
    ]
    return cluster(
        *(node("n1"), device_class(), resource_slice("n1", device)),
        *wanted,
        *holding("low", low),
    )


def test_answer_for_the_end_of_a_claim_is_unused_while_it_lasts() -> None:
    """5 of 8 parts fit beside the 3 of the preemptor, but not beside the 6 of its victim."""
    state = shares(first="3", second="5", third="5")
    nominated(state, preemption(state, newcomer("first", name="first")))
    schedule_one(state, newcomer("second", name="second", priority=5), OWN)

    found = preemption(state, newcomer("third", name="third", priority=20))

    assert [one.name for one in found.victims] == ["low"]


def test_an_answer_about_a_lasting_claim_is_not_used_for_its_end() -> None:
    state = shares(first="3", second="5", third="5")
    rejection(state, newcomer("third", name="third", priority=0))
    nominated(state, preemption(state, newcomer("first", name="first")))

    found = preemption(state, newcomer("second", name="second", priority=5))

    assert [one.name for one in found.victims] == ["low"]


def test_a_stronger_pod_takes_the_device_of_a_preemptor() -> None:
    state = two_nodes()
    nominated(state, preemption(state, newcomer("mine")))
    state.delete_pod("team-low")
    deallocate(state)

    decision = schedule_one(state, newcomer("other", priority=10, name="top"), OWN)

    assert isinstance(decision, Placement)
    assert decision.node_name == "n1"


def test_two_preemptors_do_not_count_on_one_device() -> None:
    """The claim ends anyway, and its device is planned for the first of them."""
    state = two_nodes()
    nominated(state, preemption(state, newcomer("mine")))
    state.delete_pod("team-low")

    second = preemption(state, newcomer("other", name="second"))

    assert [one.name for one in second.victims] == ["next"]


def test_later_pod_needs_no_victim_where_a_claim_ends_anyway() -> None:
    state = two_nodes()
    state.delete_pod("team-low")

    refused = rejection(state, newcomer("mine", priority=1))

    assert "No preemption victims found" in sentence(refused.diagnosis)


@pytest.mark.parametrize(
    "end",
    [
        pytest.param(lambda state, uid: state.withdraw_nomination(uid), id="nomination"),
        pytest.param(lambda state, uid: state.expect_devices(uid, None), id="plan"),
    ],
)
def test_the_end_of_a_hold_is_an_event_about_its_devices(
    end: Callable[[Cluster, str], list[Change]],
) -> None:
    state = two_nodes()
    boss = nominated(state, preemption(state, newcomer("mine")))
    rival = newcomer("other", name="rival", priority=0)
    state.delete_pod("team-low")
    deallocate(state)
    condition = requeue_condition(rejection(state, rival).diagnosis)

    changes = end(state, boss.uid)

    assert any(condition.is_met_by(one) for one in changes if isinstance(one, ClusterEvent))
    assert isinstance(schedule_one(state, rival, OWN), Placement)


def test_a_decision_to_preempt_deallocates_nothing() -> None:
    state = two_nodes()
    before = [one for one in state.dra.every() if isinstance(one, ResourceClaim)]
    in_use = dict(state.dra.in_use.dedicated)

    first = preemption(state, newcomer("mine"))

    assert preemption(state, newcomer("mine")) == first
    assert dict(state.dra.in_use.dedicated) == in_use
    assert [one for one in state.dra.every() if isinstance(one, ResourceClaim)] == before
