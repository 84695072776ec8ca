"""The scheduler and the fake GPU operator together: what one breaks or cuts, the other sees."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.controlplane.conftest import MakeNode
from tests.controlplane.workloads import Json, Watcher, annotation, controlled, node_of, pod
from tools.controlplane import ControlPlane
from tools.fake_operator import NAMESPACE, FakeOperator
from tools.product import ROOT, Product

POOL = "run.ai/simulated-gpu-node-pool"
GPU = "nvidia.com/gpu"
DEVICES = "gpu-scheduler.io/devices"
FAILURES = "gpu-scheduler.io/fake-failures"
SHARING: Json = {"timeSlicing": {"resources": [{"name": GPU, "replicas": 4}]}}
POOLS: Json = {
    "nodePools": {
        "pair": {"gpus": [{"type": "l40s", "count": 2}]},
        "lab": {"gpus": [{"type": "a100", "count": 2}]},
        "shared": {"gpus": [{"type": "t4", "count": 1}], "sharing": SHARING},
        "dynamic": {"gpus": [{"type": "NVIDIA-A100-SXM4-80GB", "count": 2}]},
    }
}


@pytest.fixture(scope="module")
def operator(
    cp: ControlPlane, product: Product, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[FakeOperator]:
    assert product.is_running("scheduler")
    mig = {"latencyS": 0.2, "partitionsNamespace": "gpu-scheduler-system"}
    running = FakeOperator(cp, tmp_path_factory.mktemp("fakegpu"), config={"mig": mig})
    running.install()
    cp.kubectl("apply", "-f", str(ROOT / "cluster" / "fakegpu-migpartitions-rbac.yaml"))
    running.configure(POOLS)
    with running:
        yield running


@pytest.fixture
def here(cp: ControlPlane, operator: FakeOperator, namespace: str) -> Watcher:
    assert operator.pid
    return Watcher(cp, namespace)


def wait_usable(here: Watcher, name: str, resource: str, count: int) -> None:
    def offers(node: Any) -> bool:
        return bool(node["status"]["allocatable"].get(resource) == str(count))

    here.client.wait_for(f"/api/v1/nodes/{name}", offers, what=f"{count} {resource} on {name}")


def wait_all_cut(here: Watcher, name: str) -> None:
    """Until the operator has prepared a node of which no GPU is offered whole."""

    def tells(node: Any) -> bool:
        is_offered = GPU in node["status"]["allocatable"]
        return node["metadata"]["labels"].get(f"{GPU}.replicas") == "0" and not is_offered

    here.client.wait_for(f"/api/v1/nodes/{name}", tells, what=f"no whole GPU on {name}")


def set_failures(here: Watcher, node: str, text: str | None) -> None:
    here.client.patch(f"/api/v1/nodes/{node}", {"metadata": {"annotations": {FAILURES: text}}})


def topology(here: Watcher, node: str) -> str:
    path = f"/api/v1/namespaces/{NAMESPACE}/configmaps/topology-{node}"
    return str(here.client.get(path)["data"]["topology.yml"])


def test_pods_avoid_a_failed_gpu_until_it_recovers(here: Watcher, kwok_node: MakeNode) -> None:
    kwok_node("fs-pair", labels={POOL: "pair"})
    wait_usable(here, "fs-pair", GPU, 2)
    set_failures(here, "fs-pair", "0:xid-79")
    wait_usable(here, "fs-pair", GPU, 1)

    here.create(pod("first", limits={GPU: "1"}))
    here.wait_bound(1)
    here.create(pod("second", limits={GPU: "1"}))
    here.wait_explained("second", "Insufficient nvidia.com/gpu")
    here.create(pod("m-0", annotations={"gpu-scheduling-map": "0=fs-pair:0"}))
    here.wait_explained("m-0", "whose GPU 0 failed")
    here.client.delete(here.path("Pod", "m-0"))
    here.client.wait_for(
        f"/api/v1/namespaces/{NAMESPACE}/configmaps/topology-fs-pair",
        lambda seen: "pod: first" in seen["data"]["topology.yml"],
        what="the pod in the topology",
    )
    _, _, second_gpu = topology(here, "fs-pair").partition("- id: ")[2].partition("- id: ")
    assert "pod: first" in second_gpu

    set_failures(here, "fs-pair", None)
    here.wait_bound(2)


@pytest.mark.contract("S4-8")
def test_pool_nodes_fit_pods_of_32_gi_and_two_gpus(here: Watcher, kwok_node: MakeNode) -> None:
    """The lab's Deployment ``a100-training``, two replicas, chosen by ``gpu-type: a100``."""
    for number in range(2):
        kwok_node(f"fs-lab-{number}", labels={POOL: "lab"})
        wait_usable(here, f"fs-lab-{number}", GPU, 2)
    two = {GPU: "2", "memory": "32Gi"}
    chosen = {"gpu-type": "a100"}
    body = controlled("Deployment", "a100-training", replicas=2, limits=two, nodeSelector=chosen)

    here.create(body)

    assert {node_of(item) for item in here.wait_bound(2)} == {"fs-lab-0", "fs-lab-1"}


