"""ResourceClaims: where they come from, which devices they may get, and how many."""

from __future__ import annotations

from typing import Any

import pytest

from scheduler.decide.schedule_one import schedule_one
from scheduler.framework.decision import AllocateClaims, PendingPlacement, Placement, Rejection
from scheduler.model.dra.allocation import Allocation
from scheduler.model.pods.pod import Pod
from scheduler.model.reasons.reason import sentence
from scheduler.state.cache.cluster import Cluster
from tests.builders import ALLOW_ALL_MAPS, cluster, node, pod
from tests.dra import (
    CLASS,
    Json,
    allocation_json,
    claiming,
    device_class,
    device_json,
    request_json,
    resource_claim,
    resource_slice,
    result_json,
    taint_rule,
)

ONE_GPU = resource_slice("n1", "gpu-0")


def devices(state: Cluster, newcomer: Pod) -> list[list[str]]:
    """The devices of each claim of the pod, as ``request=device``."""
    found = decided(state, newcomer)
    assert isinstance(found, Placement), sentence(found.diagnosis)
    assert found.claims is not None
    return [_devices(one.allocation) for one in found.claims.claims]


def _devices(allocation: Allocation | None) -> list[str]:
    return [f"{one.request}={one.device}" for one in allocation.results] if allocation else []


def decided(state: Cluster, newcomer: Pod) -> Placement | Rejection:
    return schedule_one(state, newcomer, ALLOW_ALL_MAPS)


def message(state: Cluster, newcomer: Pod) -> str:
    found = decided(state, newcomer)
    assert isinstance(found, Rejection)
    return sentence(found.diagnosis)


def templated(**status: Any) -> Pod:
    """A pod with a claim from a template."""
    statuses = [{"name": "gpu", **status}] if status else []
    spec = claiming(templates={"gpu": "one-gpu"})
    return pod("p", spec=spec, status={"resourceClaimStatuses": statuses})


def attributes(**values: Any) -> Json:
    kinds = {int: "int", str: "string", bool: "bool"}
    return {"attributes": {name: {kinds[type(one)]: one} for name, one in values.items()}}


def test_case_54_a_pod_waits_for_the_claim_from_its_template() -> None:
    state = cluster(node(), ONE_GPU, device_class(), resource_claim("p-gpu-x", owner="team-p"))

    assert "ResourceClaim not created yet" in message(state, templated())
    assert devices(state, templated(resourceClaimName="p-gpu-x")) == [["gpu=gpu-0"]]


def test_case_54_an_entry_without_a_name_needs_no_claim() -> None:
    found = decided(cluster(node()), templated(resourceClaimName=None))

    assert isinstance(found, Placement)
    assert found.claims is None
    assert not isinstance(found, PendingPlacement)


def test_case_54_the_binding_waits_until_the_claims_are_allocated() -> None:
    state = cluster(node(), ONE_GPU, device_class(), resource_claim())

    found = decided(state, pod(spec=claiming("gpu")))

    assert isinstance(found, PendingPlacement)
    assert found.claims is not None
    assert found.steps == (AllocateClaims(found.claims),)


def test_case_55_no_incomplete_or_older_generation_is_used() -> None:
    state = cluster(node(), device_class(), resource_claim())
    state.dra.upsert(resource_slice("n1", "old", name="old", generation=1))
    state.dra.upsert(resource_slice("n1", "new-0", name="a", generation=2, slices=2))
    newcomer = pod(spec=claiming("gpu"))

    assert "cannot allocate all claims" in message(state, newcomer)

    state.dra.upsert(resource_slice("n1", "new-1", name="b", generation=2, slices=2))

    assert devices(state, newcomer) == [["gpu=new-0"]]


def test_case_56_a_device_of_another_claim_is_never_given() -> None:
    taken = resource_claim("theirs", allocation=allocation_json(result_json("gpu-0")))
    state = cluster(node(), ONE_GPU, device_class(), taken, resource_claim())
    newcomer = pod(spec=claiming("gpu"))

    assert "need 1; best node has 0 free" in message(state, newcomer)

    state.dra.delete(type(taken), taken.key)

    assert devices(state, newcomer) == [["gpu=gpu-0"]]


def test_case_56_admin_access_gets_a_device_in_use_and_uses_none() -> None:
    taken = resource_claim("theirs", allocation=allocation_json(result_json("gpu-0")))
    monitor = allocation_json(result_json("gpu-1", adminAccess=True))
    admin = resource_claim("admin", request_json(adminAccess=True))
    two = resource_slice("n1", "gpu-0", "gpu-1")
    state = cluster(
        node(), two, device_class(), taken, admin, resource_claim("m", allocation=monitor)
    )
    state.dra.upsert(resource_claim())

    assert devices(state, pod(spec=claiming("admin"))) == [["gpu=gpu-0"]]
    assert devices(state, pod(spec=claiming("gpu"))) == [["gpu=gpu-1"]]


def test_case_57_claim_leaves_a_device_that_only_the_next_can_use() -> None:
    big = device_json("a-big", **attributes(size=2))
    small = device_json("b-small", **attributes(size=1))
    cel = f'device.attributes["{CLASS}"].size == 2'
    only_big = request_json("big", selectors=[{"cel": {"expression": cel}}])
    state = cluster(
        node(),
        resource_slice("n1", big, small),
        device_class(),
        resource_claim("any"),
        resource_claim("big", only_big),
    )

    found = devices(state, pod(spec=claiming("any", "big")))

    assert found == [["gpu=b-small"], ["big=a-big"]]


