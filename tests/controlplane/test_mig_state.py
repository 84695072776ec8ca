"""Nodes whose GPUs are being cut, on the real API server: mig-manager's label protocol."""

from __future__ import annotations

import pytest

from tests.controlplane.conftest import MakeNode
from tests.controlplane.workloads import Json, Watcher, node_of, pod
from tools.controlplane import ControlPlane, wait_until

SLICE = "nvidia.com/mig-1g.10gb"
STATE = "nvidia.com/mig.config.state"
PRODUCT = {"nvidia.com/gpu.product": "NVIDIA-A100-SXM4-80GB"}


def wants(name: str, resource: str) -> Json:
    return pod(name, limits={resource: "1"})


@pytest.mark.parametrize("state", ["pending", "failed"])
def test_pod_waits_during_partitioning_and_then_starts(
    cp: ControlPlane, here: Watcher, kwok_node: MakeNode, state: str
) -> None:
    name = f"cut-{state}"
    kwok_node(name, mig={"1g.10gb": 7}, labels={**PRODUCT, STATE: state})
    here.create(wants("slice", SLICE))
    here.create(pod("plain"))
    here.wait_explained("slice", f"1 node(s) had nvidia.com/mig.config.state {state}.")
    assert [node_of(one) for one in here.wait_bound(1) if node_of(one)] == [name]

    cp.kubectl("label", "node", name, f"{STATE}=success", "--overwrite")

    assert {node_of(one) for one in here.wait_bound(2)} == {name}


def test_new_node_offers_no_gpu_before_its_mig_manager_starts(
    cp: ControlPlane, here: Watcher, kwok_node: MakeNode
) -> None:
    """From zero nodes up: the first pod would get a whole GPU that is about to be cut."""
    wanted = {"nvidia.com/mig.config": "all-1g.10gb", "nvidia.com/gpu.deploy.mig-manager": "true"}
    kwok_node("new", gpus=1, labels={**PRODUCT, **wanted})
    here.create(wants("whole", "nvidia.com/gpu"))
    here.create(wants("slice", SLICE))
    here.wait_explained("whole", "nvidia.com/mig.config.state unset")
    here.wait_explained("slice", "nvidia.com/mig.config.state unset")

    sizes = {"nvidia.com/gpu": "0", SLICE: "7"}
    status = {"status": {"capacity": sizes, "allocatable": sizes}}
    cp.client.patch("/api/v1/nodes/new/status", status)
    cp.kubectl("label", "node", "new", f"{STATE}=success")

    assert [one["metadata"]["name"] for one in here.wait_bound(1) if node_of(one)] == ["slice"]


@pytest.mark.contract("S0-5", "S0-10")
def test_partitioned_gpus_are_not_whole_and_bad_layout_is_reported(
    cp: ControlPlane, here: Watcher, kwok_node: MakeNode
) -> None:
    """The plugin still says that two GPUs are whole; the annotation says that both are cut."""
    text = (
        "version: v1\nmig-configs:\n  selected:\n  - devices: [0, 1]\n    mig-enabled: true\n"
        "    mig-devices:\n      0: 2g.20gb\n      6: 2g.20gb\n"
    )
    labels = {**PRODUCT, "nvidia.com/gpu.count": "2"}
    annotations = {"run.ai/mig.config": text}
    kwok_node("stale", gpus=2, mig={"2g.20gb": 4}, labels=labels, annotations=annotations)
    here.create(wants("whole", "nvidia.com/gpu"))
    here.create(wants("slice", "nvidia.com/mig-2g.20gb"))

    assert [one["metadata"]["name"] for one in here.wait_bound(1) if node_of(one)] == ["slice"]
    here.wait_explained("whole", "Insufficient nvidia.com/gpu (need 1; best node has 0 free)")
    told: list[Json] = []

    def is_reported() -> bool:
        items = cp.client.get("/apis/events.k8s.io/v1/namespaces/default/events")["items"]
        told[:] = [one for one in items if one["regarding"].get("name") == "stale"]
        return any(one["reason"] == "MigConfigInvalid" for one in told)

    wait_until(is_reported, what="the event on the node")
    [event] = [one for one in told if one["reason"] == "MigConfigInvalid"]
    assert event["regarding"]["kind"] == "Node"
    assert event["note"] == (
        "run.ai/mig.config mig-configs.selected[0]:"
        " 2g.20gb cannot begin at slice 6 of A100-80, only at 0, 2, 4"
    )


def test_new_node_waits_until_its_partitioner_is_known(
    cp: ControlPlane, here: Watcher, kwok_node: MakeNode
) -> None:
    """The cloud wrote what is wanted; the operator's label about mig-manager comes last."""
    labels = {"nvidia.com/mig.config": "all-1g.10gb", "nvidia.com/mig.capable": "true"}
    kwok_node("preset", gpus=1, labels={**PRODUCT, **labels})
    here.create(pod("first", limits={"nvidia.com/gpu": "1"}, nodeSelector=labels))
    here.wait_explained(
        "first",
        "1 node(s) that wait for their MIG layout all-1g.10gb (nvidia.com/mig.config.state is not"
        " set yet; at most 15 min after the node's creation)",
    )

    cp.kubectl("label", "node", "preset", f"{STATE}=success")

    assert [node_of(one) for one in here.wait_bound(1)] == ["preset"]