@pytest.fixture
def classes(cp: ControlPlane) -> Iterator[None]:
    """Two of the lab's PriorityClasses."""
    path = "/apis/scheduling.k8s.io/v1/priorityclasses"
    kind = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass"}
    wanted: dict[str, Json] = {
        "gpu-high": {"value": 100000},
        "gpu-low": {"value": 1000, "preemptionPolicy": "Never"},
    }
    try:
        for name, body in wanted.items():
            cp.client.create(path, {**kind, "metadata": {"name": name}, **body})
        yield
    finally:
        for name in wanted:
            cp.client.delete_if_there(f"{path}/{name}")


def test_preemption_spares_pods_where_shares_are_free(
    here: Watcher, kwok_node: MakeNode, classes: None
) -> None:
    kwok_node("fs-shared", labels={POOL: "shared"})
    wait_usable(here, "fs-shared", GPU, 4)
    for number in range(2):
        here.create(pod(f"low-{number}", limits={GPU: "1"}, priorityClassName="gpu-low"))
    here.wait_bound(2)

    for number in range(2):
        here.create(pod(f"high-{number}", limits={GPU: "1"}, priorityClassName="gpu-high"))
    before = here.wait_bound(4)
    here.create(pod("late", limits={GPU: "1"}, priorityClassName="gpu-low"))
    here.wait_explained("late", "Insufficient nvidia.com/gpu")

    names = {item["metadata"]["uid"]: item["metadata"]["name"] for item in here.pods()}
    assert set(names.values()) == {"low-0", "low-1", "high-0", "high-1", "late"}
    assert {item["metadata"]["uid"] for item in before} <= set(names)


def test_dynamic_mig_partitions_show_the_pods_that_hold_them(
    here: Watcher, kwok_node: MakeNode
) -> None:
    kwok_node("fs-cut", labels={POOL: "dynamic", "gpu-scheduler.io/mig-dynamic": "true"})
    wait_all_cut(here, "fs-cut")
    here.create(pod("small", limits={"nvidia.com/mig-2g.20gb": "1"}))
    here.create(pod("large", limits={"nvidia.com/mig-7g.80gb": "1"}))

    large, small = here.wait_bound(2)

    assert node_of(large) == node_of(small) == "fs-cut"
    wait_usable(here, "fs-cut", "nvidia.com/mig-7g.80gb", 1)
    wait_usable(here, "fs-cut", "nvidia.com/mig-2g.20gb", 1)
    place = str(annotation(small, DEVICES))
    here.client.wait_for(
        f"/api/v1/namespaces/{NAMESPACE}/configmaps/topology-fs-cut",
        lambda seen: "pod: small" in seen["data"]["topology.yml"],
        what=f"the pod at {place} in the topology",
    )


def test_a_failed_gpu_is_not_asked_for_an_instance(here: Watcher, kwok_node: MakeNode) -> None:
    """The operator says which GPU failed, so the scheduler asks for the instance on another."""
    labels = {POOL: "dynamic", "gpu-scheduler.io/mig-dynamic": "true"}
    kwok_node("fs-broken", labels=labels, annotations={FAILURES: "0:xid-48"})
    wait_all_cut(here, "fs-broken")

    here.create(pod("p", limits={"nvidia.com/mig-2g.20gb": "1"}))
    (bound,) = here.wait_bound(1)

    assert "@1/" in str(annotation(bound, DEVICES))
    here.wait_told("p", "Scheduled")
    assert "PartitionFailed" not in {one["reason"] for one in here.events("p")}
