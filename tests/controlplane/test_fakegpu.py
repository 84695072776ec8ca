"""The fake GPU operator on the real API server: KWOK nodes get what their pool says, and lose it.

One controller, as its ServiceAccount with the roles that we ship, serves the whole file.
"""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from collections.abc import Iterator
from typing import Any

import pytest

from tests.controlplane.conftest import MakeNode
from tests.controlplane.gpu_nodes import Nodes, killed, nvidia
from tests.controlplane.history import states
from tests.controlplane.workloads import Json, Watcher, pod
from tools.controlplane import ControlPlane
from tools.fake_operator import NAMESPACE, FakeOperator

POOL = "run.ai/simulated-gpu-node-pool"
GPU = "nvidia.com/gpu"
MIG_1G, MIG_2G = "nvidia.com/mig-1g.10gb", "nvidia.com/mig-2g.20gb"
H200: Json = {"gpuProduct": "NVIDIA-H200", "gpuCount": 4, "gpuMemory": 71680}
ONE_G: Json = {"mig-devices": {"1g.10gb": 7}}
POOLS: Json = {
    "small": {**H200, "mig": ONE_G},
    "medium": {**H200, "mig": {"mig-devices": {"2g.20gb": 3, "1g.10gb": 1}}},
    "whole": {"gpus": [{"type": "Tesla K80", "memory": "12GB", "count": 2}]},
    "a100": {"gpu": {"profile": "a100"}},
}


def topology(**changes: Json) -> Json:
    return {"nodePools": {**POOLS, **changes}, "migStrategy": "mixed"}


@pytest.fixture(scope="module")
def operator(cp: ControlPlane, tmp_path_factory: pytest.TempPathFactory) -> Iterator[FakeOperator]:
    running = FakeOperator(
        cp, tmp_path_factory.mktemp("fakegpu"), config={"mig": {"latencyS": 0.3}}
    )
    running.install()
    running.configure(topology())
    with running:
        yield running


@pytest.fixture
def pools(operator: FakeOperator) -> Iterator[FakeOperator]:
    """The operator, whose pools are as before again after the test."""
    yield operator
    operator.configure(topology())


@pytest.fixture
def nodes(cp: ControlPlane, operator: FakeOperator) -> Nodes:
    return Nodes(cp)


@pytest.mark.contract("S0-3", "S0-6", "S0-7", "S0-B1", "S1-2", "S1-64")
def test_seed_000_pools_advertise_28_12_and_4(
    cp: ControlPlane, nodes: Nodes, kwok_node: MakeNode
) -> None:
    kwok_node("fg-small", labels={POOL: "small"})
    kwok_node("fg-medium", labels={POOL: "medium"})

    nodes.wait_offer("fg-small", {MIG_1G: "28"})
    nodes.wait_offer("fg-medium", {MIG_2G: "12", MIG_1G: "4"})
    columns = (
        r"custom-columns=NAME:.metadata.name,ONE:.status.capacity.nvidia\.com/mig-1g\.10gb,"
        r"TWO:.status.capacity.nvidia\.com/mig-2g\.20gb"
    )
    printed = cp.kubectl("get", "nodes", "fg-small", "fg-medium", "-o", columns)
    assert [line.split() for line in printed.splitlines()[1:]] == [
        ["fg-small", "28", "<none>"],
        ["fg-medium", "4", "12"],
    ]


