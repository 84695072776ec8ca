"""Nodes as NVIDIA's device plugin, feature discovery and DRA driver leave them, and maps there."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.controlplane.conftest import MakeNode
from tests.controlplane.workloads import Json, Watcher, annotation, controlled, cuda, node_of, pod
from tests.dra import claiming
from tests.feature_discovery_labels import MIXED, RENAMED, SLICED, WHOLE
from tools.controlplane import ControlPlane
from tools.product import ROOT

MAP = "gpu-scheduling-map"
DEVICES = "gpu-scheduler.io/devices"
GPU = "nvidia.com/gpu"
SHARED = "nvidia.com/gpu.shared"
CASES = ROOT / "tests" / "cases"
CLASS = "/apis/resource.k8s.io/v1/deviceclasses/gpu.nvidia.com"
SLICE = "/apis/resource.k8s.io/v1/resourceslices/plain-b-gpus"


def mapped(name: str, text: str, **spec: object) -> Json:
    return pod(name, annotations={MAP: text}, **spec)


def test_statefulset_with_map_and_share_request_runs_with_an_event(
    here: Watcher, kwok_node: MakeNode
) -> None:
    """The webhook sets no variable for it, and the scheduler does not miss one."""
    kwok_node("renamed", labels=RENAMED, resources={SHARED: 8})
    set_ = controlled(
        "StatefulSet", "s", replicas=1, annotations={MAP: "0=renamed:1"}, limits={SHARED: "1"}
    )
    here.create(set_)

    (bound,) = here.wait_bound(1)
    here.wait_told("s-0", "Scheduled", "MapHonouredNodeOnly")

    assert (annotation(bound, DEVICES), cuda(bound)) == ("gpu.shared x 1", None)
    assert {event["reason"] for event in here.events("s-0")} <= {"Scheduled", "MapHonouredNodeOnly"}
    assert [item["metadata"]["uid"] for item in here.pods()] == [bound["metadata"]["uid"]]


def test_map_gets_no_gpu_with_held_shares(here: Watcher, kwok_node: MakeNode) -> None:
    kwok_node("renamed", labels=RENAMED, resources={SHARED: 8})
    for number in range(8):
        here.create(pod(f"share{number}", limits={SHARED: "1"}))
    here.wait_bound(8)

    here.create(mapped("w-0", "0=renamed:0"))

    here.wait_explained("w-0", "run pods that request GPUs or MIG instances")


def test_map_waits_until_a_claim_holder_is_gone(here: Watcher, kwok_node: MakeNode) -> None:
    """Which of the two GPUs the claim got is not known."""
    kwok_node("driven", labels=WHOLE)
    here.create(pod("holder", scheduler="other", **claiming("mine")))
    here.bind("holder", "driven", {})
    here.wait_bound(1)

    here.create(mapped("w-0", "0=driven:0"))
    here.wait_explained("w-0", "run pods with resource claims")
    here.client.delete(f"{here.path('Pod', 'holder')}?gracePeriodSeconds=0")

    (bound,) = here.wait("w-0 on its node", lambda items: [*map(node_of, items)] == ["driven"])
    assert annotation(bound, DEVICES) == "gpu:0"
    here.wait_told("w-0", "MapWithoutRequest")


NODES: dict[str, Json] = {
    "sliced": {"labels": SLICED, "gpus": 8},
    "renamed": {"labels": RENAMED, "resources": {SHARED: 8}},
    "driven": {"labels": WHOLE},
    "cut": {"labels": MIXED, "mig": {"1g.5gb": 14}},
}
REFUSED = [
    pytest.param("sliced", 7, "without GPU 7 (the node has 2)", id="time-sliced-by-4"),
    pytest.param("renamed", 9, "without GPU 9 (the node has 2)", id="shares-renamed"),
    pytest.param("driven", 9, "without GPU 9 (the node has 2)", id="dra-alone"),
    pytest.param("cut", 9, "without GPU 9 (the node has 2)", id="all-cards-cut"),
    pytest.param("cut", 0, "whose GPU 0 has MIG instances", id="a-cut-card"),
]


@pytest.mark.parametrize(("name", "index", "said"), REFUSED)
def test_map_to_a_missing_gpu_gets_a_reason(
    here: Watcher, kwok_node: MakeNode, name: str, index: int, said: str
) -> None:
    kwok_node(name, **NODES[name])

    here.create(mapped("w-0", f"0={name}:{index}"))

    here.wait_explained("w-0", said)


@pytest.mark.parametrize(
    ("left", "index"),
    [
        pytest.param(6, 7, id="two-of-eight-are-unhealthy"),
        pytest.param(0, 0, id="the-plugin-restarts"),
    ],
)
def test_map_to_a_present_gpu_binds_while_allocatable_is_lower(
    here: Watcher, kwok_node: MakeNode, left: int, index: int
) -> None:
    kwok_node("ill", gpus=8, labels={**WHOLE, "nvidia.com/gpu.count": "8"})
    here.client.patch("/api/v1/nodes/ill/status", {"status": {"allocatable": {GPU: str(left)}}})
    seen = here.client.get("/api/v1/nodes/ill")["status"]
    assert (seen["allocatable"][GPU], seen["capacity"][GPU]) == (str(left), "8")

    here.create(mapped("w-0", f"0=ill:{index}"))

    (bound,) = here.wait_bound(1)
    assert annotation(bound, DEVICES) == f"gpu:{index}"


@pytest.fixture
def driver(cp: ControlPlane) -> Iterator[None]:
    """The device class and the slice of the case go with the test."""
    yield
    for path in (CLASS, SLICE):
        cp.client.delete_if_there(path)


@pytest.mark.kubernetes("1.36", "DRAExtendedResource is off by default before")
def test_requests_for_dra_gpus_get_claims(
    here: Watcher, kwok_node: MakeNode, cp: ControlPlane, driver: None
) -> None:
    """The node has GPUs by feature discovery's labels, and no plugin offers any."""
    kwok_node("plain-b", labels={**WHOLE, "gpu-node-name": "node2"})

    case: Path = CASES / "15-dra-extended-resource.yaml"
    cp.kubectl("apply", "--namespace", here.namespace, "-f", str(case))

    bound = here.wait_bound(2)
    named = [one["status"]["extendedResourceClaimStatus"] for one in bound]
    assert len({one["resourceClaimName"] for one in named}) == 2
