"""A pod that requests an extended resource gets a claim where DRA serves it."""

from __future__ import annotations

from typing import Any

import pytest

from scheduler.framework.decision import AllocateClaims, PendingPlacement, Placement
from scheduler.model.dra.claim_plan import NewClaim
from scheduler.model.reasons.reason import sentence
from scheduler.plugins import REASON_CODES
from scheduler.state import event as ev
from scheduler.state.fold import fold
from scheduler.state.queue.requeue_conditions import requeue_condition
from tests.builders import (
    GPU,
    MIG_1G,
    cluster,
    codes,
    node,
    placed,
    pod,
    refused,
    settle,
)
from tests.dra import (
    CLASS,
    allocation_json,
    device_class,
    device_json,
    resource_claim,
    resource_slice,
    result_json,
)

IMPLICIT = f"deviceclass.resource.kubernetes.io/{CLASS}"
EVERY_GPU = device_class(CLASS, f"device.driver == '{CLASS}'", extendedResourceName=GPU)
#: Discovery labels without a device plugin.
DISCOVERED = {"nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3", "nvidia.com/gpu.count": "2"}


def on_dra(*devices: str, name: str = "n1") -> list[Any]:
    """A node with devices of the class for ``nvidia.com/gpu``."""
    return [node(name), resource_slice(name, *devices), EVERY_GPU]


def new_claim(placement: Placement) -> NewClaim:
    """The claim that is created for the pod."""
    assert placement.claims is not None
    assert placement.claims.extended is not None
    return placement.claims.extended


def devices(placement: Placement) -> list[str]:
    """The devices of the claim that is created."""
    return [one.device for one in new_claim(placement).allocation.results]


def test_a_pod_gets_a_claim_on_a_node_with_dra_devices() -> None:
    found = placed(cluster(*on_dra("a", "b")), pod(gpus=2))

    assert devices(found) == ["a", "b"]
    [request] = new_claim(found).asked.requests
    assert (request.name, request.exactly and request.exactly.count) == ("container-0-request-0", 2)
    assert isinstance(found, PendingPlacement)
    assert [type(step) for step in found.steps] == [AllocateClaims]
    assert str(found.claims) == (
        "a claim for nvidia.com/gpu (gpu.example.com/n1/a gpu.example.com/n1/b)"
    )


def test_a_pod_gets_no_claim_on_a_node_with_a_device_plugin() -> None:
    found = placed(cluster(node(gpus=4), EVERY_GPU, resource_slice("n1", "a")), pod(gpus=2))

    assert found.claims is None
    assert not isinstance(found, PendingPlacement)


def test_one_pod_spec_serves_both_kinds_of_nodes() -> None:
    """A mixed cluster: the node with the smallest leftover wins."""
    state = cluster(*on_dra("a", "b", name="dra"), node("plugin", gpus=1))

    first = settle(state, pod("p", gpus=1))
    second = settle(state, pod("q", gpus=1))
    third = settle(state, pod("r", gpus=1))

    assert [one.node_name for one in (first, second, third)] == ["plugin", "dra", "dra"]
    assert [devices(one) for one in (second, third)] == [["a"], ["b"]]
    assert sentence(refused(state, pod("s", gpus=1)).diagnosis) == (
        "0/2 nodes are available: 2 Insufficient nvidia.com/gpu (need 1; best node has 0 free)."
    )


def test_a_claim_asks_for_what_no_plugin_has() -> None:
    """One resource by a plugin, the other by DRA: the claim asks for the second only."""
    other = device_class("x", f"device.driver == '{CLASS}'", extendedResourceName="example.com/x")
    state = cluster(node(gpus=1), resource_slice("n1", "a"), other)

    found = placed(state, pod(gpus=1, requests={"example.com/x": 1}))

    assert {one.resource for one in new_claim(found).asked.mappings} == {"example.com/x"}


def test_an_implicit_name_is_allocated_without_being_counted() -> None:
    state = cluster(*on_dra("a"))

    assert devices(placed(state, pod(requests={IMPLICIT: 1}))) == ["a"]
    assert codes(state, pod(requests={IMPLICIT: 2})) == {REASON_CODES["DEVICES_NOT_AVAILABLE"]}