@pytest.mark.contract("S0-8", "S1-37", "S1-B4")
def test_every_edit_of_a_large_pool_takes_effect(
    pools: FakeOperator, nodes: Nodes, kwok_node: MakeNode
) -> None:
    kwok_node("fg-large", labels={POOL: "large"})
    nodes.wait("fg-large", "its start", lambda node: nvidia(node["status"]["capacity"]) == {})
    whole = {**H200, "mig": {"mig-devices": {"7g.70gb": 1}}}

    pools.configure(topology(large=whole))
    nodes.wait_offer("fg-large", {"nvidia.com/mig-7g.70gb": "4"})
    pools.configure(topology(large={**whole, "gpuCount": 2}))
    nodes.wait_offer("fg-large", {"nvidia.com/mig-7g.70gb": "2"})
    pools.configure(topology(large={"gpus": [{"type": "l40s", "count": 3}]}))
    node = nodes.wait_offer("fg-large", {GPU: "3"})

    assert node["metadata"]["labels"]["nvidia.com/gpu.product"] == "NVIDIA-L40S"
    assert node["metadata"]["labels"]["gpu-type"] == "l40s"
    assert not [k for k in node["metadata"]["labels"] if k.startswith("nvidia.com/mig-")]


def labels_of(node: Json) -> dict[str, str]:
    """Without those that the node controller copies when it comes to it."""
    labels: dict[str, str] = node["metadata"]["labels"]
    return {name: value for name, value in labels.items() if not name.startswith("beta.")}


@pytest.mark.contract("S1-4", "S1-5", "S1-9", "S1-24", "S1-B25")
def test_node_leaving_its_pool_is_restored(
    nodes: Nodes, kwok_node: MakeNode, operator: FakeOperator
) -> None:
    """By another value of the label, and by its removal; others' labels stay."""
    kwok_node("fg-leaves", labels={"mine": "stays"})
    before = nodes.client.get("/api/v1/nodes/fg-leaves")
    nodes.change("fg-leaves", labels={POOL: "a100"})
    there = nodes.wait_offer("fg-leaves", {GPU: "8"})
    assert (
        there["metadata"]["labels"]
        | {
            "nvidia.com/gpu.deploy.dcgm-exporter": "true",
            "nvidia.com/gpu.product": "NVIDIA-A100-SXM4-40GB",
            "nvidia.com/gpu.memory": "40960",
            "nvidia.com/gpu.count": "8",
            "nvidia.com/gpu.present": "true",
            "nvidia.com/mig.strategy": "mixed",
            "run.ai/fake.gpu": "true",
            "gpu-scheduler.io/devices": "numbered",
        }
        == there["metadata"]["labels"]
    )
    assert "gpuMemory: 40960" in nodes.topology("fg-leaves")
    path = f"/api/v1/namespaces/{NAMESPACE}/configmaps/topology-fg-leaves"
    written = nodes.client.get(path)["metadata"]
    assert written["labels"] == {"node-topology": "true", "node-name": "fg-leaves"}
    assert written["annotations"] == {"kwok.x-k8s.io/node": "fake"}

    nodes.change("fg-leaves", labels={POOL: "whole"})
    nodes.wait_offer("fg-leaves", {GPU: "2"})
    nodes.change("fg-leaves", labels={POOL: None})
    after = nodes.wait_offer("fg-leaves", {})

    assert labels_of(after) == labels_of(before)
    assert after["status"]["capacity"] == before["status"]["capacity"]
    nodes.wait_no_map("fg-leaves")


def test_nodes_deleted_during_downtime_leave_no_objects(
    operator: FakeOperator, nodes: Nodes, kwok_node: MakeNode, cp: ControlPlane
) -> None:
    """The next process cleans up: after a deleted node, and after one without its label."""
    kwok_node("fg-gone", labels={POOL: "whole"})
    kwok_node("fg-unlabelled", labels={POOL: "whole"})
    nodes.wait_offer("fg-gone", {GPU: "2"})
    nodes.wait_offer("fg-unlabelled", {GPU: "2"})

    with killed(operator):
        cp.client.delete("/api/v1/nodes/fg-gone")
        nodes.change("fg-unlabelled", labels={POOL: None})

    node = nodes.wait_offer("fg-unlabelled", {})
    assert "run.ai/fake.gpu" not in node["metadata"]["labels"]
    nodes.wait_no_map("fg-gone")
    nodes.wait_no_map("fg-unlabelled")
    names = {one["metadata"]["name"] for one in cp.client.get("/api/v1/nodes")["items"]}
    assert "fg-gone" not in names, "no write recreates it"