def partition(name: str, *slices: int) -> Json:
    counters = {f"memory-slice-{one}": {"value": "1"} for one in slices}
    return device_json(name, consumesCounters=[{"counterSet": "card", "counters": counters}])


def test_case_57_partitions_that_need_the_same_counter_never_coexist() -> None:
    counters = {f"memory-slice-{one}": {"value": "1"} for one in range(2)}
    card = [{"name": "card", "counters": counters}]
    state = cluster(
        node(),
        resource_slice("n1", name="a", slices=2, sharedCounters=card, nodeName="n1"),
        resource_slice(
            "n1", partition("whole", 0, 1), partition("low", 0), partition("high", 1),
            name="b", slices=2,
        ),
        device_class(),
        resource_claim("a"),
        resource_claim("b"),
        resource_claim("c"),
    )  # fmt: skip

    found = devices(state, pod(spec=claiming("a", "b")))

    assert sorted(one for some in found for one in some) == ["gpu=high", "gpu=low"]
    assert "cannot allocate all claims" in message(state, pod(spec=claiming("a", "b", "c")))


def test_case_58_first_subrequest_that_can_be_met_names_its_devices() -> None:
    small = [device_json(f"small-{at}", **attributes(size=1)) for at in range(4)]
    sized = f'device.attributes["{CLASS}"].size == '
    choice = [
        {"name": "big", "deviceClassName": CLASS, "count": 2,
         "selectors": [{"cel": {"expression": f"{sized}2"}}]},
        {"name": "small", "deviceClassName": CLASS, "count": 4,
         "selectors": [{"cel": {"expression": f"{sized}1"}}]},
    ]  # fmt: skip
    state = cluster(
        node(),
        resource_slice("n1", *small),
        device_class(),
        resource_claim("gpu", {"name": "gpu", "firstAvailable": choice}),
    )

    (found,) = devices(state, pod(spec=claiming("gpu")))

    assert found == [f"gpu/small=small-{at}" for at in range(4)]


def test_case_58_match_attribute_holds_across_requests() -> None:
    numa = (0, 1, 1)
    some = [device_json(f"gpu-{at}", **attributes(numa=one)) for at, one in enumerate(numa)]
    state = cluster(
        node(),
        resource_slice("n1", *some),
        device_class(),
        resource_claim(
            "gpu",
            request_json("a"),
            request_json("b"),
            constraints=[{"matchAttribute": f"{CLASS}/numa"}],
        ),
    )

    (found,) = devices(state, pod(spec=claiming("gpu")))

    assert found == ["a=gpu-1", "b=gpu-2"]


@pytest.mark.parametrize(
    ("expression", "node_name"),
    [
        pytest.param('device.attributes["{0}"].size == 2', "n2", id="missing-key"),
        pytest.param('has(device.attributes["{0}"].size)', "n2", id="has"),
        pytest.param('device.attributes["{0}"].?size.orValue(0) == 0', "n1", id="or-value"),
    ],
)
def test_case_59_a_selector_that_fails_on_a_node_leaves_the_others(
    expression: str, node_name: str
) -> None:
    """Deliberate difference: kube-scheduler ends the whole attempt with an error."""
    state = cluster(
        node("n1"),
        node("n2"),
        resource_slice("n1", "plain"),
        resource_slice("n2", device_json("sized", **attributes(size=2))),
        device_class(CLASS, expression.format(CLASS)),
        resource_claim(),
    )

    found = decided(state, pod(spec=claiming("gpu")))

    assert isinstance(found, Placement)
    assert found.node_name == node_name


def test_case_59_the_reason_names_the_selector_and_the_device() -> None:
    cel = f'device.attributes["{CLASS}"].size == 2'
    state = cluster(node(), ONE_GPU, device_class(CLASS, cel), resource_claim())

    text = message(state, pod(spec=claiming("gpu")))

    assert f"class {CLASS}: selector #0 on device gpu-0 of driver {CLASS}" in text
    assert cel in text
    assert "size" in text.replace(cel, "")


@pytest.mark.parametrize(
    ("taint", "toleration", "is_given"),
    [
        pytest.param("NoSchedule", None, False, id="no-schedule"),
        pytest.param("NoExecute", None, False, id="no-execute"),
        pytest.param("None", None, True, id="none"),
        pytest.param("NoSchedule", {"key": "broken", "operator": "Exists"}, True, id="tolerated"),
        pytest.param("NoSchedule", {"key": "other", "operator": "Exists"}, False, id="other-key"),
    ],
)
def test_case_59_device_taint_repels_claims_without_toleration(
    taint: str, toleration: Json | None, is_given: bool
) -> None:
    request = request_json(tolerations=[toleration] if toleration else [])
    broken = device_json("gpu-0", taints=[{"key": "broken", "effect": taint}])
    state = cluster(
        node(), resource_slice("n1", broken), device_class(), resource_claim("gpu", request)
    )

    assert isinstance(decided(state, pod(spec=claiming("gpu"))), Placement) is is_given


def test_case_59_a_device_taint_rule_counts_as_a_taint_of_its_devices() -> None:
    state = cluster(
        node(), resource_slice("n1", "gpu-0", "gpu-1"), device_class(), resource_claim()
    )
    state.dra.upsert(taint_rule(device="gpu-0"))

    assert devices(state, pod(spec=claiming("gpu"))) == [["gpu=gpu-1"]]
