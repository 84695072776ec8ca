"""What becomes of claims when a placement fails, in every order: on a real API server."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from tests.controlplane.conftest import MakeNode
from tests.controlplane.dra.conftest import Devices
from tests.controlplane.tenants import said
from tests.controlplane.workloads import Json, away, node_of
from tests.dra import device_json
from tools.controlplane import wait_until
from tools.product import Product

ADMISSION = "/apis/admissionregistration.k8s.io/v1"


@contextmanager
def refused_bindings(here: Devices) -> Iterator[None]:
    """The API server refuses every Binding in the namespace while the block lasts."""
    name = here.named("no-bindings")
    rule = {
        "apiGroups": [""],
        "apiVersions": ["v1"],
        "operations": ["CREATE"],
        "resources": ["pods/binding"],
    }
    selector = {"matchLabels": {"kubernetes.io/metadata.name": here.namespace}}
    policy = {
        "metadata": {"name": name},
        "spec": {
            "matchConstraints": {"resourceRules": [rule], "namespaceSelector": selector},
            "validations": [{"expression": "false", "message": "no Bindings in this test"}],
        },
    }
    bound = {
        "metadata": {"name": name},
        "spec": {"policyName": name, "validationActions": ["Deny"]},
    }
    paths = [f"{ADMISSION}/validatingadmissionpolicies"]
    paths.append(f"{ADMISSION}/validatingadmissionpolicybindings")
    for path, body in zip(paths, (policy, bound), strict=True):
        here.client.create(path, body)
    here.user("probe", scheduler="nothing")
    probe: Json = {"metadata": {"name": "probe"}, "target": {"kind": "Node", "name": "nowhere"}}
    path = f"{here.path('Pod', 'probe')}/binding?dryRun=All"
    try:
        wait_until(
            lambda: "no Bindings" in said(lambda: here.client.create(path, probe)),
            what="Bindings to be refused",
        )
        yield
    finally:
        for path in paths:
            here.client.delete(f"{path}/{name}")
        here.client.delete(here.path("Pod", "probe"))


#: Without it the API server drops the conditions, and no Binding waits.
WAITS = pytest.mark.kubernetes("1.36", "DRADeviceBindingConditions is off by default before")


def waiting_device(name: str = "gpu-0", **more: Any) -> Json:
    """A device whose driver prepares it before the pod is bound."""
    return device_json(
        name, bindingConditions=["Ready"], bindingFailureConditions=["Broken"], **more
    )


def tell(here: Devices, claim: str, condition: str) -> None:
    """The driver sets a condition of the claim's first device."""
    [result] = here.status(claim)["allocation"]["devices"]["results"]
    now = {"lastTransitionTime": "2026-01-01T00:00:00Z", "reason": "Test", "message": ""}
    conditions = [{"type": condition, "status": "True", **now}]
    device = {key: result[key] for key in ("driver", "pool", "device")}
    status = {"status": {"devices": [{**device, "conditions": conditions}]}}
    here.client.patch(f"{here.claim_path(claim)}/status", status)


def test_refused_binding_takes_the_reservation_back(here: Devices, kwok_node: MakeNode) -> None:
    """Case 60: the next attempt uses the allocation again."""
    here.publish(kwok_node("undo-1"), "gpu-0")
    here.claim("mine")
    with refused_bindings(here):
        here.user("a", "mine")
        here.wait_explained("a", "binding failed: ")
        here.wait_claim(
            "mine",
            "to be released",
            lambda seen: (
                "allocation" in seen.get("status", {}) and not seen["status"].get("reservedFor")
            ),
        )

    here.wait("a to be bound", lambda items: any(node_of(one) for one in items))
    assert here.users("mine") == {"a"}
    assert here.given("a") == ["undo-1/gpu-0"]


def test_refused_binding_leaves_the_reservation_of_another_pod(
    here: Devices, kwok_node: MakeNode
) -> None:
    """Case 60: a claim shared by two pods."""
    here.publish(kwok_node("undo-2"), "gpu-0")
    here.claim("shared")
    here.user("a", "shared")
    here.wait_bound(1)
    with refused_bindings(here):
        here.user("b", "shared")
        here.wait_explained("b", "binding failed: ")
        here.wait_claim("shared", "to be a's", lambda _: here.users("shared") == {"a"})

    here.wait_bound(2)
    assert here.users("shared") == {"a", "b"}


