"""Fake GPUs on the real kubelet: it hands them out, and pods see exactly theirs."""

from __future__ import annotations

import json

import pytest

from tests.e2e.agent import DEVICES, FAILURES, GPU, POOL, Agent, wait_allocatable
from tests.e2e.conftest import Pool
from tests.e2e.containers import create, delete, execute, run, shell_pod, wait_for_phase
from tests.e2e.new_node import start_as_new
from tools.controlplane import ControlPlane, wait_until
from tools.realnode import RealNode

REGISTERED = f"registered resource={GPU}"


@pytest.mark.contract("S1-32", "S1-33")
def test_a_pod_gets_its_gpus(cp: ControlPlane, node: RealNode, pool: Pool, namespace: str) -> None:
    """Allocatable appears, and nvidia-smi in the pod lists just the GPUs that it was given."""
    pool("four")
    seen = wait_allocatable(cp, node, gpu=4)
    assert seen["status"]["allocatable"]["rdma/hca"] == "2"

    run(cp, namespace, shell_pod("two", limits={GPU: "2"}))

    listed = execute(cp, namespace, "two", "nvidia-smi", "-L").splitlines()
    given = execute(cp, namespace, "two", "sh", "-c", "echo $MOCK_NVIDIA_VISIBLE_DEVICES").strip()
    assert len(listed) == 2
    assert listed[0].startswith("GPU 0: NVIDIA A100-SXM4-40GB (UUID: GPU-")
    assert sorted(given.split(",")) == sorted(line.split("UUID: ")[1][:-1] for line in listed)


def test_pod_gets_the_devices_chosen_by_the_scheduler(
    cp: ControlPlane, node: RealNode, pool: Pool, namespace: str
) -> None:
    """A pod with GPUs 3 and 1 in its annotation gets these two, and the topology shows them."""
    pool("four")
    wait_allocatable(cp, node, gpu=4)

    chosen = {DEVICES: "gpu:3,1"}
    run(cp, namespace, shell_pod("chosen", limits={GPU: "2"}, annotations=chosen))

    topology = cp.client.get(f"/api/v1/namespaces/gpu-operator/configmaps/topology-{node.name}")
    given = execute(cp, namespace, "chosen", "sh", "-c", "echo $NVIDIA_VISIBLE_DEVICES").strip()
    assert f"id: {given.split(',')[0]}" in topology["data"]["topology.yml"]
    indexes = execute(
        cp, namespace, "chosen", "nvidia-smi", "--query-gpu=uuid", "--format=csv,noheader"
    ).split()
    assert sorted(indexes) == sorted(given.split(","))
    ids = [
        line.split("id: ")[1]
        for line in topology["data"]["topology.yml"].splitlines()
        if "- id: " in line
    ]
    assert sorted(ids.index(one) for one in given.split(",")) == [1, 3]

    cp.client.wait_for(
        f"/api/v1/namespaces/gpu-operator/configmaps/topology-{node.name}",
        lambda seen: (
            json.loads(seen["data"].get("assigned.json", "{}")).get(f"{namespace}/chosen/main")
            == sorted(given.split(","))
        ),
        what="the device holders to be written",
    )


def test_nvidia_smi_prints_the_table_with_live_values(
    cp: ControlPlane, node: RealNode, pool: Pool, namespace: str
) -> None:
    """The seed's layout, with memory and utilisation as the pod's annotation says."""
    pool("four")
    wait_allocatable(cp, node, gpu=4)
    busy = {"run.ai/simulated-gpu-utilization": "42"}
    run(cp, namespace, shell_pod("busy", limits={GPU: "1"}, annotations=busy))

    def table() -> str:
        return execute(cp, namespace, "busy", "nvidia-smi")

    wait_until(lambda: "42%" in table(), what="the pod's utilisation in nvidia-smi")
    lines = table().splitlines()
    assert lines[2].startswith(
        "| NVIDIA-SMI 550.163.01   Driver Version: 550.163.01   CUDA Version: 12.4"
    )
    assert (
        "|   0  NVIDIA-A10..          Off | 00000001:00:00.0 Off |                  Off |" in lines
    )
    assert (
        "| N/A   33C    P8    11W /  70W  |  40960MiB / 40960MiB |      42%     Default |" in lines
    )


