"""DRA on the real API server: slices of KWOK nodes, allocated by the real kube-scheduler."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.controlplane.conftest import MakeNode
from tests.controlplane.dra_objects import (
    CLASSES,
    ROLES,
    SEED_NODE,
    SEED_POD,
    Dra,
    claiming,
    kube_scheduler,
)
from tests.controlplane.gpu_nodes import killed
from tests.controlplane.workloads import Json, Watcher, pod
from tests.dra import claim_spec
from tools.controlplane import ControlPlane
from tools.fake_operator import FakeOperator
from tools.product import ROOT

POOL = "run.ai/simulated-gpu-node-pool"
FAILURES = "gpu-scheduler.io/fake-failures"
GPU = "nvidia.com/gpu"
POOLS: Json = {
    "default": {"gpus": [{"type": "a100", "count": 2, "memory": 40960}]},
    "highend": {"gpus": [{"type": "h100", "count": 4, "memory": 81920}]},
    "cut": {"gpu": {"profile": "a100"}, "mig": {"mig-devices": {"3g.20gb": 2}}},
}
KWOK_TAINT = {"key": "kwok.x-k8s.io/node", "value": "fake", "effect": "NoSchedule"}
ON_KWOK: Json = {
    "nodeSelector": {"type": "kwok"},
    "tolerations": [{"key": "kwok.x-k8s.io/node", "operator": "Equal", **KWOK_TAINT}],
}
#: Selectors of claims for a kind of GPU.
AMPERE = "device.attributes['gpu.nvidia.com'].architecture == 'Ampere'"
DRIVER_550 = (
    "device.attributes['gpu.nvidia.com'].driverVersion.compareTo(semver('550.0.0')) >= 0"
    " && device.attributes['resource.kubernetes.io'].pciBusID.endsWith('.0')"
)


@pytest.fixture(scope="module")
def operator(cp: ControlPlane, tmp_path_factory: pytest.TempPathFactory) -> Iterator[FakeOperator]:
    dra = {"dra": {"kwok": "instead"}}
    running = FakeOperator(cp, tmp_path_factory.mktemp("fakegpu"), config=dra)
    try:
        running.install(ROLES, CLASSES)
        running.configure({"nodePools": POOLS})
        with running:
            yield running
    finally:
        cp.kubectl("delete", "--ignore-not-found", "-f", str(ROOT / "cluster" / CLASSES))


@pytest.fixture
def nodes(cp: ControlPlane, operator: FakeOperator) -> Iterator[Dra]:
    yield Dra(cp)
    operator.configure({"nodePools": POOLS})


@pytest.mark.contract("S1-65", "S1-78")
def test_a_kwok_nodes_gpus_are_published_and_follow_its_topology(
    operator: FakeOperator, nodes: Dra, kwok_node: MakeNode
) -> None:
    """``kwok-<node>-gpu``: driver, pool, devices; a change of the pool is a new generation; an
    edit by another user is reverted; the slice goes with the label."""
    kwok_node("kwok-gpu-node-1", labels={POOL: "default"})
    devices = nodes.wait_devices("kwok-gpu-node-1", 2)
    (before,) = nodes.slices("kwok-gpu-node-1")

    assert before["metadata"]["name"] == "kwok-kwok-gpu-node-1-gpu"
    assert before["spec"]["driver"] == "gpu.nvidia.com"
    pool = {"name": "kwok-gpu-node-1", "generation": 1, "resourceSliceCount": 1}
    assert before["spec"]["pool"] == pool
    assert [one["name"] for one in devices] == ["gpu-0", "gpu-1"]
    attributes = devices[0]["attributes"]
    assert attributes["model"] == {"string": "NVIDIA A100-SXM4-40GB"}
    assert attributes["productName"] == attributes["model"]
    assert attributes["type"] == {"string": "gpu"}
    assert devices[0]["capacity"] == {"memory": {"value": "40Gi"}}

    operator.configure({"nodePools": {**POOLS, "default": POOLS["highend"]}})
    devices = nodes.wait_devices("kwok-gpu-node-1", 4)
    (after,) = nodes.slices("kwok-gpu-node-1")
    assert devices[0]["capacity"] == {"memory": {"value": "80Gi"}}
    assert after["spec"]["pool"]["generation"] == 2
    assert after["metadata"]["uid"] == before["metadata"]["uid"]

    path = f"/apis/resource.k8s.io/v1/resourceslices/{after['metadata']['name']}"
    nodes.client.patch(path, {"spec": {"devices": []}})
    nodes.wait_devices("kwok-gpu-node-1", 4)
    nodes.client.delete(path)
    nodes.wait_devices("kwok-gpu-node-1", 4)

    nodes.change("kwok-gpu-node-1", labels={POOL: None})
    nodes.wait_slices("kwok-gpu-node-1", "nothing", lambda seen: seen == [])
    nodes.wait_no_map("kwok-gpu-node-1")


def test_slices_of_nodes_deleted_during_downtime_are_removed(
    operator: FakeOperator, nodes: Dra, kwok_node: MakeNode, cp: ControlPlane
) -> None:
    kwok_node("dra-gone", labels={POOL: "default"})
    nodes.wait_devices("dra-gone", 2)

    with killed(operator):
        cp.client.delete("/api/v1/nodes/dra-gone")

    nodes.wait_slices("dra-gone", "nothing", lambda seen: seen == [])


@pytest.mark.kubernetes("1.36", "the API server drops the taints of devices by default before")
def test_failed_gpu_is_tainted_lost_gpu_is_removed_and_both_return(
    nodes: Dra, kwok_node: MakeNode
) -> None:
    """The API server says when the taint was added, and that is no reason to write again."""
    kwok_node("dra-fails", labels={POOL: "highend"})
    nodes.wait_devices("dra-fails", 4)

    nodes.change("dra-fails", notes={FAILURES: "1:xid-48,2:off-bus"})
    devices = nodes.wait_devices("dra-fails", 3)
    taints = [one["taints"][0] for one in devices if "taints" in one]
    assert [(one["key"], one["value"], one["effect"]) for one in taints] == [
        ("gpu.nvidia.com/xid", "48", "NoSchedule")
    ]
    assert "timeAdded" in taints[0]
    nodes.change("dra-fails", notes={"other": "user"})
    kwok_node("dra-after", labels={POOL: "cut"})
    assert {one["attributes"]["profile"]["string"] for one in nodes.wait_devices("dra-after", 16)}
    assert [one["spec"]["pool"]["generation"] for one in nodes.slices("dra-fails")] == [2]

    nodes.change("dra-fails", notes={FAILURES: None})
    devices = nodes.wait_devices("dra-fails", 4)
    assert not any("taints" in one for one in devices)


def holders(nodes: Dra, *names: str) -> dict[str, set[str]]:
    """Node and device -> the pods that hold it, as the nodes' topologies say."""
    found: dict[str, set[str]] = {}
    for name in names:
        number = -1
        for line in nodes.topology(name).splitlines():
            word, _, value = line.strip().removeprefix("- ").partition(": ")
            if word == "id":
                number += 1
            elif word == "pod" and value.strip("'\""):
                found.setdefault(f"{name}/gpu-{number}", set()).add(value)
    return found


