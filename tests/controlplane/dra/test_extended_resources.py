"""Extended resources through DRA (KEP-5004) on a real API server, beside a device plugin."""

from __future__ import annotations

from typing import Any

import pytest

from tests.controlplane.conftest import MakeNode
from tests.controlplane.dra.conftest import Devices
from tests.controlplane.dra.test_undo import refused_bindings
from tests.controlplane.dra_objects import kube_scheduler
from tests.controlplane.workloads import Json, node_of, pod
from tests.dra import FINALIZER, allocation_json, claiming, result_json
from tools.controlplane import ControlPlane

pytestmark = pytest.mark.kubernetes("1.36", "DRAExtendedResource is off by default before")

GPU = "nvidia.com/gpu"
EXTENDED = "resource.kubernetes.io/extended-resource-claim"


@pytest.fixture
def gpus(here: Devices) -> Devices:
    """A namespace whose class offers its devices as ``nvidia.com/gpu``."""
    here.device_class("whole", f"device.driver == '{here.driver}'", extendedResourceName=GPU)
    return here


def asking(name: str, count: int = 1, **more: Any) -> Json:
    """The one pod spec for every kind of node."""
    return pod(name, limits={GPU: str(count)}, **more)


def claims(here: Devices) -> list[Json]:
    """The claims of the namespace."""
    items: list[Json] = here.client.get(here.claim_path())["items"]
    return items


def named_claim(here: Devices, name: str) -> Json:
    """What the status of a pod says about its claim; empty if it has none."""
    status = here.client.get(here.path("Pod", name))["status"]
    found: Json = status.get("extendedResourceClaimStatus") or {}
    return found


@pytest.mark.smoke
def test_one_pod_spec_runs_on_a_plugin_node_and_on_a_dra_node(
    gpus: Devices, kwok_node: MakeNode
) -> None:
    kwok_node("plugin-1", gpus=1)
    gpus.publish(kwok_node("dra-1"), "gpu-0")

    gpus.create(asking("a"))
    gpus.wait_bound(1)
    gpus.create(asking("b"))
    gpus.wait_bound(2)
    gpus.create(asking("c"))
    gpus.wait_explained("c", f"Insufficient {GPU} (need 1; best node has 0 free)")

    on = {node_of(gpus.client.get(gpus.path("Pod", name))): name for name in "ab"}
    assert on.keys() == {"plugin-1", "dra-1"}
    assert named_claim(gpus, on["plugin-1"]) == {}
    [claim] = claims(gpus)
    said = named_claim(gpus, on["dra-1"])
    assert said["resourceClaimName"] == claim["metadata"]["name"]
    assert said["requestMappings"] == [
        {"containerName": "app", "resourceName": GPU, "requestName": "container-0-request-0"}
    ]
    [result] = claim["status"]["allocation"]["devices"]["results"]
    assert (result["pool"], result["device"]) == ("dra-1", "gpu-0")

    gpus.client.delete(gpus.path("Pod", on["dra-1"]))
    gpus.wait(
        "c to be bound",
        lambda items: [node_of(i) for i in items if i["metadata"]["name"] == "c"] == ["dra-1"],
    )


def shape(claim: Json) -> Json:
    """A claim without names, times and uids."""
    meta = claim["metadata"]
    [owner] = meta["ownerReferences"]
    [consumer] = claim["status"]["reservedFor"]
    allocation = claim["status"]["allocation"]
    results = allocation["devices"]["results"]
    return {
        "prefix": meta["name"][:-5].replace(owner["name"], "POD"),
        "generated": meta["generateName"].replace(owner["name"], "POD"),
        "annotations": meta["annotations"],
        "finalizers": meta["finalizers"],
        "owner": {**owner, "uid": "", "name": ""},
        "spec": claim["spec"],
        "consumer": {**consumer, "uid": "", "name": ""},
        "requests": [one["request"] for one in results],
        "nodes": allocation["nodeSelector"],
        "config": allocation["devices"].get("config"),
    }


def containers(here: Devices) -> dict[str, Any]:
    """Init containers, a sidecar and two resources of one class each."""
    other = f"deviceclass.resource.kubernetes.io/{here.named('gpu')}"

    def one(name: str, limits: Json, **more: Any) -> Json:
        return {"name": name, "image": "none", "resources": {"limits": limits}, **more}

    return {
        "initContainers": [
            one("first", {GPU: "3"}),
            one("beside", {GPU: "1"}, restartPolicy="Always"),
            one("second", {GPU: "2", "cpu": "1"}),
        ],
        "containers": [one("app", {GPU: "1", other: "1", "cpu": "1"}), one("more", {"cpu": "1"})],
    }


