"""What the agent of fake GPUs may write: on a real API server, with its role and its policy."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from typing import Any, Final

import pytest
import yaml

from scheduler.model import well_known
from tests.controlplane.conftest import MakeNode
from tests.controlplane.tenants import said
from tools.controlplane import Client, ControlPlane, wait_until
from tools.product import ROOT

AGENT: Final = ROOT / "cluster/fakegpu-node-rbac.yaml"
Json = dict[str, Any]

MORE_OF_A_NODE: Final[tuple[Json, ...]] = (
    {"metadata": {"labels": {"gpu-node-name": "yours"}}},
    {"metadata": {"labels": {"kubernetes.io/os": None}}},
    {"metadata": {"annotations": {"gpu-scheduler.io/unusable-devices": "0"}}},
    {"spec": {"unschedulable": True}},
    {"spec": {"taints": [{"key": "a", "effect": "NoExecute"}]}},
)


@pytest.fixture
def agent(cp: ControlPlane, kwok_node: MakeNode) -> Iterator[Client]:
    """The agent's account, of a pod on the node `mine`; there is the node `yours` too."""
    kwok_node("mine")
    kwok_node("yours")
    namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "gpu-operator"}}
    cp.kubectl("apply", "-f", "-", input=yaml.safe_dump(namespace))
    cp.kubectl("apply", "-f", str(AGENT))
    client = cp.client_for("gpu-operator/nvidia-device-plugin", node="mine")
    label = {"metadata": {"labels": {"a": "b"}}}
    wait_until(
        lambda: "the label" in said(lambda: client.patch("/api/v1/nodes/mine?dryRun=All", label)),
        what="the agent's right, and the policy",
    )
    yield client
    cp.kubectl("delete", "-f", str(AGENT))


def test_an_agent_changes_one_label_of_its_own_node_and_nothing_else(
    cp: ControlPlane, agent: Client
) -> None:
    with_gpu_indexes = {"metadata": {"labels": {well_known.NUMBERED: "numbered"}}}
    agent.patch("/api/v1/nodes/mine", with_gpu_indexes)
    agent.patch("/api/v1/nodes/mine", {"metadata": {"labels": {well_known.NUMBERED: None}}})

    assert "its own node only" in said(lambda: agent.patch("/api/v1/nodes/yours", with_gpu_indexes))
    unbound = cp.client_for("gpu-operator/nvidia-device-plugin")
    assert "its own node only" in said(
        lambda: unbound.patch("/api/v1/nodes/mine", with_gpu_indexes)
    )
    for edit in MORE_OF_A_NODE:
        write = functools.partial(agent.patch, "/api/v1/nodes/mine", edit)
        assert "no more of its node than" in said(write)
