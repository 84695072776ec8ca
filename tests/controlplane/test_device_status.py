"""A kubelet's device status of pods, and the events about it, on the real API server.

The node has no kubelet: the test writes what a kubelet of Kubernetes 1.37 writes.
"""

from __future__ import annotations

import json

import pytest

from tests.controlplane.broken_node import GPU, broken_node
from tests.controlplane.workloads import Json, Watcher, annotation, node_of, pod
from tests.unit.gpuctl.cli import gpuctl
from tools.controlplane import ControlPlane, wait_until

pytestmark = pytest.mark.kubernetes("1.36", "kubelets write no device status by default before")

NUMBERED = {"gpu-scheduler.io/devices": "numbered"}
TABLE = {"gpu-scheduler.io/gpu-ids": "GPU-a,GPU-b"}
DEVICES = "gpu-scheduler.io/devices"
NODE_EVENTS = "/apis/events.k8s.io/v1/namespaces/default/events"


@pytest.fixture
def name(namespace: str) -> str:
    """A node's name of each test's own: pods stay on the books when their node is gone."""
    return f"by-hand-{namespace}"


def bound(here: Watcher, name: str) -> Json:
    """The pod as soon as it has a node."""
    found: Json = here.client.wait_for(
        f"{here.pods_path}/{name}", lambda seen: bool(node_of(seen)), what=f"{name} to be bound"
    )
    return found


def told(here: Watcher, name: str, reason: str) -> list[str]:
    return [str(one["note"]) for one in here.events(name) if one["reason"] == reason]


def test_pod_with_an_unhealthy_gpu_gets_one_event(
    cp: ControlPlane, here: Watcher, name: str
) -> None:
    with broken_node(cp, name) as kubelet:
        here.create(pod("hurt", limits={GPU: "1"}))
        item = bound(here, "hurt")
        kubelet.give(item, "GPU-b")
        kubelet.give(item, "GPU-b", "Unhealthy")
        here.wait_told("hurt", "GpuFailed")
        # Another pod of the node hears nothing, and the same word again is no news.
        here.create(pod("well", limits={GPU: "1"}))
        kubelet.give(bound(here, "well"), "GPU-a")
        kubelet.give(item, "GPU-b", "Unhealthy")
        here.create(pod("last", limits={GPU: "1"}))
        here.wait_explained("last", f"Insufficient {GPU}")

        assert told(here, "hurt", "GpuFailed") == [
            f"GPU GPU-b of node {name} is reported as unhealthy; this pod holds it; give the pod"
            f" another GPU: kubectl -n {here.namespace} get pod hurt -o yaml | kubectl replace"
            " --force -f -; the node's kernel log has the cause"
        ]
        assert told(here, "well", "GpuFailed") == []


def test_label_contradicting_the_plugin_is_reported(
    cp: ControlPlane, here: Watcher, name: str
) -> None:
    """The kubelet gives another GPU for the same number; the node's owner and the doctor say so."""
    with broken_node(cp, name, labels=NUMBERED) as kubelet:
        for each, gpu in (("first", "GPU-a"), ("second", "GPU-b")):
            here.create(pod(each, limits={GPU: "1"}))
            item = bound(here, each)
            assert annotation(item, DEVICES) == "gpu:0"
            kubelet.give(item, gpu)
            # The scheduler looks once a second at what changed.
            if each == "first":
                see(here, kubelet.name)
                here.client.delete(f"{here.pods_path}/first?gracePeriodSeconds=0")

        def notes() -> list[str]:
            return [
                str(one["note"])
                for one in cp.client.get(NODE_EVENTS)["items"]
                if one["reason"] == "DevicesLabelInvalid" and one["regarding"]["name"] == name
            ]

        wait_until(lambda: bool(notes()), what="the event on the node")
        assert notes() == [
            "label gpu-scheduler.io/devices=numbered is wrong: the device plugin does not give the"
            f" GPUs that gpu-scheduler chooses (pod {here.namespace}/first was assigned gpu:0 and"
            f" has GPU-a; pod {here.namespace}/second was assigned gpu:0 and has GPU-b); remove the"
            f" label: kubectl label node {name} gpu-scheduler.io/devices- and recreate the pods"
            " that were placed while it was set"
        ]
        said = gpuctl("doctor", "--kubeconfig", str(cp.kubeconfig), "-n", here.namespace, "-ojson")
        [finding] = [one for one in json.loads(said.out) if one["about"] == "numbers"]
        assert finding["level"] == "FAIL"
        assert f"kubectl label node {name} gpu-scheduler.io/devices-" in finding["advice"]


def see(here: Watcher, node_name: str) -> None:
    """Wait until the scheduler has looked at what its pods have on a node.

    It tells of a failed GPU in the same look, so a pod of another scheduler with one shows it.
    """
    here.create(pod("mark", scheduler="none", limits={GPU: "1"}))
    here.bind("mark", node_name, {})
    container = {
        "name": "app",
        "image": "app",
        "imageID": "",
        "ready": True,
        "restartCount": 0,
        "allocatedResourcesStatus": [
            {"name": GPU, "resources": [{"resourceID": "GPU-z", "health": "Unhealthy"}]}
        ],
    }
    status = {"status": {"phase": "Running", "containerStatuses": [container]}}
    here.client.patch(f"{here.pods_path}/mark/status", status)
    here.wait_told("mark", "GpuFailed")
    here.client.delete(f"{here.pods_path}/mark?gracePeriodSeconds=0")


def test_map_to_a_failed_gpu_waits_until_the_gpu_recovers(
    cp: ControlPlane, here: Watcher, name: str
) -> None:
    """Two pods of one map may share the GPU; only the table says which one failed."""
    text = {"gpu-scheduling-map": f"0={name}:1\n1={name}:1"}
    with broken_node(cp, name, labels=NUMBERED, annotations=TABLE) as kubelet:
        here.create(pod("w-0", limits={GPU: "1"}, annotations=text))
        item = bound(here, "w-0")
        kubelet.give(item, "GPU-b", "Unhealthy")
        here.wait_told("w-0", "GpuFailed")
        assert told(here, "w-0", "GpuFailed")[0].startswith(f"GPU 1 (GPU-b) of node {name} is")

        here.create(pod("w-1", limits={GPU: "1"}, annotations=text))
        here.wait_explained("w-1", "1 node(s) whose GPU 1 failed")
        kubelet.give(item, "GPU-b")
        assert annotation(bound(here, "w-1"), DEVICES) == "gpu:1"
