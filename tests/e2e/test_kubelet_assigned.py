"""Maps on a real kubelet whose fake plugin picks the GPUs itself, as NVIDIA's plugin does."""

from __future__ import annotations

from typing import Any

import pytest

from tests.controlplane.workloads import Watcher, annotation, cuda, node_of
from tests.e2e.agent import DEVICES, FAILURES, GPU, POOL, Agent, wait_allocatable
from tests.e2e.conftest import Pool
from tests.e2e.containers import Json, create, one_gpu_pod, run, shell_pod, wait_for_phase
from tests.e2e.new_node import start_as_new
from tools.controlplane import ControlPlane, wait_until
from tools.realnode import RealNode

MAP = "gpu-scheduling-map"
SHARED = "nvidia.com/gpu.shared"
SCHEDULER = "gpu-scheduler"


class KubeletAssigned(Agent):
    """An agent that does not label its node as index-assigned."""

    def start(self, **settings: Any) -> None:
        super().start(nodeLabels={"numbered": False}, **settings)


@pytest.fixture(scope="module")
def agent_kind() -> type[Agent]:
    """The agent of this module."""
    return KubeletAssigned


@pytest.fixture
def shares(cp: ControlPlane, node: RealNode, agent: Agent, pool: Pool) -> RealNode:
    """A new node with two cards in four shares each, under the name ``nvidia.com/gpu.shared``."""
    pool("renamed")
    start_as_new(node, agent, {POOL: "renamed"})
    seen = wait_allocatable(cp, node, gpu__shared=8)
    assert GPU not in seen["status"]["allocatable"]
    return node


def mapped(name: str, text: str, **spec: Any) -> Json:
    return shell_pod(name, annotations={MAP: text}, schedulerName=SCHEDULER, **spec)


def test_statefulset_with_map_and_share_request_runs(
    cp: ControlPlane, shares: RealNode, here: Watcher
) -> None:
    """The kubelet gives the share; the pod is not created again for a variable it cannot have."""
    template = mapped("unused", f"0={shares.name}:1", limits={SHARED: "1"})
    labels = {"app": "s"}
    template["metadata"] = {"labels": labels, "annotations": template["metadata"]["annotations"]}
    template["spec"]["restartPolicy"] = "Always"
    body = {"serviceName": "s", "selector": {"matchLabels": labels}, "template": template}
    here.create(
        {"apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": {"name": "s"}, "spec": body}
    )

    pod = wait_for_phase(cp, here.namespace, "s-0", "Running")
    here.wait_told("s-0", "MapHonouredNodeOnly")

    assert (annotation(pod, DEVICES), cuda(pod)) == ("gpu.shared x 1", None)
    [now] = here.pods()
    assert now["metadata"]["uid"] == pod["metadata"]["uid"]


def test_map_gets_no_shared_or_missing_gpu(
    cp: ControlPlane, shares: RealNode, here: Watcher
) -> None:
    for number in range(8):
        share = shell_pod(f"share-{number}", limits={SHARED: "1"}, schedulerName=SCHEDULER)
        create(cp, here.namespace, share)
    for number in range(8):
        wait_for_phase(cp, here.namespace, f"share-{number}", "Running")

    here.create(mapped("held-0", f"0={shares.name}:0"))
    here.create(mapped("beyond-0", f"0={shares.name}:9"))

    here.wait_explained("held-0", "run pods that request GPUs or MIG instances")
    here.wait_explained("beyond-0", "without GPU 9 (the node has 2)")


def test_map_uses_only_healthy_gpus(
    cp: ControlPlane, node: RealNode, pool: Pool, here: Watcher
) -> None:
    """Eight cards, two failed: the kubelet offers six, and GPU 7 is still there."""
    pool("eight")
    wait_allocatable(cp, node, gpu=8)
    path = f"/api/v1/nodes/{node.name}"
    cp.client.patch(path, {"metadata": {"annotations": {FAILURES: "1:xid-79,2:xid-79"}}})
    wait_allocatable(cp, node, gpu=6)

    here.create(mapped("failed-0", f"0={node.name}:1"))
    here.wait_explained("failed-0", "node(s) whose GPU 1 failed")
    sound = run(cp, here.namespace, mapped("sound-0", f"0={node.name}:7"))

    assert (annotation(sound, DEVICES), cuda(sound)) == ("gpu:7", "7")
    here.wait_told("sound-0", "MapWithoutRequest")


def test_pod_on_a_failed_gpu_gets_an_event_from_kubelet_status(
    cp: ControlPlane, node: RealNode, pool: Pool, here: Watcher
) -> None:
    """Which GPU the kubelet picked is not known before; its status names the id and its health."""
    pool("eight")
    wait_allocatable(cp, node, gpu=8)
    names = [f"w-{number}" for number in range(8)]
    for name in names:
        create(cp, here.namespace, one_gpu_pod(name))
    for name in names:
        wait_for_phase(cp, here.namespace, name, "Running")
    path = f"/api/v1/nodes/{node.name}"
    cp.client.patch(path, {"metadata": {"annotations": {FAILURES: "5:xid-79"}}})

    items = here.wait("one to be on a failed GPU", lambda items: any(map(sick_of, items)))

    [hurt] = [item for item in items if sick_of(item)]
    name = str(hurt["metadata"]["name"])
    wait_until(
        lambda: any(
            (event["reason"], event["reportingController"]) == ("GpuFailed", SCHEDULER)
            and sick_of(hurt) in event["note"]
            for event in here.events(name)
        ),
        what="the scheduler's event on the pod",
        last=lambda: here.events(name),
    )
    assert [node_of(item) for item in items] == [node.name] * 8


def sick_of(item: Json) -> str:
    """The id of the pod's GPU that its kubelet calls unhealthy, or nothing."""
    for status in item["status"].get("containerStatuses", ()):
        for resource in status.get("allocatedResourcesStatus", ()):
            for one in resource["resources"]:
                if one["health"] == "Unhealthy":
                    return str(one["resourceID"])
    return ""
