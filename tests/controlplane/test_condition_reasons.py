"""What autoscalers read on the pods that wait, on the real API server."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from tests.controlplane.conftest import MakeNode
from tests.controlplane.partition_operator import CUTS, CutOperator
from tests.controlplane.workloads import Watcher, node_of, pod
from tests.fake_autoscalers import wants_a_node
from tools.controlplane import ControlPlane
from tools.product import Product

CASES = Path(__file__).parents[1] / "cases"
DYNAMIC = {
    "gpu-scheduler.io/mig-dynamic": "true",
    "nvidia.com/gpu.product": "NVIDIA-A100-SXM4-80GB",
    "nvidia.com/gpu.count": "1",
}
TWO = "nvidia.com/mig-2g.20gb"


@pytest.fixture(scope="module")
def product(cp: ControlPlane, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Product]:
    """A scheduler that waits three seconds for an instance, maps allowed everywhere."""
    config = {"mig": {"partitionTimeoutS": 3}}
    with Product(cp, tmp_path_factory.mktemp("product"), config=config) as running:
        yield running


def test_autoscaler_buys_no_node_for_unfixable_pods(here: Watcher, kwok_node: MakeNode) -> None:
    kwok_node("node1", gpus=4)
    text = (CASES / "14-unschedulable-for-ever.yaml").read_text(encoding="utf-8")
    pods = [one for one in yaml.safe_load_all(text) if one]
    for one in pods:
        here.create(one)

    waiting = [
        here.wait_reason("jupyter-home", "WaitingForVolume"),
        here.wait_reason("badmap-7", "IndexNotInMap"),
    ]
    # As kube-scheduler writes it: autoscalers try pod affinity themselves before they buy.
    missing = here.wait_reason("devpod", "Unschedulable")

    assert len(pods) == len(waiting) + 1
    assert not any(map(wants_a_node, waiting))
    for one in (*waiting, missing):
        here.wait_told(one["metadata"]["name"], "FailedScheduling")


def test_autoscaler_buys_a_node_that_helps(here: Watcher, kwok_node: MakeNode) -> None:
    kwok_node("node1", gpus=2)
    here.create(pod("larger", limits={"nvidia.com/gpu": "3"}))

    waiting = here.wait_reason("larger", "Unschedulable")

    assert wants_a_node(waiting)
    here.wait_explained(
        "larger",
        "can never be placed here: requests 3 nvidia.com/gpu and the largest node here has 2.",
    )


def test_node_is_nominated_only_while_it_is_partitioned(
    cp: ControlPlane, here: Watcher, kwok_node: MakeNode
) -> None:
    """Without an answer the wait ends with an error of ours; with one the pod is bound."""
    try:
        with CutOperator(cp.client) as operator:
            operator.is_mute = True
            kwok_node("dynamic-mig", labels=DYNAMIC)
            here.create(pod("a", limits={TWO: "1"}))
            waiting = here.wait_reason("a", "WaitingForCapacity")
            assert waiting["status"]["nominatedNodeName"] == "dynamic-mig"
            assert not wants_a_node(waiting)

            failed = here.wait_reason("a", "SchedulerError", "Unschedulable")
            assert "nominatedNodeName" not in failed["status"]

            operator.is_mute = False
            kwok_node("another", labels=DYNAMIC)
            [bound] = here.wait_bound(1)
    finally:
        cp.client.delete(CUTS)

    assert node_of(bound) == "another"
    here.wait("the pod to run", lambda items: [i["status"]["phase"] for i in items] == ["Running"])
    [running] = here.pods()
    conditions = {one["type"]: one["status"] for one in running["status"]["conditions"]}
    assert conditions["PodScheduled"] == "True"


@pytest.mark.kubernetes("1.35", "the API server keeps the nominated node of a bound pod before")
def test_a_pod_on_its_partitioned_node_has_no_nominated_node(
    cp: ControlPlane, here: Watcher, kwok_node: MakeNode
) -> None:
    try:
        with CutOperator(cp.client) as operator:
            operator.is_mute = True
            kwok_node("nominated-first", labels=DYNAMIC)
            here.create(pod("a", limits={TWO: "1"}))
            waiting = here.wait_reason("a", "WaitingForCapacity")
            assert waiting["status"]["nominatedNodeName"] == "nominated-first"

            operator.is_mute = False
            [bound] = here.wait_bound(1)
    finally:
        cp.client.delete(CUTS)

    assert "nominatedNodeName" not in bound["status"]