@pytest.mark.contract("S1-12", "S1-26", "S1-50", "S1-B14", "S1-B18")
def test_deleted_objects_are_restored_and_idle_nodes_are_not_written(
    nodes: Nodes, kwok_node: MakeNode, cp: ControlPlane
) -> None:
    kwok_node("fg-drift", labels={POOL: "whole"})
    nodes.wait_offer("fg-drift", {GPU: "2"})
    path = f"/api/v1/namespaces/{NAMESPACE}/configmaps/topology-fg-drift"

    cp.client.delete(path)
    cp.client.wait_for(path, lambda seen: seen is not None, what="the ConfigMap to come back")
    cp.client.patch(path, {"data": {"topology.yml": "gpus: []"}})
    cp.client.wait_for(
        path, lambda seen: "GPU-" in seen["data"]["topology.yml"], what="its content to come back"
    )
    nodes.change("fg-drift", labels={"nvidia.com/gpu.count": "9"})
    nodes.wait(
        "fg-drift",
        "its label",
        lambda node: node["metadata"]["labels"]["nvidia.com/gpu.count"] == "2",
    )
    offer = {"capacity": {GPU: None}, "allocatable": {GPU: None}}
    cp.client.patch("/api/v1/nodes/fg-drift/status", {"status": offer})
    node = nodes.wait_offer("fg-drift", {GPU: "2"})
    managers = {one["manager"] for one in node["metadata"]["managedFields"]}
    assert "fake-gpu-operator" in managers

    # A change by another user is no reason to write to the node.
    nodes.change("fg-drift", notes={"other": "user"})
    kwok_node("fg-after", labels={POOL: "whole"})
    nodes.wait_offer("fg-after", {GPU: "2"})
    now = cp.client.get("/api/v1/nodes/fg-drift")["metadata"]["managedFields"]
    times = [one["time"] for one in now if one["manager"] == "fake-gpu-operator"]
    assert times == [
        one["time"]
        for one in node["metadata"]["managedFields"]
        if one["manager"] == "fake-gpu-operator"
    ]


@pytest.mark.contract("S1-B2", "S1-19")
def test_invalid_pool_is_reported_on_its_nodes_only(
    pools: FakeOperator, nodes: Nodes, kwok_node: MakeNode
) -> None:
    kwok_node("fg-typo", labels={POOL: "whole"})
    kwok_node("fg-fine", labels={POOL: "a100"})
    nodes.wait_offer("fg-typo", {GPU: "2"})
    nodes.wait_offer("fg-fine", {GPU: "8"})

    typo = {"gpus": [{"typ": "Tesla K80"}]}
    pools.configure(topology(whole=typo, a100={"gpu": {"profile": "t4"}}))

    nodes.wait_offer("fg-fine", {GPU: "4"})
    nodes.wait("fg-typo", "its event", lambda _: bool(nodes.notes("fg-typo")))
    (note,) = nodes.notes("fg-typo")
    assert note["reason"] == "PoolInvalid"
    assert note["note"].startswith("nodePools.whole.gpus[0]: ")
    assert "`typ`" in note["note"]
    nodes.wait_offer("fg-typo", {GPU: "2"})


def mig_config(devices: str) -> Json:
    text = f"version: v1\nmig-configs:\n  selected:\n  - devices: all\n    mig-devices: {devices}\n"
    return {"run.ai/mig.config": text}


def state_of(node: Json) -> str:
    return str(node["metadata"]["labels"].get("nvidia.com/mig.config.state", ""))


