"""Victims whose devices are behind claims: those that free the right devices, and no others."""

from __future__ import annotations

from typing import Any

import pytest

from scheduler.decide.explain import explain_preemption
from scheduler.decide.schedule_one import schedule_one
from scheduler.framework.decision import Placement
from scheduler.model.reasons.reason import sentence
from tests.builders import cluster, node, pod
from tests.dra import (
    CLASS,
    DRIVER,
    allocation_json,
    claiming,
    device_class,
    device_json,
    request_json,
    resource_claim,
    resource_slice,
    result_json,
)
from tests.dra_gpus import NVIDIA, devices_of, on_dra
from tests.unit.plugins.dynamic_resources.claim_world import mig_card, selecting
from tests.unit.plugins.preemption.claim_scene import (
    deallocate,
    holding,
    newcomer,
    shared,
)
from tests.unit.plugins.preemption.scene import (
    ALL,
    OWN,
    budget,
    preemption,
    rejection,
    running,
    victims,
)

N1 = node("n1")
TWO = resource_slice("n1", "gpu-0", "gpu-1")
EVERY = device_class()


def choosing(kind: str, name: str = "mine", **exactly: Any) -> Any:
    """A claim of devices of one kind."""
    text = f'device.attributes["{DRIVER}"].kind == "{kind}"'
    selectors = [{"cel": {"expression": text}}]
    return resource_claim(name, request_json(selectors=selectors, **exactly))


def of_kind(name: str, kind: str, **more: Any) -> Any:
    return device_json(name, attributes={"kind": {"string": kind}}, **more)


MIXED = resource_slice("n1", of_kind("big-0", "big"), of_kind("small-0", "small"))


def test_the_holder_of_a_matching_device_has_to_go() -> None:
    state = cluster(
        *(N1, EVERY, MIXED, choosing("big")),
        *holding("small", "small-0", at=9),
        *holding("big", "big-0", at=1, priority=3),
    )

    found = preemption(state, newcomer("mine"))

    assert [one.name for one in found.victims] == ["big"], "although it is more important"
    assert found.claims is not None
    assert [one.device for one in found.claims.allocations[0].results] == ["big-0"]
    told = explain_preemption(found)
    assert told is not None
    assert told.claims == "mine (gpu.example.com/n1/big-0)"


def test_as_few_pods_go_as_there_are_devices_needed() -> None:
    state = cluster(
        *(N1, EVERY, TWO, resource_claim("mine")),
        *holding("old", "gpu-0", at=1),
        *holding("young", "gpu-1", at=9),
    )

    assert victims(state, newcomer("mine")) == ["young"]
    state.dra.upsert(resource_claim("both", request_json(count=2)))
    assert victims(state, newcomer("both")) == ["old", "young"]


def test_a_pod_on_the_wrong_memory_slices_is_no_victim() -> None:
    """A 4g.40gb fits only at slice 0."""
    state = cluster(
        N1,
        device_class(),
        *mig_card(),
        resource_claim("mine", request_json(**selecting("4g.40gb"))),
        *holding("front", "0-3g.40gb-0", at=1, priority=3),
        *holding("back", "0-3g.40gb-4", at=9),
    )

    assert victims(state, newcomer("mine")) == ["front"]


def test_capacity_of_a_shared_device_is_freed_by_share() -> None:
    whole = of_kind("gpu-0", "big", allowMultipleAllocations=True, capacity={"mem": {"value": "8"}})
    takes: Any = {"device": "gpu-0", "shareID": "s", "consumedCapacity": {"mem": "4"}}
    want = resource_claim("mine", request_json(capacity={"requests": {"mem": "4"}}))
    state = cluster(
        *(N1, EVERY, resource_slice("n1", whole), want),
        *holding("old", takes, at=1),
        *holding("young", {**takes, "shareID": "t"}, at=9),
    )

    assert victims(state, newcomer("mine")) == ["young"]


# --- when a claim ends with a pod -------------------------------------------------------------


def test_a_claim_that_a_stronger_pod_uses_too_is_not_freed() -> None:
    state = cluster(
        *(N1, EVERY, resource_slice("n1", "gpu-0"), resource_claim("mine")),
        shared("ours", ["weak", "strong"], "gpu-0"),
        running("weak", spec=claiming("ours")),
        running("strong", spec=claiming("ours"), priority=10),
    )

    refused = rejection(state, newcomer("mine"))

    [reason] = refused.unhelpful["n1"]
    assert reason.text == f"cannot allocate all claims (request gpu; class {CLASS})"