def test_pod_metrics_end_with_the_pod(
    cp: ControlPlane, node: RealNode, agent: Agent, pool: Pool, namespace: str
) -> None:
    """A series has the pod's labels while it runs; afterwards the GPU's labels are empty."""
    pool("four")
    wait_allocatable(cp, node, gpu=4)
    busy = {"run.ai/simulated-gpu-utilization": "30-30"}
    run(cp, namespace, shell_pod("metered", limits={GPU: "1"}, annotations=busy))
    owner = f'container="main",namespace="{namespace}",pod="metered"}}'

    def line(name: str) -> str:
        found = [
            one for one in agent.metrics().splitlines() if one.startswith(name) and owner in one
        ]
        return found[0] if found else ""

    wait_until(lambda: line("DCGM_FI_DEV_GPU_UTIL").endswith(" 30"), what="30 % in the metrics")
    assert line("DCGM_FI_DEV_FB_USED").endswith(" 40960")

    delete(cp, namespace, "metered")
    wait_until(lambda: owner not in agent.metrics(), what="the pod's series to go")
    assert agent.metrics().count("DCGM_FI_DEV_GPU_UTIL{") == 4


def test_a_failed_gpu_is_not_allocatable_and_comes_back(
    cp: ControlPlane, node: RealNode, pool: Pool
) -> None:
    """An XID lowers allocatable and not capacity; off the bus lowers both; both recover."""
    pool("four")
    wait_allocatable(cp, node, gpu=4)

    def fail(text: str | None) -> None:
        path = f"/api/v1/nodes/{node.name}"
        cp.client.patch(path, {"metadata": {"annotations": {FAILURES: text}}})

    fail("1:xid-48")
    seen = wait_allocatable(cp, node, gpu=3)
    assert seen["status"]["capacity"][GPU] == "4"
    fail("1:xid-48,3:off-bus")
    seen = wait_allocatable(cp, node, gpu=2)
    assert seen["status"]["capacity"][GPU] == "3"
    fail(None)
    seen = wait_allocatable(cp, node, gpu=4)
    assert seen["status"]["capacity"][GPU] == "4"


def test_nvidia_smi_reports_a_lost_gpu_and_its_return(
    cp: ControlPlane, node: RealNode, pool: Pool, namespace: str
) -> None:
    """Status 15 and NVIDIA's words, in the pod that holds it."""
    pool("four")
    wait_allocatable(cp, node, gpu=4)
    run(cp, namespace, shell_pod("hurt", limits={GPU: "4"}))
    path = f"/api/v1/nodes/{node.name}"
    script = "nvidia-smi; echo status $?"

    def said() -> str:
        return execute(cp, namespace, "hurt", "sh", "-c", script)

    cp.client.patch(path, {"metadata": {"annotations": {FAILURES: "2:off-bus"}}})
    wait_until(lambda: said().endswith("status 15\n"), what="nvidia-smi to notice")
    assert "Unable to determine the device handle for GPU2" in said()
    cp.client.patch(path, {"metadata": {"annotations": {FAILURES: None}}})
    wait_until(lambda: said().endswith("status 0\n"), what="nvidia-smi to show all four again")


@pytest.mark.parametrize(
    "crash", [pytest.param(False, id="stopped"), pytest.param(True, id="killed")]
)
def test_devices_survive_a_restart_of_the_kubelet(
    cp: ControlPlane, node: RealNode, agent: Agent, pool: Pool, namespace: str, crash: bool
) -> None:
    """After a restart all GPUs are there again, a pod keeps its own, and another gets one."""
    pool("four")
    wait_allocatable(cp, node, gpu=4)
    run(cp, namespace, shell_pod("before", limits={GPU: "3"}))

    # Until then the node's status is that of the kubelet before, and a pod would be refused.
    registered = agent.log().count(REGISTERED)
    node.restart_kubelet(crash=crash)
    wait_until(lambda: agent.log().count(REGISTERED) > registered, what="the new kubelet's devices")
    wait_allocatable(cp, node, gpu=4)
    run(cp, namespace, shell_pod("after", limits={GPU: "1"}))

    ids = [
        execute(
            cp, namespace, name, "nvidia-smi", "--query-gpu=uuid", "--format=csv,noheader"
        ).split()
        for name in ("before", "after")
    ]
    assert [len(one) for one in ids] == [3, 1]
    assert not {*ids[0]} & {*ids[1]}


