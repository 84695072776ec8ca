"""Where the fake GPU operator stands in for the kubelet, and where it leaves a node to its own."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator

import pytest

from tests.controlplane.audit_log import audited, now
from tests.controlplane.conftest import MakeNode
from tests.controlplane.gpu_nodes import Nodes, nvidia, wait_kind
from tests.controlplane.history import states
from tests.controlplane.workloads import Json, Watcher, fetch, pod
from tools.controlplane import ControlPlane, wait_until
from tools.fake_operator import ACCOUNT, NAMESPACE, FakeOperator
from tools.product import ROOT

USER = "system:serviceaccount:" + ACCOUNT.replace("/", ":")
POOL = "run.ai/simulated-gpu-node-pool"
GPU = "nvidia.com/gpu"
ZONES = "/apis/topology.node.k8s.io/v1alpha2/noderesourcetopologies"
POOLS: Json = {
    "nodePools": {
        "two": {"gpus": [{"type": "t4", "count": 2}]},
        "zoned": {
            "gpus": [{"type": "t4", "count": 3}],
            "numa": {"zones": 2, "cpuPerZone": 16, "memPerZone": "128Gi"},
        },
        "different": {
            "gpus": [{"type": "a100", "count": 2}, {"type": "t4", "count": 2}],
            "otherDevices": [{"name": "rdma/hca", "count": 4}],
        },
    }
}


@pytest.fixture(scope="module")
def operator(cp: ControlPlane, tmp_path_factory: pytest.TempPathFactory) -> Iterator[FakeOperator]:
    running = FakeOperator(
        cp,
        tmp_path_factory.mktemp("fakegpu"),
        config={"nodeResourceTopology": {"enabled": True}},
    )
    running.install()
    for file in ("crd-noderesourcetopologies.yaml", "fakegpu-zones-rbac.yaml"):
        cp.kubectl("apply", "-f", str(ROOT / "cluster" / file))
    wait_kind(cp, ZONES)
    running.configure(POOLS)
    with running:
        yield running


@pytest.fixture
def nodes(cp: ControlPlane, operator: FakeOperator) -> Nodes:
    return Nodes(cp)


@pytest.fixture
def other_node(cp: ControlPlane) -> Iterator[str]:
    """A node that is not KWOK's, though it says something of KWOK."""
    meta = {
        "name": "fk-real",
        "labels": {POOL: "two"},
        "annotations": {"kwok.x-k8s.io/node": "no"},
    }
    cp.client.create("/api/v1/nodes", {"metadata": meta})
    yield "fk-real"
    cp.client.delete("/api/v1/nodes/fk-real")


@pytest.mark.contract("S1-4", "S1-6", "S1-34")
def test_operator_sets_resources_on_kwok_nodes_only(
    nodes: Nodes, kwok_node: MakeNode, other_node: str
) -> None:
    """The annotation's value has to be ``kwok.x-k8s.io/node: fake``, exactly."""
    kwok_node("fk-kwok", labels={POOL: "two"})
    deployed = "nvidia.com/gpu.deploy.device-plugin"

    kwok = nodes.wait_offer("fk-kwok", {GPU: "2"})
    real = nodes.wait(other_node, "labels", lambda node: deployed in node["metadata"]["labels"])

    assert deployed not in kwok["metadata"]["labels"]
    assert nvidia(real["status"].get("capacity", {})) == {}
    nodes.change(other_node, labels={POOL: None})
    nodes.wait(other_node, "no labels", lambda node: not node["metadata"].get("labels"))


@pytest.mark.contract("S1-3")
def test_mixed_node_advertises_all_its_devices(nodes: Nodes, kwok_node: MakeNode) -> None:
    kwok_node("fk-different", labels={POOL: "different"})

    node = nodes.wait_offer("fk-different", {GPU: "4"})

    assert node["status"]["capacity"]["rdma/hca"] == "4"
    assert node["status"]["allocatable"]["rdma/hca"] == "4"
    lines = [line.strip() for line in nodes.topology("fk-different").splitlines()]
    assert "gpuProduct: NVIDIA A100-SXM4-40GB" in lines
    assert lines.count("product: NVIDIA T4") == 2