def test_all_users_of_a_claim_go_together() -> None:
    state = cluster(
        *(N1, EVERY, TWO, resource_claim("mine")),
        shared("ours", ["a", "b"], "gpu-0"),
        running("a", spec=claiming("ours")),
        running("b", spec=claiming("ours")),
        *holding("alone", "gpu-1", priority=3),
    )

    assert victims(state, newcomer("mine")) == ["a", "b"]


def test_a_pod_that_waits_for_the_claim_does_not_keep_it() -> None:
    """It has not reserved it: kube-controller-manager does not ask it."""
    state = cluster(
        *(N1, EVERY, resource_slice("n1", "gpu-0"), resource_claim("mine")),
        *holding("low", "gpu-0"),
        pod("waiting", spec=claiming("low")),
    )

    assert victims(state, newcomer("mine")) == ["low"]


def test_an_allocation_without_a_pod_ends_with_no_pod() -> None:
    idle = resource_claim("idle", allocation=allocation_json(result_json("gpu-0")))
    state = cluster(
        *(N1, EVERY, resource_slice("n1", "gpu-0"), resource_claim("mine"), idle),
        running("low"),
    )

    assert "n1" in rejection(state, newcomer("mine")).unhelpful


def test_a_claim_of_a_template_goes_with_its_pod() -> None:
    spec = claiming(templates={"gpu": "one"})
    made = {"resourceClaimStatuses": [{"name": "gpu", "resourceClaimName": "low-gpu"}]}
    given = allocation_json(result_json("gpu-0"))
    low = pod("low", node="n1", phase="Running", spec=spec, status=made)
    state = cluster(
        *(N1, EVERY, resource_slice("n1", "gpu-0"), resource_claim("mine")),
        resource_claim("low-gpu", allocation=given, users=["low"], owner=low.uid),
        low,
    )

    found = preemption(state, newcomer("mine"))

    assert [one.name for one in found.victims] == ["low"]
    state.delete_pod(low.uid)
    assert deallocate(state) == ["low-gpu"]
    assert isinstance(schedule_one(state, found.pod, OWN), Placement)


def test_claim_that_the_preemptor_shares_frees_no_device_for_it() -> None:
    """It would share the claim: the device is no second one for it."""
    state = cluster(
        *(N1, EVERY, resource_slice("n1", "gpu-0"), resource_claim("mine")),
        *holding("low", "gpu-0"),
    )

    assert "n1" in rejection(state, newcomer("low", "mine")).unhelpful


# --- who may be a victim ----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("pipeline", "expected"),
    [pytest.param(OWN, None, id="own"), pytest.param(ALL, "low", id="all")],
)
def test_pods_of_other_schedulers_go_only_with_victims_all(pipeline: Any, expected: Any) -> None:
    state = cluster(
        *(N1, EVERY, resource_slice("n1", "gpu-0"), resource_claim("mine")),
        *holding("low", "gpu-0", scheduler="other"),
    )

    if expected is None:
        rejection(state, newcomer("mine"), pipeline)
    else:
        assert victims(state, newcomer("mine"), pipeline) == [expected]


def test_a_disruption_budget_makes_the_other_holder_the_victim() -> None:
    state = cluster(
        *(N1, EVERY, TWO, resource_claim("mine")),
        *holding("guarded", "gpu-0", at=9, labels={"app": "a"}),
        *holding("free", "gpu-1", at=1),
    )
    state.preemptions.upsert_budget(budget("b", {"app": "a"}, 0))

    assert victims(state, newcomer("mine")) == ["free"]


def test_a_pod_that_never_preempts_waits() -> None:
    state = cluster(
        *(N1, EVERY, resource_slice("n1", "gpu-0"), resource_claim("mine")),
        *holding("low", "gpu-0"),
    )
    mild = pod("mild", priority=9, spec={**claiming("mine"), "preemptionPolicy": "Never"})

    assert "preemptionPolicy=Never" in sentence(rejection(state, mild).diagnosis)


# --- what preemption never cures --------------------------------------------------------------

BROKEN = [{"cel": {"expression": f'device.attributes["{DRIVER}"].missing == "x"'}}]
ELSEWHERE = resource_claim(
    "mine", allocation=allocation_json(result_json("gpu-9", "n2"), node="n2"), users=["friend"]
)