@pytest.mark.contract("S1-8", "S1-60", "S1-61", "S1-B9", "S0-10")
def test_mig_configuration_is_applied_refused_and_reverted(
    nodes: Nodes, kwok_node: MakeNode, cp: ControlPlane
) -> None:
    kwok_node("fg-mig", labels={POOL: "a100"})
    nodes.wait_offer("fg-mig", {GPU: "8"})

    before = cp.client.get("/api/v1/nodes/fg-mig")
    nodes.change("fg-mig", notes=mig_config("{3g.20gb: 2}"))
    nodes.wait_offer("fg-mig", {"nvidia.com/mig-3g.20gb": "16"})
    node = nodes.wait("fg-mig", "success", lambda seen: state_of(seen) == "success")
    assert "run.ai/mig-mapping" in node["metadata"]["annotations"]
    told = [state_of(one) for one in states(cp, "/api/v1/nodes/fg-mig", before)]
    assert [*dict.fromkeys(filter(None, told))] == ["pending", "success"]

    nodes.change("fg-mig", notes=mig_config("{4g.20gb: 2}"))
    nodes.wait("fg-mig", "failed", lambda seen: state_of(seen) == "failed")
    nodes.wait("fg-mig", "its event", lambda _: "4g.20gb" in str(nodes.notes("fg-mig")))
    nodes.wait_offer("fg-mig", {"nvidia.com/mig-3g.20gb": "16"})

    nodes.change("fg-mig", notes={"run.ai/mig.config": None})
    node = nodes.wait_offer("fg-mig", {GPU: "8"})
    node = nodes.wait("fg-mig", "no state", lambda seen: state_of(seen) == "")
    assert "run.ai/mig-mapping" not in node["metadata"]["annotations"]

    nodes.change("fg-mig", labels={"nvidia.com/mig.config": "all-1g.5gb"})
    nodes.wait_offer("fg-mig", {"nvidia.com/mig-1g.5gb": "56"})


def test_repartition_fails_as_configured_and_waits_for_gpu_users(
    nodes: Nodes, kwok_node: MakeNode, namespace: str, cp: ControlPlane
) -> None:
    kwok_node("fg-fails", labels={POOL: "a100"})
    nodes.wait_offer("fg-fails", {GPU: "8"})
    here = Watcher(cp, namespace)
    here.create(pod("holder", limits={GPU: "1"}, nodeName="fg-fails"))
    nodes.wait("fg-fails", "it", lambda _: "pod: holder" in nodes.topology("fg-fails"))

    nodes.change("fg-fails", notes=mig_config("{3g.20gb: 2}"))
    nodes.wait("fg-fails", "its event", lambda _: "is in use by" in str(nodes.notes("fg-fails")))
    nodes.change("fg-fails", notes={"gpu-scheduler.io/fake-mig": "latency=0s,fail=1"})
    here.client.delete(here.path("Pod", "holder"))
    nodes.wait("fg-fails", "failure", lambda _: "as configured" in str(nodes.notes("fg-fails")))

    nodes.change(
        "fg-fails", notes={"gpu-scheduler.io/fake-mig": None, **mig_config("{7g.40gb: 1}")}
    )
    nodes.wait_offer("fg-fails", {"nvidia.com/mig-7g.40gb": "8"})