@pytest.mark.contract("S1-52")
def test_node_resource_topology_follows_its_node_and_its_pool(
    nodes: Nodes, kwok_node: MakeNode, cp: ControlPlane
) -> None:
    """As the kind of the Kubernetes SIGs has it: ``kubectl get NodeResourceTopology``."""
    kwok_node("fk-zoned", labels={POOL: "zoned"})
    nodes.wait_offer("fk-zoned", {GPU: "3"})

    found = cp.client.wait_for(f"{ZONES}/fk-zoned", lambda seen: seen is not None, what="its zones")
    assert [owner["kind"] for owner in found["metadata"]["ownerReferences"]] == ["Node"]
    assert [zone["resources"][0]["capacity"] for zone in found["zones"]] == ["2", "1"]
    nodes.change("fk-zoned", labels={POOL: "two"})
    cp.client.wait_for(f"{ZONES}/fk-zoned", lambda seen: len(seen["zones"]) == 1, what="one zone")
    nodes.change("fk-zoned", labels={POOL: None})
    cp.client.wait_for(f"{ZONES}/fk-zoned", lambda seen: seen is None, what="its zones to go")


@pytest.mark.contract("S1-51", "S1-B15")
def test_one_exporter_tells_the_metrics_of_all_kwok_nodes(
    operator: FakeOperator, nodes: Nodes, kwok_node: MakeNode, namespace: str, cp: ControlPlane
) -> None:
    """By the node's own name; the chart's Service for it is ``nvidia-dcgm-exporter-kwok``."""
    for name in ("fk-one", "fk-other"):
        kwok_node(name, labels={POOL: "two"})
        nodes.wait_offer(name, {GPU: "2"})
    here = Watcher(cp, namespace)
    busy = {"run.ai/simulated-gpu-utilization": "30"}
    here.create(pod("p", limits={GPU: "1"}, nodeName="fk-one", annotations=busy))

    def shown() -> dict[str, list[str]]:
        """Of each node, what its GPUs show and for which pod."""
        found: dict[str, list[str]] = {}
        for line in fetch(operator.port, "/metrics").splitlines():
            if line.startswith("DCGM_FI_DEV_GPU_UTIL{"):
                labels, _, value = line.rpartition(" ")
                told = dict(re.findall(r'(\w+)="([^"]*)"', labels))
                found.setdefault(told["Hostname"], []).append(f"{told['pod']} {value}")
        return found

    wait_until(lambda: shown().get("fk-one") == ["p 30", " 0"], what="the pod's series")
    assert shown()["fk-other"] == [" 0", " 0"]
    here.client.delete(here.path("Pod", "p"), {"gracePeriodSeconds": 0})
    wait_until(lambda: shown().get("fk-one") == [" 0", " 0"], what="the series to go")


def test_pod_utilization_follows_its_script(
    nodes: Nodes, kwok_node: MakeNode, namespace: str, cp: ControlPlane
) -> None:
    kwok_node("fk-script", labels={POOL: "two"})
    nodes.wait_offer("fk-script", {GPU: "2"})
    here = Watcher(cp, namespace)
    script = {"gpu-scheduler.io/fake-utilization": "11 for 4s, 22 for 4s, 33-44 for 1h"}
    path = f"/api/v1/namespaces/{NAMESPACE}/configmaps/topology-fk-script"
    before = cp.client.get(path)

    here.create(pod("p", limits={GPU: "1"}, nodeName="fk-script", annotations=script))

    nodes.wait("fk-script", "44", lambda _: "max: 44" in nodes.topology("fk-script"))
    texts = [one["data"]["topology.yml"] for one in states(cp, path, before)]
    seen = [most for text in texts for most in re.findall(r"max: (11|22|44)\b", text)]
    assert [*dict.fromkeys(seen)] == ["11", "22", "44"]


