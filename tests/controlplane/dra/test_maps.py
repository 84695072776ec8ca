"""Maps on nodes whose GPUs are DRA devices, on a real API server with the webhook."""

from __future__ import annotations

from typing import Any

import pytest

from scheduler.model import well_known
from tests.controlplane.conftest import MakeNode
from tests.controlplane.dra.conftest import Devices
from tests.controlplane.preemption_scene import lab_classes, names
from tests.controlplane.workloads import Json, annotation, controlled, cuda, node_of, pod
from tests.dra_gpus import NAMES, PERMUTED, gpu
from tools.controlplane import ControlPlane
from tools.product import Product

EXTENDED = pytest.mark.kubernetes("1.36", "DRAExtendedResource is off by default before")

GPU = "nvidia.com/gpu"
MAP = "gpu-scheduling-map"
WHOLE = (
    "device.driver == 'gpu.nvidia.com' && device.attributes['gpu.nvidia.com'].type == 'gpu'"
    " && device.attributes['gpu.nvidia.com'].productName == '{}'"
)


@pytest.fixture
def gpus(here: Devices) -> Devices:
    """A namespace whose class offers GPUs of NVIDIA's driver as ``nvidia.com/gpu``."""
    here.driver = "gpu.nvidia.com"
    selector = WHOLE.format(here.namespace)
    here.device_class("whole", selector, extendedResourceName=GPU)
    return here


def publish(gpus: Devices, node: str) -> None:
    """Four GPUs whose minors have another order than their PCI bus ids."""
    devices = []
    for minor, bus in enumerate(PERMUTED):
        device = gpu(minor, bus)
        device["attributes"]["productName"] = {"string": gpus.namespace}
        devices.append(device)
    gpus.publish(node, *devices)


def claimed(gpus: Devices, name: str) -> list[str]:
    """The devices of the claim for a pod's extended resources."""
    status = gpus.client.get(gpus.path("Pod", name))["status"]
    claim = status["extendedResourceClaimStatus"]["resourceClaimName"]
    results = gpus.status(claim)["allocation"]["devices"]["results"]
    return [str(one["device"]) for one in results]


def mapped(name: str, text: str, **more: Any) -> Json:
    """A bare pod with a map."""
    return pod(name, annotations={MAP: text}, **more)


def limits(item: Json) -> dict[str, str]:
    """The limits of a pod's first container."""
    found: dict[str, str] = item["spec"]["containers"][0].get("resources", {}).get("limits", {})
    return found


@EXTENDED
@pytest.mark.smoke
def test_the_claims_of_mapped_pods_get_the_devices_of_their_lines(
    gpus: Devices, kwok_node: MakeNode, product: Product
) -> None:
    """The webhook adds the request; nvidia-smi's index is the order of the bus ids."""
    name = kwok_node("dra-1")
    publish(gpus, name)
    text = f"0={name}:2,0\n1={name}:3"

    # The webhook answers by what the scheduler has seen of the slices.
    gpus.create(mapped("probe-9", f"9={name}:1", limits={GPU: "1"}))
    gpus.wait_bound(1)
    gpus.create(controlled("StatefulSet", "w", replicas=2, annotations={MAP: text}))
    bound = {item["metadata"]["name"]: item for item in gpus.wait_bound(3) if node_of(item)}

    assert {name: limits(item) for name, item in bound.items()} == {
        "probe-9": {GPU: "1"},
        "w-0": {GPU: "2"},
        "w-1": {GPU: "1"},
    }
    assert {name: claimed(gpus, name) for name in bound} == {
        "probe-9": [NAMES[1]],
        "w-0": [NAMES[2], NAMES[0]],
        "w-1": [NAMES[3]],
    }
    given = {name: annotation(item, well_known.DEVICES) for name, item in bound.items()}
    assert given == {
        "probe-9": f"gpu:1; claim:{NAMES[1]}",
        "w-0": f"gpu:2,0; claim:{NAMES[2]},{NAMES[0]}",
        "w-1": f"gpu:3; claim:{NAMES[3]}",
    }
    assert {cuda(item) for item in bound.values()} == {None}
    assert annotation(bound["w-0"], well_known.MAP_REQUEST) == "app=2"
    assert product.is_running("scheduler")


