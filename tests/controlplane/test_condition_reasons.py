"""What autoscalers read on the pods that wait, on the real API server."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from tests.controlplane.conftest import MakeNode
from tests.controlplane.history import states
from tests.controlplane.partition_operator import CUTS, CutOperator
from tests.controlplane.workloads import Json, Watcher, node_of, pod, waits_for
from tests.fake_autoscalers import wants_a_node
from tools.controlplane import ControlPlane, wait_until
from tools.product import Product

CASES = Path(__file__).parents[1] / "cases"
DYNAMIC = {
    "gpu-scheduler.io/mig-dynamic": "true",
    "nvidia.com/gpu.product": "NVIDIA-A100-SXM4-80GB",
    "nvidia.com/gpu.count": "1",
}
TWO = "nvidia.com/mig-2g.20gb"
WAITS = "WaitingForCapacity"


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
            made = here.create(pod("a", limits={TWO: "1"}))
            waiting, failed = wait_given_up(here, made)
            assert {one["status"]["nominatedNodeName"] for one in waiting} == {"dynamic-mig"}
            assert not any(map(wants_a_node, waiting))
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


def wait_given_up(here: Watcher, made: Json) -> tuple[list[Json], Json]:
    """The states in which a pod waited for an instance, and the one after them."""
    found: list[Json] = []

    def is_given_up() -> bool:
        found[:] = states(here.plane, here.path("Pod", made["metadata"]["name"]), made)
        reasons = [waits_for(one) for one in found]
        return WAITS in reasons and reasons[-1] in ("SchedulerError", "Unschedulable")

    wait_until(is_given_up, what="the wait for the instance to end", last=lambda: found)
    return [one for one in found if waits_for(one) == WAITS], found[-1]


def test_missing_partition_answer_times_out(
    cp: ControlPlane, here: Watcher, kwok_node: MakeNode
) -> None:
    """The condition and the events have the missing instance and the duration."""
    try:
        with CutOperator(cp.client) as operator:
            operator.is_mute = True
            kwok_node("unanswered", labels=DYNAMIC)
            here.create(pod("a", limits={TWO: "1"}))

            seen = here.wait_explained("a", "free GPUs are in backoff")

            assert node_of(seen) == ""
            here.wait_told("a", "PartitionRequested", "PartitionFailed")
    finally:
        cp.client.delete(CUTS)
