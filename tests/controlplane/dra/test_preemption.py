"""Preemption for devices behind claims, on a real API server with kube-controller-manager."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.controlplane.conftest import MakeNode
from tests.controlplane.dra.conftest import Devices
from tests.controlplane.dra_objects import kube_scheduler
from tests.controlplane.preemption_scene import (
    GPU,
    held,
    lab_classes,
    let_go,
    names,
    settled,
    still_node,
    wait_going,
    wait_nominated,
)
from tests.controlplane.workloads import Json, node_of, pod, why
from tests.dra import claiming, device_json
from tools.controlplane import ControlPlane

#: One device, by the template ``one``.
ONE = claiming(templates={"gpu": "one"})
EXTENDED = pytest.mark.kubernetes("1.36", "DRAExtendedResource is off by default before")


@pytest.fixture(scope="module", autouse=True)
def _classes(cp: ControlPlane) -> Iterator[None]:
    """The lab's four PriorityClasses."""
    with lab_classes(cp):
        yield


def kinds(here: Devices, *wanted: str) -> list[Json]:
    """Devices of these kinds, and a template for each kind, named after it."""
    for kind in sorted(set(wanted)):
        here.device_class(kind, f"device.attributes['{here.driver}'].kind == '{kind}'")
        here.template(kind, here.request("gpu", kind))
    return [
        device_json(f"gpu-{number}", attributes={"kind": {"string": kind}})
        for number, kind in enumerate(wanted)
    ]


@pytest.mark.smoke
@pytest.mark.contract("S4-6")
@EXTENDED
def test_the_labs_exercise_on_a_node_whose_gpus_are_dra_devices(
    here: Devices, kwok_node: MakeNode
) -> None:
    """Two pods for one GPU; the claim of the first goes with it, and the second gets the device."""
    here.device_class("whole", f"device.driver == '{here.driver}'", extendedResourceName=GPU)
    here.publish(kwok_node("dra-lab"), "gpu-0")
    body = pod("low-priority-gpu", limits={GPU: "1"}, priorityClassName="gpu-low")
    here.create(body)
    here.wait_bound(1)

    body = pod("high-priority-gpu", limits={GPU: "1"}, priorityClassName="gpu-high")
    high = here.create(body)

    here.wait("the high pod alone", lambda items: [node_of(i) for i in items] == ["dra-lab"])
    assert names(here) == {"high-priority-gpu"}
    here.wait_told("low-priority-gpu", "Preempted")
    status = here.client.get(here.path("Pod", "high-priority-gpu"))["status"]
    claim = status["extendedResourceClaimStatus"]["resourceClaimName"]
    [consumer] = here.status(claim)["reservedFor"]
    assert consumer["uid"] == high["metadata"]["uid"]
    [result] = here.status(claim)["allocation"]["devices"]["results"]
    assert result["device"] == "gpu-0"


@pytest.mark.smoke
def test_holder_of_a_matching_device_is_preempted_and_deallocated(
    here: Devices, kwok_node: MakeNode
) -> None:
    here.publish(kwok_node("dra-kind"), *kinds(here, "big", "small"))
    here.claim("named", here.request("gpu", "big"))
    here.user("holder", "named", priorityClassName="gpu-normal")
    here.user("bystander", template="small", priorityClassName="gpu-low")
    here.wait_bound(2)

    here.user("boss", template="big", priorityClassName="gpu-high")

    here.wait_told("holder", "Preempted")
    here.wait("boss to be bound", lambda items: len(items) == 2 and all(map(node_of, items)))
    assert names(here) == {"boss", "bystander"}
    assert here.given("boss") == ["dra-kind/gpu-0"]
    assert "allocation" not in here.status("named")


def test_preemptor_keeps_node_and_device_until_its_victim_has_ended(
    here: Devices, cp: ControlPlane
) -> None:
    with still_node(cp, "dra-still", 0):
        here.publish("dra-still", "gpu-0", "gpu-1")
        here.template("one")
        for number, name in enumerate(("a", "b")):
            here.create(held(pod(name, priorityClassName="gpu-normal", **ONE)))
            here.wait_bound(number + 1)
        here.create(held(pod("boss", priorityClassName="gpu-high", **ONE)))
        here.wait(
            "one to go", lambda items: sum("deletionTimestamp" in i["metadata"] for i in items) == 1
        )
        [gone] = {"a", "b"} - names(here)
        wait_going(here, gone)
        wait_nominated(here, "boss", "dra-still")
        [device] = here.given(gone)
        message = why(here.client.get(here.path("Pod", "boss")))
        assert "preempting 1 victims" in message or "terminating pod on the nominated" in message

        here.create(held(pod("rival", priorityClassName="gpu-normal", **ONE)))
        settled(here, "rival", "0/1 nodes are available")
        here.client.patch(here.path("Pod", "boss"), {"metadata": {"labels": {"changed": "yes"}}})
        settled(here, "boss", "not eligible due to a terminating pod on the nominated node.")
        let_go(here, gone)

        here.wait(
            "boss to be bound",
            lambda items: any(node_of(i) for i in items if i["metadata"]["name"] == "boss"),
        )
        assert here.given("boss") == [device]
        assert names(here) == {"a", "b", "boss", "rival"} - {gone}
        assert not node_of(here.client.get(here.path("Pod", "rival")))


def test_a_claim_that_a_stronger_pod_uses_too_is_left(here: Devices, kwok_node: MakeNode) -> None:
    here.publish(kwok_node("dra-shared"), "gpu-0")
    here.claim("ours")
    here.template("one")
    here.user("weak", "ours", priorityClassName="gpu-normal")
    here.user("strong", "ours", priorityClassName="gpu-critical")
    here.wait_bound(2)

    here.user("boss", template="one", priorityClassName="gpu-high")

    settled(here, "boss", "0/1 nodes are available: 1 cannot allocate all claims")
    assert names(here) == {"weak", "strong", "boss"}


def test_kube_scheduler_preempts_no_pod_for_devices_and_we_do(
    here: Devices, cp: ControlPlane, kwok_node: MakeNode
) -> None:
    """Every rejection of its DynamicResources is final; the next pod differs by its scheduler."""
    here.publish(kwok_node("dra-differs"), "gpu-0")
    here.template("one")
    with kube_scheduler(cp):
        here.user("low", template="one", priorityClassName="gpu-normal")
        here.wait_bound(1)
        here.user(
            "theirs", template="one", priorityClassName="gpu-high", scheduler="default-scheduler"
        )
        here.wait_explained("theirs", "Preemption is not helpful for scheduling")
        assert names(here) == {"low", "theirs"}
        here.client.delete(here.path("Pod", "theirs"))

    here.user("ours", template="one", priorityClassName="gpu-high")

    here.wait_told("low", "Preempted")
    here.wait("ours alone", lambda items: [node_of(i) for i in items] == ["dra-differs"])
    assert names(here) == {"ours"}