@EXTENDED
def test_a_device_in_use_is_told_with_its_holder_until_it_is_free(
    gpus: Devices, kwok_node: MakeNode
) -> None:
    name = kwok_node("dra-1")
    publish(gpus, name)
    gpus.create(mapped("a-0", f"0={name}:1", limits={GPU: "1"}))
    gpus.wait_bound(1)

    gpus.create(mapped("b-0", f"0={name}:1", limits={GPU: "1"}))
    gpus.wait_explained("b-0", "where GPU 1 is held by claim a-0-extended-resources-")
    gpus.client.delete(gpus.path("Pod", "a-0"))

    gpus.wait("b-0 to be bound", lambda items: list(map(node_of, items)) == [name])
    assert claimed(gpus, "b-0") == [NAMES[1]]


@EXTENDED
def test_pod_created_before_its_node_waits_with_the_needed_request(
    gpus: Devices, kwok_node: MakeNode
) -> None:
    name = f"{gpus.namespace}-late"
    gpus.create(mapped("a-0", f"0={name}:0,1"))
    gpus.wait_explained("a-0", f"no node is named {name}")

    publish(gpus, name)
    kwok_node(name)

    gpus.wait_explained("a-0", f"to a pod that requests none; request {GPU}: 2")


def test_a_pod_that_came_before_the_slices_of_its_node_waits(
    gpus: Devices, kwok_node: MakeNode
) -> None:
    """The webhook added none; the taint keeps the pod from the node until the driver publishes."""
    name = kwok_node(f"{gpus.namespace}-bare", taints=[{"key": "t", "effect": "NoSchedule"}])
    gpus.create(mapped("a-0", f"0={name}:0,1"))
    gpus.wait_explained("a-0", "untolerated taint")

    publish(gpus, name)
    gpus.create(mapped("probe-9", f"9={name}:3", limits={GPU: "1"}))
    gpus.wait_explained("probe-9", "untolerated taint")
    gpus.client.patch(f"/api/v1/nodes/{name}", {"spec": {"taints": []}})

    gpus.wait_explained("a-0", f"to a pod that requests none; request {GPU}: 2")
    gpus.wait("probe-9 to be bound", lambda items: name in map(node_of, items))
    assert claimed(gpus, "probe-9") == [NAMES[3]]


def test_claims_of_mapped_pods_get_their_lines_devices_or_a_reason(
    gpus: Devices, kwok_node: MakeNode
) -> None:
    """Two pods share the device by one claim."""
    name = kwok_node("dra-1")
    publish(gpus, name)
    gpus.claim("shared", gpus.request(class_name="whole"))
    gpus.claim("two", gpus.request(class_name="whole", count=2))
    text = f"0={name}:3\n1={name}:3"
    annotations = {MAP: text}

    gpus.user("a-0", "shared", annotations=annotations)
    gpus.wait_bound(1)
    gpus.user("a-1", "shared", annotations=annotations)
    gpus.user("b-0", "two", annotations={MAP: f"0={name}:0"})
    gpus.wait_bound(2)

    assert gpus.given("a-0") == gpus.given("a-1") == [f"{name}/{NAMES[3]}"]
    gpus.wait_explained(
        "b-0", "line 0 of gpu-scheduling-map names GPU 0 and the claims of the pod (two)"
    )


def test_a_mapped_pod_preempts_the_holder_of_its_device(
    gpus: Devices, kwok_node: MakeNode, cp: ControlPlane
) -> None:
    """The holders of the other three GPUs stay, although they are as unimportant."""
    name = kwok_node("dra-preempt")
    publish(gpus, name)
    with lab_classes(cp):
        for number in range(4):
            body = pod(f"low-{number}", limits={GPU: "1"}, priorityClassName="gpu-normal")
            gpus.create(body)
        gpus.wait_bound(4)
        [holder] = [f"low-{n}" for n in range(4) if claimed(gpus, f"low-{n}") == [NAMES[0]]]

        boss = mapped("boss-0", f"0={name}:0", limits={GPU: "1"}, priorityClassName="gpu-high")
        gpus.create(boss)

        gpus.wait_told(holder, "Preempted")
        gpus.wait("boss-0 to be bound", lambda items: len(items) == 4 and all(map(node_of, items)))
        assert names(gpus) == {f"low-{n}" for n in range(4)} - {holder} | {"boss-0"}
        assert claimed(gpus, "boss-0") == [NAMES[0]]
