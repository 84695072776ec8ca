"""A gang that lacks one node gets exactly one from the example autoscaler, and gives it back."""

from __future__ import annotations

from typing import Any

import pytest

from scheduler.model import well_known
from tests.controlplane.conftest import MakeNode
from tests.controlplane.workloads import Watcher, node_of, pod
from tools.autoscaler.contract import Reading
from tools.autoscaler.controller import Autoscaler
from tools.autoscaler.plan import GROUP_LABEL, NodeGroup
from tools.controlplane import ControlPlane, FakeNode

GPU = "nvidia.com/gpu"
NODES = f"/api/v1/nodes?labelSelector={GROUP_LABEL}"


def member(group: str, rank: int) -> dict[str, Any]:
    return pod(
        f"{group}-{rank}",
        labels={well_known.GROUP: group},
        annotations={well_known.GROUP_MIN: "2"},
        limits={GPU: "1"},
    )


@pytest.mark.contract("S4-23")
def test_gang_of_two_gets_exactly_one_node_and_returns_it(
    cp: ControlPlane, here: Watcher, kwok_node: MakeNode
) -> None:
    product = {"nvidia.com/gpu.product": "NVIDIA-A100-SXM4-80GB"}
    kwok_node("autoscaling", gpus=1, labels=product)
    here.create(member("incomplete", 0))
    here.create(pod("unknown", limits={"nvidia.com/mig-9g.99gb": "1"}))
    here.create(pod("badmap-7", annotations={well_known.MAP: "0=autoscaling:0\n"}))
    for rank in range(2):
        here.create(member("train", rank))
    here.wait_reason("incomplete-0", "WaitingForGroup")
    here.wait_reason("badmap-7", "IndexNotInMap")
    here.wait_reason("unknown", "NoSuchProfile")
    for rank in range(2):
        assert not here.wait_reason(f"train-{rank}", "Unschedulable")["status"].get(
            "nominatedNodeName"
        )

    group = NodeGroup("scaled", FakeNode(name="", gpus=1).manifest(), nodes_max=5)
    one, other = (Autoscaler(cp.kubectl, group, reading) for reading in Reading)
    try:
        assert (one.step().add, other.step().add) == (1, 0), "the other one sees the node, too"
        items = here.wait_bound(2)
        bound = {item["metadata"]["name"]: node_of(item) for item in items if node_of(item)}
        assert set(bound) == {"train-0", "train-1"}
        assert one.step().add == 0
        [added] = cp.client.get(NODES)["items"]
        assert added["metadata"]["name"] in bound.values()

        for name in bound:
            here.client.delete(here.path("Pod", name))
        here.wait("the gang to be gone", lambda seen: not any(map(node_of, seen)))
        assert [other.step().remove for _ in range(2)] == [(), (added["metadata"]["name"],)]
        cp.client.wait_for(NODES, lambda seen: not seen["items"], what="the node to be gone")
    finally:
        cp.client.delete(NODES)