@pytest.fixture
def five(nodes: Dra, kwok_node: MakeNode) -> list[str]:
    """The seed's five nodes of two pools, which only pods that say so may use."""
    pools = {f"kwok-gpu-node-{number}": "default" for number in (1, 2, 3)}
    pools |= {f"kwok-gpu-node-{number}": "highend" for number in (4, 5)}
    for name, pool in pools.items():
        kwok_node(name, labels={POOL: pool}, taints=[KWOK_TAINT])
    for name, pool in pools.items():
        nodes.wait_devices(name, {"default": 2, "highend": 4}[pool])
    return list(pools)


@pytest.mark.contract("S1-41", "S1-68", "S1-78")
def test_seed_claims_get_distinct_gpus_and_a_shared_claim_gets_one(
    cp: ControlPlane, nodes: Dra, five: list[str], namespace: str
) -> None:
    """Two pools on five nodes, and the README's KWOK example: ``gpu-claim`` of the class
    ``gpu.nvidia.com``, nodes with label ``type: kwok`` and taint
    ``kwok.x-k8s.io/node=fake:NoSchedule``. The topology shows each pod on its claim's GPU, found in
    ``status.resourceClaimStatuses`` or ``spec.resourceClaims``."""
    assert "kwok" in cp.kubectl("get", "resourceslices", "-o", "name")
    nodes.make(namespace, "resourceclaimtemplates", "gpu-claim", {"spec": claim_spec()})
    nodes.make(namespace, "resourceclaims", "shared", claim_spec())
    here = Watcher(cp, namespace)
    for name in ("one", "two"):
        here.create(claiming(name, template="gpu-claim", **ON_KWOK))
    for name in ("with", "each-other"):
        here.create(claiming(name, claim="shared", **ON_KWOK))

    with kube_scheduler(cp):
        given = {
            name: nodes.given_on(namespace, name) for name in ("one", "two", "with", "each-other")
        }

    assert given["with"] == given["each-other"]
    distinct = {*given["one"], *given["two"], *given["with"]}
    assert len(distinct) == 3
    assert {one.partition("/")[2].partition("-")[0] for one in distinct} == {"gpu"}
    wanted = {given[name][0]: {name} for name in ("one", "two")}
    wanted[given["with"][0]] = {"with", "each-other"}
    nodes.wait("kwok-gpu-node-1", f"{wanted}", lambda _: holders(nodes, *five) == wanted)

    here.client.delete(f"{here.path('Pod', 'one')}?gracePeriodSeconds=0")
    del wanted[given["one"][0]]
    nodes.wait("kwok-gpu-node-1", f"{wanted}", lambda _: holders(nodes, *five) == wanted)