@WAITS
def test_binding_waits_for_the_conditions_of_a_device(here: Devices, kwok_node: MakeNode) -> None:
    here.publish(kwok_node("ready-1"), waiting_device())
    here.claim("mine")

    here.user("a", "mine")

    waiting = here.wait_explained("a", "waits for condition Ready of device")
    assert waiting["status"]["nominatedNodeName"] == "ready-1"
    claim = here.wait_claim("mine", "to be reserved", lambda _: here.users("mine") == {"a"})
    assert claim["status"]["allocation"]["allocationTimestamp"]
    assert not node_of(here.client.get(here.path("Pod", "a")))
    tell(here, "mine", "Ready")
    here.wait_bound(1)


@WAITS
def test_device_that_fails_is_given_back_and_another_node_is_tried(
    here: Devices, kwok_node: MakeNode
) -> None:
    here.publish(kwok_node("broken-1"), waiting_device())
    here.claim("mine")
    here.user("a", "mine")
    here.wait_claim("mine", "to be reserved", lambda _: here.users("mine") == {"a"})
    here.client.patch("/api/v1/nodes/broken-1", {"spec": {"unschedulable": True}})
    here.publish(kwok_node("broken-2"), "gpu-0")

    tell(here, "mine", "Broken")

    here.wait_bound_to({"broken-2"})
    assert here.given("a") == ["broken-2/gpu-0"]


@WAITS
def test_pod_deleted_during_the_wait_frees_its_device(here: Devices, kwok_node: MakeNode) -> None:
    here.publish(kwok_node("gone-1"), waiting_device())
    here.template("one-gpu")
    here.claim("mine")
    here.user("a", "mine")
    here.wait_claim("mine", "to be reserved", lambda _: here.users("mine") == {"a"})

    here.client.delete(here.path("Pod", "a"))

    here.wait_claim("mine", "to be released", lambda _: here.users("mine") == set())
    here.user("b", "mine")
    here.wait_claim("mine", "to be b's", lambda _: here.users("mine") == {"b"})
    tell(here, "mine", "Ready")
    here.wait("b to be bound", lambda items: any(node_of(one) for one in items))


@WAITS
def test_nothing_is_lost_when_the_scheduler_restarts_in_between(
    here: Devices, product: Product, kwok_node: MakeNode
) -> None:
    """The claim says which device the pod has; the next process goes on from there."""
    for name in ("again-1", "again-2"):
        here.publish(kwok_node(name), waiting_device())
    here.claim("mine")
    here.user("a", "mine")
    claim = here.wait_claim("mine", "to be reserved", lambda _: here.users("mine") == {"a"})
    [before] = here.given("a")
    with away(product, "scheduler", crash=True):
        tell(here, "mine", "Ready")

    [bound] = here.wait_bound(1)
    assert here.given("a") == [before]
    assert f"{node_of(bound)}/gpu-0" == before
    after = here.client.get(here.claim_path("mine"))
    assert after["metadata"]["uid"] == claim["metadata"]["uid"]

    here.claim("more")
    here.user("b", "more")
    here.wait_claim("more", "to be reserved", lambda _: here.users("more") == {"b"})
    with away(product, "scheduler", crash=True):
        pass
    tell(here, "more", "Ready")
    here.wait_bound(2)


def test_allocation_that_no_node_can_use_any_more_is_given_up(
    here: Devices, kwok_node: MakeNode
) -> None:
    """A claim that nothing else has reserved is allocated on another node."""
    here.publish(kwok_node("stuck-1"), "gpu-0")
    here.claim("mine")
    with refused_bindings(here):
        here.user("a", "mine")
        here.wait_explained("a", "binding failed: ")
        here.client.patch("/api/v1/nodes/stuck-1", {"spec": {"unschedulable": True}})
        here.publish(kwok_node("stuck-2"), "gpu-0")

    here.wait_bound_to({"stuck-2"})
    assert here.given("a") == ["stuck-2/gpu-0"]
