"""Our scheduler, our device plugin and the real kubelet: the devices that are chosen are given."""

from __future__ import annotations

import functools
import json
import logging
import time

import pytest

from tests.e2e.agent import DEVICES, FAILURES, GPU, indexes, wait_allocatable
from tests.e2e.conftest import Pool
from tests.e2e.containers import create, delete, one_gpu_pod, run, shell_pod, wait_for_phase
from tools.controlplane import ControlPlane, wait_until
from tools.product import Product
from tools.realnode import RealNode

ALL_AT_ONCE_S = 60.0
log = logging.getLogger(__name__)


def holds(cp: ControlPlane, node: RealNode, namespace: str, told: dict[str, list[int]]) -> bool:
    """Whether the kubelet gave each pod the GPUs of these indexes."""
    path = f"/api/v1/namespaces/gpu-operator/configmaps/topology-{node.name}"
    data = cp.client.get(path)["data"]
    ids = [line.split("id: ")[1] for line in data["topology.yml"].splitlines() if "- id: " in line]
    return told == {
        holder.split("/")[1]: sorted(ids.index(one) for one in given)
        for holder, given in json.loads(data["assigned.json"]).items()
        if holder.startswith(f"{namespace}/")
    }


def time_to_run(cp: ControlPlane, namespace: str, names: list[str], scheduler: str) -> float:
    """Seconds until pods of one GPU each, created one after the other, all run."""
    began = time.monotonic()
    for name in names:
        create(cp, namespace, one_gpu_pod(name, scheduler))
    for name in names:
        wait_for_phase(cp, namespace, name, "Running")
    return time.monotonic() - began


def chosen(cp: ControlPlane, namespace: str, name: str) -> list[int]:
    """Indexes that the scheduler wrote on a pod."""
    pod = cp.client.get(f"/api/v1/namespaces/{namespace}/pods/{name}")
    written = pod["metadata"]["annotations"][DEVICES]
    return sorted(int(number) for number in written.removeprefix("gpu:").split(","))


def test_a_map_reaches_the_hardware(cp: ControlPlane, eight: RealNode, namespace: str) -> None:
    """A mapped pod that requests two GPUs from the plugin gets the two in its map."""
    told = {"gpu-scheduling-map": f"0={eight.name}:6,3"}
    pod = shell_pod("mapped-0", limits={GPU: "2"}, annotations=told, schedulerName="gpu-scheduler")
    run(cp, namespace, pod)

    assert indexes(cp, eight, namespace, "mapped-0") == [3, 6]


def test_pods_of_one_size_each_get_what_was_chosen_for_them(
    cp: ControlPlane, eight: RealNode, namespace: str
) -> None:
    """Eight pods of the spec that runs on a DRA node too, at once: each sees the GPU of its
    annotation, and none waits long.
    """
    names = [f"equal-{number}" for number in range(8)]
    took_s = time_to_run(cp, namespace, names, "gpu-scheduler")

    told = {name: chosen(cp, namespace, name) for name in names}
    assert {name: indexes(cp, eight, namespace, name) for name in names} == told
    assert sorted(number for numbers in told.values() for number in numbers) == list(range(8))
    log.info("eight pods on a numbered node: %.1f s", took_s)
    assert took_s < ALL_AT_ONCE_S