@pytest.mark.parametrize(
    ("claim", "text"),
    [
        pytest.param(choosing("huge"), "cannot allocate all claims", id="no-such-device"),
        pytest.param(choosing("big", count=3), "cannot allocate all claims", id="too-few"),
        pytest.param(
            resource_claim("mine", request_json(selectors=BROKEN)), "selector", id="cel-error"
        ),
        pytest.param(ELSEWHERE, "resourceclaim not available", id="allocated-elsewhere"),
    ],
)
def test_preemption_is_not_tried_where_it_cannot_help(claim: Any, text: str) -> None:
    state = cluster(
        *(N1, EVERY, MIXED, claim, running("friend", on="n2", spec=claiming("mine"), priority=9)),
        *holding("low", "big-0"),
    )

    refused = rejection(state, newcomer("mine"))

    message = sentence(refused.diagnosis)
    assert text in message
    assert message.endswith(
        "preemption: 0/1 nodes are available: 1 Preemption is not helpful for scheduling."
    )
    assert refused.unhelpful == {}


# --- extended resources and maps --------------------------------------------------------------


def low_with_claim(device: str, **fields: Any) -> list[Any]:
    """A running pod with one GPU, and the claim that a scheduler created for it."""
    name = fields.pop("name", "low")
    status = {"extendedResourceClaimStatus": {"resourceClaimName": f"{name}-ext"}}
    given = allocation_json(result_json(device, driver=NVIDIA))
    low = pod(name, node="n1", phase="Running", gpus=1, status=status, **fields)
    made = resource_claim(
        f"{name}-ext", allocation=given, users=[name], owner=low.uid, extended=True
    )
    return [made, low]


def dra_node(*used: str, **fields: Any) -> list[Any]:
    """A node with four GPUs, of which pods named after their device have these."""
    pods = [one for device in used for one in low_with_claim(device, name=device, **fields)]
    return [*on_dra(), *pods]


FULL = ("gpu-0", "gpu-1", "gpu-2", "gpu-3")


def test_a_pod_with_an_extended_resource_preempts_on_a_dra_node() -> None:
    state = cluster(*dra_node(*FULL, priority=1), pod("idle", node="n1", phase="Running"))

    found = preemption(state, pod("boss", gpus=2, priority=9))

    assert len(found.victims) == 2
    assert "idle" not in [one.name for one in found.victims]
    assert found.claims is not None
    assert sorted(devices_of(found)) == sorted(one.name for one in found.victims)


def test_a_mapped_pod_preempts_the_holder_of_its_device_only() -> None:
    """Index 0 is gpu-2 (``tests/dra_gpus``)."""
    state = cluster(*dra_node(*FULL, priority=1))

    found = preemption(state, pod("w-0", map="0=n1:0", gpus=1, priority=9))

    assert [one.name for one in found.victims] == ["gpu-2"]


def test_any_line_of_a_map_can_be_preempted_for_on_a_dra_node() -> None:
    """Indexes 0 and 1 are gpu-2 and gpu-3; the holder of the second is less important."""
    state = cluster(
        *on_dra(),
        *low_with_claim("gpu-2", name="gpu-2", priority=2),
        *low_with_claim("gpu-3", name="gpu-3", priority=1),
    )

    mapped = pod("web-a", owner="Deployment/web@r1", map="0=n1:0\n1=n1:1", gpus=1, priority=9)
    found = preemption(state, mapped)

    assert [one.name for one in found.victims] == ["gpu-3"]
    assert devices_of(found) == ["gpu-3"]


def test_claim_and_extended_resource_take_devices_from_each_other() -> None:
    mine = resource_claim("mine", request_json("gpu", NVIDIA))
    state = cluster(*dra_node(*FULL[1:], priority=1), *holding_gpu("gpu-0"), mine)

    both = pod("boss", gpus=1, priority=9, spec=claiming("mine"))

    assert len(preemption(state, both).victims) == 2


def holding_gpu(device: str) -> list[Any]:
    return [*holding("claims", {"device": device, "driver": NVIDIA}, priority=1)]


def test_a_pod_without_claims_is_no_victim_for_devices() -> None:
    state = cluster(*on_dra(), *low_with_claim("gpu-0", priority=9), running("idle"))

    refused = rejection(state, pod("boss", gpus=4, priority=9))

    assert refused.unhelpful, "the device of an equal pod is in the way"