def test_an_implicit_name_without_a_class_fits_nowhere() -> None:
    other = pod(requests={"deviceclass.resource.kubernetes.io/gone": 1})

    assert codes(cluster(*on_dra("a")), other) == {REASON_CODES["INSUFFICIENT"]}


def test_a_node_without_the_resource_is_not_chosen() -> None:
    """kube-scheduler: cannot fit resource."""
    found = refused(cluster(node(), EVERY_GPU), pod(gpus=1))

    assert sentence(found.diagnosis) == (
        "0/1 nodes are available: 1 Insufficient nvidia.com/gpu (need 1; best node has 0 free)."
    )


def test_a_request_above_every_node_can_never_be_placed() -> None:
    found = refused(cluster(*on_dra("a", "b")), pod(gpus=3))

    assert "requests 3 nvidia.com/gpu and the largest node here has 2" in sentence(found.diagnosis)


def test_feature_discovery_does_not_make_an_index_of_a_dra_device() -> None:
    state = cluster(node(labels=DISCOVERED), resource_slice("n1", "a", "b"), EVERY_GPU)

    first, second = settle(state, pod("p", gpus=1)), settle(state, pod("q", gpus=1))

    assert (first.devices.numbers, second.devices.numbers) == ((), ())
    assert (devices(first), devices(second)) == (["a"], ["b"])


def test_pods_bound_by_kube_scheduler_count_through_their_claims() -> None:
    theirs = pod("p", gpus=1, node="n1", scheduler="default-scheduler")
    claim = resource_claim("p-extended", allocation=allocation_json(result_json("a")), users=["p"])
    state = cluster(*on_dra("a", "b"), theirs, claim)

    assert devices(placed(state, pod("q", gpus=1))) == ["b"]
    assert codes(state, pod("r", gpus=2)) == {REASON_CODES["INSUFFICIENT"]}


def test_a_device_is_not_given_twice_before_the_claim_is_seen() -> None:
    state = cluster(*on_dra("a"))
    settle(state, pod("p", gpus=1))

    assert codes(state, pod("q", gpus=1)) == {REASON_CODES["INSUFFICIENT"]}


def test_a_failed_placement_frees_its_devices() -> None:
    state = cluster(*on_dra("a"))
    settle(state, pod("p", gpus=1))

    changes = state.forget("team-p")

    assert devices(placed(state, pod("q", gpus=1))) == ["a"]
    freed = [one for one in changes if isinstance(one, ev.ClusterEvent) and GPU in one.what]
    assert freed


@pytest.mark.parametrize("is_bound_first", [True, False], ids=["bound-first", "claim-first"])
def test_the_claim_takes_over_from_the_placement(is_bound_first: bool) -> None:
    """In any order of the two watches the device stays in use, and is free after the claim."""
    state = cluster(*on_dra("a"))
    newcomer = pod("p", gpus=1)
    settle(state, newcomer)
    claim = extended_claim("2", allocation=allocation_json(result_json("a")))
    seen = [ev.DraUpdated(extended_claim("1")), ev.DraUpdated(claim)]
    bound: list[ev.Event] = [ev.PodUpdated(pod("p", gpus=1, node="n1"))]

    for event in (*bound, *seen) if is_bound_first else (*seen, *bound):
        fold(state, event)
        assert codes(state, pod("q", gpus=1)) == {REASON_CODES["INSUFFICIENT"]}

    fold(state, ev.PodDeleted("team-p"))
    assert codes(state, pod("q", gpus=1)) == {REASON_CODES["INSUFFICIENT"]}
    fold(state, ev.DraDeleted(type(claim), claim.key))
    assert devices(placed(state, pod("q", gpus=1))) == ["a"]


def test_a_pod_that_goes_with_its_claim_unseen_leaves_nothing() -> None:
    state = cluster(*on_dra("a"))
    settle(state, pod("p", gpus=1))

    fold(state, ev.PodUpdated(pod("p", gpus=1, node="n1")))
    fold(state, ev.PodDeleted("team-p"))

    assert devices(placed(state, pod("q", gpus=1))) == ["a"]