@pytest.mark.nightly
def test_index_assignment_keeps_node_throughput(
    cp: ControlPlane, node: RealNode, product: Product, pool: Pool, namespace: str
) -> None:
    """16 pods at once: by index through our scheduler, and just by count through kube-scheduler,
    where the plugin has no choice to look up. The better of two runs each, in turns: a neighbour
    that takes the processor for one run changes nothing."""
    assert product.is_running("scheduler")
    pool("many")
    wait_allocatable(cp, node, gpu=32)
    rates: dict[str, list[float]] = {"default-scheduler": [], "gpu-scheduler": []}
    for turn in range(2):
        for name, measured in rates.items():
            names = [f"{name}-{turn}-{number}" for number in range(16)]
            measured.append(len(names) / time_to_run(cp, namespace, names, name))
            if name == "gpu-scheduler":
                told = {each: chosen(cp, namespace, each) for each in names}
                what = "each pod to hold what was chosen for it"
                wait_until(functools.partial(holds, cp, node, namespace, told), what=what)
            pods = f"/api/v1/namespaces/{namespace}/pods"
            cp.client.delete(f"{pods}?gracePeriodSeconds=1")
            cp.client.wait_for(pods, lambda seen: not seen["items"], what="room")
    log.info("pods/s on one node: %s", rates)
    assert max(rates["gpu-scheduler"]) > max(rates["default-scheduler"]) / 2


def test_failed_gpu_is_not_assigned_and_its_pod_gets_an_event(
    cp: ControlPlane, eight: RealNode, namespace: str
) -> None:
    """The pod on it gets an event; seven pods fill the rest, and none sees the failed one."""
    run(
        cp,
        namespace,
        shell_pod(
            "hurt-0",
            limits={GPU: "1"},
            annotations={"gpu-scheduling-map": f"0={eight.name}:2"},
            schedulerName="gpu-scheduler",
        ),
    )
    path = f"/api/v1/nodes/{eight.name}"
    cp.client.patch(path, {"metadata": {"annotations": {FAILURES: "2:xid-48"}}})
    wait_allocatable(cp, eight, gpu=7)

    events = f"/apis/events.k8s.io/v1/namespaces/{namespace}/events"
    wait_until(
        lambda: any(
            event["reason"] == "GpuFailed" and event["regarding"]["name"] == "hurt-0"
            for event in cp.client.get(events)["items"]
        ),
        what="the event on the pod",
    )
    # The kubelet's word about the pod's device is enough for it, too: no operator need say so.
    words = "GPU 2 (GPU-"
    wait_until(
        lambda: any(
            event["reportingController"] == "gpu-scheduler"
            and event["reason"] == "GpuFailed"
            and event["note"].startswith(words)
            and "is reported as unhealthy; this pod holds it" in event["note"]
            for event in cp.client.get(events)["items"]
        ),
        what="the scheduler's own event on the pod",
        last=lambda: cp.client.get(f"/api/v1/namespaces/{namespace}/pods/hurt-0")["status"],
    )
    delete(cp, namespace, "hurt-0")
    run(cp, namespace, shell_pod("rest", limits={GPU: "7"}, schedulerName="gpu-scheduler"))

    assert indexes(cp, eight, namespace, "rest") == [0, 1, 3, 4, 5, 6, 7]


def test_node_whose_plugin_follows_the_choice_keeps_its_label(
    cp: ControlPlane, eight: RealNode, namespace: str
) -> None:
    """The last test here: what every pod before had on this node is compared with its numbers."""
    run(cp, namespace, shell_pod("whole", limits={GPU: "8"}, schedulerName="gpu-scheduler"))
    path = f"/api/v1/namespaces/{namespace}/pods/whole"
    seen = cp.client.wait_for(
        path,
        lambda pod: "allocatedResourcesStatus" in pod["status"]["containerStatuses"][0],
        what="the kubelet to say which GPUs the pod has",
    )
    [told] = seen["status"]["containerStatuses"][0]["allocatedResourcesStatus"]
    table = cp.client.get(f"/api/v1/nodes/{eight.name}")["metadata"]["annotations"]
    ids = table["gpu-scheduler.io/gpu-ids"].split(",")
    assert sorted(one["resourceID"] for one in told["resources"]) == sorted(ids)

    said = cp.client.get("/apis/events.k8s.io/v1/namespaces/default/events")["items"]
    assert [
        one["note"] for one in said if one["reason"] in ("DevicesLabelInvalid", "GpuAssignedTwice")
    ] == []
