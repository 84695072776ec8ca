"""ResourceClaims on a real API server, with the real kube-controller-manager beside us."""

from __future__ import annotations

import pytest

from tests.controlplane.conftest import MakeNode
from tests.controlplane.dra.conftest import Devices
from tests.controlplane.dra_objects import kube_scheduler
from tests.controlplane.workloads import node_of
from tests.dra import FINALIZER, device_json
from tools.controlplane import ControlPlane, wait_until


@pytest.mark.smoke
def test_pod_with_a_template_gets_a_claim_with_its_device(
    here: Devices, kwok_node: MakeNode
) -> None:
    """The claim is protected, allocated to the node and reserved before the Binding; it goes with
    the pod."""
    here.publish(kwok_node("tmpl-1"), "gpu-0")
    here.template("one-gpu")

    here.user("a", template="one-gpu")

    [bound] = here.wait_bound(1)
    assert node_of(bound) == "tmpl-1"
    [name] = here.claims_of("a")
    claim = here.client.get(here.claim_path(name))
    assert FINALIZER in claim["metadata"]["finalizers"]
    allocation = claim["status"]["allocation"]
    [result] = allocation["devices"]["results"]
    assert result == {
        "request": "gpu",
        "driver": here.driver,
        "pool": "tmpl-1",
        "device": "gpu-0",
    }
    field = {"key": "metadata.name", "operator": "In", "values": ["tmpl-1"]}
    assert allocation["nodeSelector"]["nodeSelectorTerms"] == [{"matchFields": [field]}]
    uid = bound["metadata"]["uid"]
    assert claim["status"]["reservedFor"] == [{"resource": "pods", "name": "a", "uid": uid}]

    here.client.delete(here.path("Pod", "a"))
    here.client.wait_for(
        here.claim_path(), lambda seen: not seen["items"], what="the claim to go with its pod"
    )


def test_pod_waits_until_its_claim_exists(here: Devices, kwok_node: MakeNode) -> None:
    """Case 54."""
    here.publish(kwok_node("later-1"), "gpu-0")

    here.user("a", template="later")
    here.user("b", "later-claim")
    here.wait_explained("a", "later")
    here.wait_explained("b", "later-claim")
    here.template("later")
    here.wait_bound(1)
    here.client.delete(here.path("Pod", "a"))
    here.claim("later-claim")

    here.wait("b to be bound", lambda items: any(node_of(one) for one in items))
    assert here.given("b") == ["later-1/gpu-0"]


def test_two_pods_share_a_claim_and_its_node(here: Devices, kwok_node: MakeNode) -> None:
    for name in ("share-1", "share-2"):
        here.publish(kwok_node(name), "gpu-0")
    here.claim("shared")

    here.user("a", "shared")
    here.user("b", "shared")

    first, second = here.wait_bound(2)
    assert node_of(first) == node_of(second)
    assert here.users("shared") == {"a", "b"}
    [device] = here.given("a")
    assert device == f"{node_of(first)}/gpu-0"

    here.client.delete(here.path("Pod", "a"))
    here.wait_claim("shared", "to be b's alone", lambda _: here.users("shared") == {"b"})
    assert here.given("b") == [device]
    here.client.delete(here.path("Pod", "b"))
    here.wait_claim(
        "shared", "to be deallocated", lambda seen: "allocation" not in seen.get("status", {})
    )


def test_device_allocated_by_kube_scheduler_is_never_given(
    here: Devices, cp: ControlPlane, kwok_node: MakeNode
) -> None:
    """Case 56; its claim is not shared with a pod of ours either."""
    here.publish(kwok_node("mixed-1"), "gpu-0", "gpu-1")
    here.template("one-gpu")
    here.claim("theirs")
    with kube_scheduler(cp):
        here.user("foreign", "theirs", scheduler="default-scheduler")
        here.wait_bound(1)
        [taken] = here.given("foreign")

        here.user("a", template="one-gpu")
        here.user("b", template="one-gpu")
        here.wait_bound(2)
        here.user("c", "theirs")
        here.wait_explained("c", "theirs")

    ours = [name for name in "ab" if node_of(here.client.get(here.path("Pod", name)))]
    assert len(ours) == 1
    assert {*here.given(ours[0]), taken} == {"mixed-1/gpu-0", "mixed-1/gpu-1"}
    assert here.users("theirs") == {"foreign"}

    here.client.delete(here.path("Pod", "foreign"))
    here.wait_bound(2)