@pytest.mark.contract("S1-39", "S1-B5", "S1-B10", "S1-B11")
def test_topology_names_the_gpu_holder_and_its_failure_is_reported(
    nodes: Nodes, kwok_node: MakeNode, namespace: str, cp: ControlPlane
) -> None:
    kwok_node("fg-pods", labels={POOL: "whole"})
    nodes.wait_offer("fg-pods", {GPU: "2"})
    here = Watcher(cp, namespace)
    here.create(pod("chosen", limits={GPU: "1"}))
    here.bind("chosen", "fg-pods", {"gpu-scheduler.io/devices": "gpu:1"})
    here.create(pod("first", limits={GPU: "1"}, nodeName="fg-pods"))
    here.wait_bound(2)

    def held() -> list[str]:
        return [line.strip() for line in nodes.topology("fg-pods").splitlines()]

    nodes.wait("fg-pods", "both pods", lambda _: {"pod: chosen", "pod: first"} <= set(held()))
    assert held().index("pod: first") < held().index("pod: chosen")

    nodes.change("fg-pods", notes={"gpu-scheduler.io/fake-failures": "1:xid-48"})
    node = nodes.wait_offer("fg-pods", {GPU: "2"}, {GPU: "1"})
    assert node["metadata"]["annotations"]["gpu-scheduler.io/unusable-devices"] == "1"
    nodes.wait("fg-pods", "the pod's event", lambda _: bool(here.events("chosen")))
    (note,) = here.events("chosen")
    assert note["reason"] == "GpuFailed"
    assert "failed with XID 48; this pod holds it" in note["note"]
    assert here.events("first") == []

    nodes.change("fg-pods", notes={"gpu-scheduler.io/fake-failures": "1:off-bus"})
    nodes.wait_offer("fg-pods", {GPU: "1"})
    nodes.change("fg-pods", notes={"gpu-scheduler.io/fake-failures": None})
    node = nodes.wait_offer("fg-pods", {GPU: "2"})
    assert "gpu-scheduler.io/unusable-devices" not in node["metadata"]["annotations"]


@pytest.mark.contract("S4-3", "S4-15")
def test_device_plugin_config_shares_gpus_and_is_reloaded(
    nodes: Nodes, kwok_node: MakeNode, cp: ControlPlane
) -> None:
    kwok_node("fg-shared", labels={POOL: "whole"})
    nodes.wait_offer("fg-shared", {GPU: "2"})

    def share(replicas: int, rename: bool) -> None:
        slicing = {
            "renameByDefault": rename,
            "failRequestsGreaterThanOne": False,
            "resources": [{"name": GPU, "replicas": replicas}],
        }
        file = json.dumps({"version": "v1", "sharing": {"timeSlicing": slicing}})
        meta = {"name": "device-plugin-config", "namespace": "kube-system"}
        body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta}
        cp.kubectl("apply", "-f", "-", input=json.dumps(body | {"data": {"config.yaml": file}}))

    try:
        share(4, False)
        node = nodes.wait_offer("fg-shared", {GPU: "8"})
        assert node["metadata"]["labels"]["nvidia.com/gpu.replicas"] == "4"
        assert node["metadata"]["labels"]["nvidia.com/gpu.product"] == "Tesla-K80-SHARED"
        share(3, True)
        nodes.wait_offer("fg-shared", {"nvidia.com/gpu.shared": "6"})
    finally:
        cp.kubectl(
            "delete", "configmap", "-n", "kube-system", "device-plugin-config", "--ignore-not-found"
        )
    nodes.wait_offer("fg-shared", {GPU: "2"})


@pytest.mark.contract("S1-27", "S1-28", "S1-29")
def test_topology_server_answers_like_the_seed(
    operator: FakeOperator, nodes: Nodes, kwok_node: MakeNode
) -> None:
    kwok_node("fg-asked", labels={POOL: "whole"})
    nodes.wait_offer("fg-asked", {GPU: "2"})

    def ask(path: str) -> tuple[int, Any, str]:
        url = f"http://127.0.0.1:{operator.port}{path}"
        try:
            with urllib.request.urlopen(url, timeout=30) as answer:
                return answer.status, json.loads(answer.read()), answer.headers["Content-Type"]
        except urllib.error.HTTPError as error:
            return error.code, error.read().decode(), error.headers["Content-Type"]

    status, node, kind = ask("/topology/nodes/fg-asked")
    assert (status, kind) == (200, "application/json")
    assert [gpu["ID"][:4] for gpu in node["Gpus"]] == ["GPU-", "GPU-"]
    assert node["GpuMemory"] == 12288
    assert ask("/topology")[1]["NodePools"]["medium"]["GpuCount"] == 4
    assert ask("/topology/nodes/absent")[:2] == (404, "Node topology not found")
    assert ask("/topology/nodes/")[:2] == (400, "Can't get node name from url /topology/nodes/")