def extended_claim(version: str, **more: Any) -> Any:
    """The claim that was created for pod ``p``."""
    return resource_claim(
        "p-extended-resources-x", version=version, owner="team-p", extended=True, **more
    )


def test_nominated_pods_hold_devices_against_others() -> None:
    state = cluster(*on_dra("a"), pod("p", gpus=1, nominated="n1", priority=5))

    assert codes(state, pod("q", gpus=1, priority=1)) == {REASON_CODES["INSUFFICIENT"]}
    assert placed(state, pod("r", gpus=1, priority=9)).node_name == "n1"


def test_a_class_that_appears_wakes_pods() -> None:
    state = cluster(node(), resource_slice("n1", "a"))
    assert codes(state, pod(gpus=1)) == {REASON_CODES["INSUFFICIENT"]}

    changes = fold(state, ev.DraUpdated(EVERY_GPU))

    assert devices(placed(state, pod(gpus=1))) == ["a"]
    assert any(isinstance(one, ev.ClusterEvent) and GPU in one.what for one in changes)


@pytest.mark.parametrize("last", [EVERY_GPU, resource_slice("n1", "a")], ids=["class", "slice"])
def test_pod_with_an_implicit_name_is_woken_by_what_was_missing(last: Any) -> None:
    objects = [one for one in on_dra("a") if type(one) is not type(last)]
    state = cluster(*objects)
    asking = pod(requests={IMPLICIT: 1})
    condition = requeue_condition(refused(state, asking).diagnosis)

    changes = fold(state, ev.DraUpdated(last))

    assert any(isinstance(one, ev.ClusterEvent) and condition.is_met_by(one) for one in changes)
    assert devices(placed(state, asking)) == ["a"]


def partition() -> Any:
    """A MIG partition of NVIDIA's driver."""
    kind = {"type": {"string": "mig"}, "profile": {"string": "1g.10gb"}}
    return resource_slice("n1", device_json("p", attributes=kind), driver="gpu.nvidia.com")


def test_a_profile_without_a_class_is_named() -> None:
    found = refused(cluster(node(), partition()), pod(mig={"1g.10gb": 1}))

    assert found.diagnosis.codes() == {REASON_CODES["NO_DEVICE_CLASS"]}
    assert sentence(found.diagnosis) == (
        "0/1 nodes are available: 1 no DeviceClass has the extendedResourceName"
        " nvidia.com/mig-1g.10gb and the node has MIG partitions of this profile as DRA devices"
        " (dra.migClasses of the chart)."
    )


def test_a_profile_with_a_class_is_allocated() -> None:
    """The selector is that of the chart's classes."""
    selector = (
        "device.driver == 'gpu.nvidia.com' && device.attributes['gpu.nvidia.com'].type == 'mig'"
        " && device.attributes['gpu.nvidia.com'].profile == '1g.10gb'"
    )
    offered = device_class("mig-1g.10gb", selector, extendedResourceName=MIG_1G)
    found = placed(cluster(node(), partition(), offered), pod(mig={"1g.10gb": 1}))

    assert devices(found) == ["p"]


def test_pods_without_gpus_keep_away_from_dra_devices() -> None:
    state = cluster(*on_dra("a", name="a-dra"), node("plain"))

    assert placed(state, pod()).node_name == "plain"


def test_pod_that_had_a_claim_stays_on_nodes_with_dra() -> None:
    """The kubelet would wait for the claim: its name stays in the pod's status."""
    named = {
        "extendedResourceClaimStatus": {
            "resourceClaimName": "gone",
            "requestMappings": [
                {
                    "containerName": "app",
                    "resourceName": GPU,
                    "requestName": "container-0-request-0",
                }
            ],
        }
    }
    had = pod(gpus=1, status=named)
    plugin = node("plugin", gpus=1)

    assert placed(cluster(*on_dra("a", name="dra"), plugin), had).node_name == "dra"
    assert codes(cluster(plugin, EVERY_GPU), had) == {REASON_CODES["RESOURCE_CLAIM_ELSEWHERE"]}
    assert placed(cluster(plugin, EVERY_GPU), pod(gpus=1)).node_name == "plugin"