def test_first_available_takes_the_second_choice(here: Devices, kwok_node: MakeNode) -> None:
    """Case 58: the name of the result is that of the subrequest, the count is its own."""
    kinds = {"big": "large", "small": "small"}
    for name, kind in kinds.items():
        here.device_class(name, f"device.attributes['{here.driver}'].kind == '{kind}'")
    small = (
        device_json(f"gpu-{number}", attributes={"kind": {"string": "small"}})
        for number in range(4)
    )
    here.publish(kwok_node("choice-1"), *small)
    choices = [
        {"name": "first", "deviceClassName": here.named("big"), "count": 2},
        {"name": "second", "deviceClassName": here.named("small"), "count": 4},
    ]
    here.claim("any", {"name": "gpus", "firstAvailable": choices})

    here.user("a", "any")

    here.wait_bound(1)
    results = here.status("any")["allocation"]["devices"]["results"]
    assert [one["request"] for one in results] == ["gpus/second"] * 4
    assert len({one["device"] for one in results}) == 4


def test_match_attribute_holds_across_requests(here: Devices, kwok_node: MakeNode) -> None:
    """Case 58."""
    devices = (
        device_json(f"gpu-{number}", attributes={"numa": {"int": numa}})
        for number, numa in enumerate([0, 1, 2, 1])
    )
    here.publish(kwok_node("match-1"), *devices)
    requests = [here.request("one"), here.request("two")]
    here.claim("pair", *requests, constraints=[{"matchAttribute": f"{here.driver}/numa"}])

    here.user("a", "pair")

    here.wait_bound(1)
    assert sorted(here.given("a")) == ["match-1/gpu-1", "match-1/gpu-3"]


def test_pod_without_a_free_device_waits_until_one_is_free(
    here: Devices, kwok_node: MakeNode
) -> None:
    here.publish(kwok_node("full-1"), "gpu-0")
    here.template("one-gpu")
    here.user("a", template="one-gpu")
    here.wait_bound(1)

    here.user("b", template="one-gpu")
    here.wait_explained("b", "0/1 nodes are available")
    here.client.delete(here.path("Pod", "a"))

    here.wait("b to be bound", lambda items: any(node_of(one) for one in items))
    assert here.given("b") == ["full-1/gpu-0"]


def test_configuration_of_class_and_claim_reaches_the_driver(
    here: Devices, kwok_node: MakeNode
) -> None:
    """Neither the order of its keys nor its blanks matter: a patch of the finalizer would write
    them otherwise, and the API server refuses that as a change of the spec."""
    opaque = {"driver": here.driver, "parameters": {"share": [1, 2], "kind": "A"}}
    here.device_class("tuned", "true", config=[{"opaque": opaque}])
    here.publish(kwok_node("config-1"), "gpu-0")
    request = here.request("gpu", "tuned", selectors=[_of_driver(here)])
    own = {"driver": here.driver, "parameters": {"z": 1, "kind": "B"}}
    requests = [request, here.request("other")]
    here.publish("config-1", "gpu-1", name=here.named("more"), pool="more")
    here.claim("tuned", *requests, config=[{"requests": ["gpu"], "opaque": own}])

    here.user("a", "tuned")

    here.wait_bound(1)
    config = here.status("tuned")["allocation"]["devices"]["config"]
    assert config == [
        {"source": "FromClass", "requests": ["gpu"], "opaque": opaque},
        {"source": "FromClaim", "requests": ["gpu"], "opaque": own},
    ]


def _of_driver(here: Devices) -> dict[str, dict[str, str]]:
    return {"cel": {"expression": f"device.driver == '{here.driver}'"}}


def test_claim_in_use_by_a_running_pod_is_left_as_it_is(here: Devices, kwok_node: MakeNode) -> None:
    """A label on the claim is no reason to write it again."""
    here.publish(kwok_node("label-1"), "gpu-0")
    here.claim("mine")
    here.user("a", "mine")
    here.wait_bound(1)
    here.client.patch(here.claim_path("mine"), {"metadata": {"labels": {"a": "b"}}})
    before = here.client.get(here.claim_path("mine"))

    here.user("b", "mine")

    here.wait_bound(2)
    wait_until(lambda: here.users("mine") == {"a", "b"}, what="both reservations")
    after = here.client.get(here.claim_path("mine"))
    assert after["status"]["allocation"] == before["status"]["allocation"]