def share(cp: ControlPlane, *, strict: bool) -> None:
    slicing = {
        "failRequestsGreaterThanOne": strict,
        "resources": [{"name": GPU, "replicas": 4}],
    }
    file = json.dumps({"version": "v1", "sharing": {"timeSlicing": slicing}})
    meta = {"name": "device-plugin-config", "namespace": "kube-system"}
    body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta, "data": {"c": file}}
    cp.kubectl("apply", "-f", "-", input=json.dumps(body))


@pytest.mark.contract("S4-3")
def test_pod_requesting_two_shares_is_refused_as_by_the_kubelet(
    nodes: Nodes, kwok_node: MakeNode, namespace: str, cp: ControlPlane
) -> None:
    """Only with ``failRequestsGreaterThanOne``; pods admitted before stay."""
    kwok_node("fk-shared", labels={POOL: "two"})
    here = Watcher(cp, namespace)
    try:
        share(cp, strict=False)
        nodes.wait_offer("fk-shared", {GPU: "8"})
        here.create(pod("before", limits={GPU: "2"}, nodeName="fk-shared"))
        nodes.wait("fk-shared", "it", lambda _: "pod: before" in nodes.topology("fk-shared"))

        share(cp, strict=True)
        nodes.wait(
            "fk-shared",
            "the edit",
            lambda _: "failRequestsGreaterThanOne: true" in nodes.topology("fk-shared"),
        )
        here.create(pod("one", limits={GPU: "1"}, nodeName="fk-shared"))
        here.create(pod("greedy", limits={GPU: "2"}, nodeName="fk-shared"))
        items = here.wait(
            "the refusal",
            lambda items: any(one["status"].get("phase") == "Failed" for one in items),
        )
        states = {one["metadata"]["name"]: one["status"] for one in items}
        assert states["greedy"]["phase"] == "Failed"
        assert states["greedy"]["reason"] == "UnexpectedAdmissionError"
        assert "maximum request size for shared resources is 1" in states["greedy"]["message"]
        here.wait_told("greedy", "UnexpectedAdmissionError")
        assert [note["reason"] for note in here.events("greedy")] == ["UnexpectedAdmissionError"]
        nodes.wait("fk-shared", "one", lambda _: "pod: one" in nodes.topology("fk-shared"))
        assert "pod: before" in nodes.topology("fk-shared")
        assert "pod: greedy" not in nodes.topology("fk-shared")
    finally:
        cp.kubectl(
            "delete", "configmap", "-n", "kube-system", "device-plugin-config", "--ignore-not-found"
        )


@pytest.mark.contract("S1-B30")
def test_writes_grow_with_changes_and_not_with_cluster_size(
    nodes: Nodes, kwok_node: MakeNode, namespace: str, cp: ControlPlane
) -> None:
    """By the API server's audit log: pods of one node cost writes of its ConfigMap and no other."""
    names = [f"fk-still-{number}" for number in range(6)]
    for name in names:
        kwok_node(name, labels={POOL: "two"})
    for name in names:
        nodes.wait_offer(name, {GPU: "2"})
    here, busy, changes = Watcher(cp, namespace), names[0], 4

    before = now(cp)
    for number in range(changes):
        here.create(pod(f"p{number}", limits={GPU: "1"}, nodeName=busy))
        nodes.wait(busy, "the pod", lambda _: "pod: p" in nodes.topology(busy))
        here.client.delete(here.path("Pod", f"p{number}"), {"gracePeriodSeconds": 0})
        nodes.wait(busy, "its end", lambda _: "pod: p" not in nodes.topology(busy))
    about = [e["objectRef"] for e in audited(cp, USER, before) if e["verb"] == "patch"]
    new_instances = Counter(f"{one['resource']}/{one['name']}" for one in about)

    assert set(new_instances) == {f"configmaps/topology-{busy}"}
    # It comes, it runs, it goes.
    assert changes <= new_instances[f"configmaps/topology-{busy}"] <= 3 * changes