@pytest.mark.contract("S1-69", "S1-85")
def test_seed_kwok_manifests_and_their_three_commands_work_verbatim(
    cp: ControlPlane, nodes: Dra, namespace: str
) -> None:
    """On the KWOK and with the stages that this repository runs; kube-scheduler is the real one."""
    try:
        cp.kubectl("apply", "-f", "-", input=SEED_NODE)
        nodes.wait_devices("kwok-gpu-node-1", 2)
        with kube_scheduler(cp):
            cp.kubectl("apply", "-n", namespace, "-f", "-", input=SEED_POD)
            (device,) = nodes.given(namespace, "kwok-gpu-pod")
        cp.client.wait_for(
            f"/api/v1/namespaces/{namespace}/pods/kwok-gpu-pod",
            lambda seen: seen["status"]["phase"] == "Running",
            what="the pod to run",
        )

        assert device in {"gpu-0", "gpu-1"}
        (ready,) = cp.kubectl("get", "nodes", "-l", "type=kwok").splitlines()[1:]
        assert ready.split()[:2] == ["kwok-gpu-node-1", "Ready"]
        slices = cp.kubectl("get", "resourceslices").splitlines()
        assert [line.split()[0] for line in slices if "kwok" in line] == [
            "kwok-kwok-gpu-node-1-gpu"
        ]
        shown = cp.kubectl("get", "pod", "kwok-gpu-pod", "-o", "wide", "-n", namespace)
        assert "Running" in shown
        assert "kwok-gpu-node-1" in shown
    finally:
        cp.kubectl("delete", "pod", "-n", namespace, "--all", "--force", "--grace-period=0")
        cp.kubectl("delete", "node", "kwok-gpu-node-1", "--ignore-not-found")


@pytest.mark.contract("S1-68")
@pytest.mark.kubernetes("1.36", "DRAExtendedResource is off by default before")
def test_a_plain_request_for_nvidia_com_gpu_is_met_by_dra(
    cp: ControlPlane, nodes: Dra, kwok_node: MakeNode, namespace: str
) -> None:
    """``extendedResourceName: nvidia.com/gpu``: no device plugin offers it, so kube-scheduler makes
    a claim for the pod; a failed GPU is not allocated."""
    kwok_node("dra-extended", labels={POOL: "default"})
    nodes.wait_devices("dra-extended", 2)
    nodes.change("dra-extended", notes={FAILURES: "0:xid-48"})
    nodes.wait_slices(
        "dra-extended",
        "a taint",
        lambda _: any("taints" in d for d in nodes.devices("dra-extended")),
    )
    nodes.wait_offer("dra-extended", {})
    usable = [one["name"] for one in nodes.devices("dra-extended") if "taints" not in one]
    here = Watcher(cp, namespace)

    with kube_scheduler(cp):
        here.create(pod("old-fashioned", limits={GPU: "1"}, scheduler="default-scheduler"))
        assert nodes.given(namespace, "old-fashioned") == usable
        here.create(pod("too-late", limits={GPU: "1"}, scheduler="default-scheduler"))
        no = "cannot allocate all claims"
        nodes.wait("dra-extended", no, lambda _: no in str(here.events("too-late")))

    wanted = {f"dra-extended/{usable[0]}": {"old-fashioned"}}
    nodes.wait("dra-extended", f"{wanted}", lambda _: holders(nodes, "dra-extended") == wanted)


def test_claim_selects_gpus_by_nvidia_driver_attributes(
    cp: ControlPlane, nodes: Dra, kwok_node: MakeNode, namespace: str
) -> None:
    """CEL on a text, on a version and on an attribute of Kubernetes' own domain."""
    kwok_node("dra-ampere", labels={POOL: "default"})
    kwok_node("dra-hopper", labels={POOL: "highend"})
    nodes.wait_devices("dra-ampere", 2)
    nodes.wait_devices("dra-hopper", 4)
    selectors = [{"cel": {"expression": text}} for text in (AMPERE, DRIVER_550)]
    spec = {"spec": claim_spec(selectors=selectors)}
    nodes.make(namespace, "resourceclaimtemplates", "ampere", spec)
    here = Watcher(cp, namespace)

    with kube_scheduler(cp):
        here.create(claiming("picky", template="ampere"))
        assert nodes.given_on(namespace, "picky")[0].startswith("dra-ampere/gpu-")