def test_claim_is_as_kube_scheduler_writes_it(
    gpus: Devices, cp: ControlPlane, kwok_node: MakeNode
) -> None:
    """Pods bound by either scheduler count through their claims, for both of them."""
    gpus.publish(kwok_node("equal-1"), *(f"gpu-{number}" for number in range(9)))
    spec = containers(gpus)
    with kube_scheduler(cp):
        gpus.create(pod("theirs", scheduler="default-scheduler", **spec))
        gpus.wait_bound(1)
    gpus.create(pod("ours", **spec))
    gpus.wait_bound(2)
    gpus.create(pod("late", **spec))
    gpus.wait_explained("late", "Insufficient ")

    by_owner = {one["metadata"]["ownerReferences"][0]["name"]: one for one in claims(gpus)}
    assert shape(by_owner["ours"]) == shape(by_owner["theirs"])
    ours, theirs = (named_claim(gpus, name) for name in ("ours", "theirs"))
    assert ours["requestMappings"] == theirs["requestMappings"]
    devices = [
        result["device"]
        for one in by_owner.values()
        for result in one["status"]["allocation"]["devices"]["results"]
    ]
    assert len(devices) == len(set(devices)) == 8


def test_refused_binding_deletes_the_claim(gpus: Devices, kwok_node: MakeNode) -> None:
    gpus.publish(kwok_node("undone-1"), "gpu-0")
    with refused_bindings(gpus):
        gpus.create(asking("a"))
        gpus.wait_explained("a", "binding failed: ")
        gpus.client.wait_for(
            gpus.claim_path(), lambda seen: not seen["items"], what="the claim to be deleted"
        )

    gpus.wait("a to be bound", lambda items: any(map(node_of, items)))
    gpus.client.wait_for(
        gpus.claim_path(), lambda seen: len(seen["items"]) == 1, what="former claims to go"
    )
    [claim] = claims(gpus)
    assert named_claim(gpus, "a")["resourceClaimName"] == claim["metadata"]["name"]


@pytest.mark.parametrize("is_allocated", [False, True], ids=["created", "allocated"])
def test_claim_of_an_earlier_attempt_is_deleted(
    gpus: Devices, kwok_node: MakeNode, is_allocated: bool
) -> None:
    """A process that ended before the Binding left it: it holds the only device."""
    node = kwok_node("left-1")
    gpus.publish(node, "gpu-0")
    gate = [{"name": "example.com/wait"}]
    made = gpus.create(asking("a", schedulingGates=gate))
    owner = {"apiVersion": "v1", "kind": "Pod", "name": "a", "uid": made["metadata"]["uid"]}
    meta = {
        "name": "a-extended-resources-left",
        "ownerReferences": [{**owner, "controller": True}],
        "finalizers": [FINALIZER],
    }
    request = {**gpus.request("container-0-request-0"), "name": "container-0-request-0"}
    gpus.client.create(gpus.claim_path(), {"metadata": meta, "spec": gpus.spec(request)})
    if is_allocated:
        result = result_json("gpu-0", node, driver=gpus.driver, request="container-0-request-0")
        user = {"resource": "pods", "name": "a", "uid": owner["uid"]}
        status = {"allocation": allocation_json(result, node=node), "reservedFor": [user]}
        path = f"{gpus.claim_path('a-extended-resources-left')}/status"
        gpus.client.patch(path, {"status": status})

    # Only now: the scheduler may delete a claim with the annotation at once.
    left = gpus.claim_path("a-extended-resources-left")
    gpus.client.patch(left, {"metadata": {"annotations": {EXTENDED: "true"}}})
    gpus.client.patch(gpus.path("Pod", "a"), {"spec": {"schedulingGates": None}})

    gpus.wait("a to be bound", lambda items: any(map(node_of, items)))
    gpus.client.wait_for(
        gpus.claim_path(), lambda seen: len(seen["items"]) == 1, what="the former claim to go"
    )
    [claim] = claims(gpus)
    assert claim["metadata"]["name"] != "a-extended-resources-left"
    assert named_claim(gpus, "a")["resourceClaimName"] == claim["metadata"]["name"]


def test_claims_and_extended_resources_of_a_pod_share_no_device(
    gpus: Devices, kwok_node: MakeNode
) -> None:
    gpus.publish(kwok_node("both-1"), "gpu-0", "gpu-1")
    gpus.claim("mine")

    gpus.create(asking("a", **claiming("mine")))

    gpus.wait_bound(1)
    devices = [
        result["device"]
        for one in claims(gpus)
        for result in one["status"]["allocation"]["devices"]["results"]
    ]
    assert sorted(devices) == ["gpu-0", "gpu-1"]