def test_devices_survive_a_killed_agent(
    cp: ControlPlane, node: RealNode, agent: Agent, pool: Pool, namespace: str
) -> None:
    """Ids are the same after it, so a running pod's GPU is not assigned again."""
    pool("four")
    wait_allocatable(cp, node, gpu=4)
    run(cp, namespace, shell_pod("before", limits={GPU: "3"}))

    with agent.killed():
        wait_allocatable(cp, node, gpu=0)
    wait_allocatable(cp, node, gpu=4)
    run(cp, namespace, shell_pod("after", limits={GPU: "1"}))

    listed = [execute(cp, namespace, name, "nvidia-smi", "-L") for name in ("before", "after")]
    uuids = [line.split("UUID: ")[1] for text in listed for line in text.splitlines()]
    assert len({*uuids}) == 4


def test_eight_pods_share_one_gpu(
    cp: ControlPlane, node: RealNode, pool: Pool, namespace: str
) -> None:
    """Time-slicing: eight pods run on one T4, each sees it, and its memory is used by all."""
    pool("sliced")
    wait_allocatable(cp, node, gpu=8)
    for number in range(8):
        create(cp, namespace, shell_pod(f"slice-{number}", limits={GPU: "1"}))
    for number in range(8):
        wait_for_phase(cp, namespace, f"slice-{number}", "Running")

    assert execute(cp, namespace, "slice-7", "nvidia-smi", "-L").startswith(
        "GPU 0: NVIDIA T4 (UUID"
    )
    wait_until(
        lambda: "16384MiB / 16384MiB" in execute(cp, namespace, "slice-0", "nvidia-smi"),
        what="all of the memory to be used",
    )


def test_a_pod_gets_a_mig_instance(
    cp: ControlPlane, node: RealNode, pool: Pool, namespace: str
) -> None:
    """Seed 000's node: instances are allocatable, and nvidia-smi shows the pod's own."""
    pool("cut")
    wait_allocatable(cp, node, mig_1g__10gb=14)
    run(cp, namespace, shell_pod("slice", limits={"nvidia.com/mig-1g.10gb": "2"}))

    lines = execute(cp, namespace, "slice", "nvidia-smi", "-L").splitlines()
    assert lines[0].startswith("GPU 0: NVIDIA-H200 (UUID: GPU-")
    assert [line.split("(")[0].split() for line in lines[1:3]] == [
        ["MIG", "1g.10gb", "Device", "0:"],
        ["MIG", "1g.10gb", "Device", "1:"],
    ]
    assert "MIG devices:" in execute(cp, namespace, "slice", "nvidia-smi")


def test_new_node_with_all_gpus_partitioned_has_no_whole_gpu_resource(
    cp: ControlPlane, node: RealNode, agent: Agent, pool: Pool
) -> None:
    """As with NVIDIA's plugin; a kubelet that has known ``nvidia.com/gpu`` keeps it as 0."""
    pool("four")
    wait_allocatable(cp, node, gpu=4)
    pool("cut")
    wait_allocatable(cp, node, gpu=0, mig_1g__10gb=14)

    start_as_new(node, agent, {POOL: "cut"})

    seen = wait_allocatable(cp, node, mig_1g__10gb=14)
    for amounts in (seen["status"]["capacity"], seen["status"]["allocatable"]):
        assert [name for name in amounts if "nvidia.com/" in name] == ["nvidia.com/mig-1g.10gb"]


def test_a_node_that_leaves_its_pool_has_no_gpus(
    cp: ControlPlane, node: RealNode, pool: Pool
) -> None:
    """Without the label nothing is allocatable any more, and no scheduler may choose by index."""
    pool("four")
    wait_allocatable(cp, node, gpu=4)
    path = f"/api/v1/nodes/{node.name}"
    cp.client.wait_for(path, lambda seen: DEVICES in seen["metadata"]["labels"], what="the label")

    cp.client.patch(path, {"metadata": {"labels": {POOL: None}}})

    wait_allocatable(cp, node, gpu=0)
    cp.client.wait_for(
        path, lambda seen: DEVICES not in seen["metadata"]["labels"], what="no label"
    )
