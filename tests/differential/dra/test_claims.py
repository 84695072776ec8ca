"""What counts as a difference for pods with claims."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from scheduler.framework.decision import Rejection
from scheduler.model.dra.allocation import Allocation, DeviceResult
from scheduler.model.dra.claim import ResourceClaim
from scheduler.model.node import Node
from scheduler.model.pods.pod import Pod
from tests.builders import cluster, node, pod
from tests.differential import manifests
from tests.differential.answers import (
    Answer,
    OurAnswer,
    allocation_difference,
    difference,
    failed,
    placed,
)
from tests.differential.dra.allocations import NewAllocation, OurAllocations
from tests.differential.dra.objects import name_in_sequence
from tests.differential.generate.claims import sequence
from tests.differential.our_side import SOURCES, OurSide
from tests.differential.recordings import Recording
from tests.differential.replay import replay
from tests.differential.sequence import AllocateClaim, CreatePod, DeletePod, NodeForm, SetObject
from tests.dra import (
    DRIVER,
    claim_json,
    claiming,
    class_json,
    device_json,
    request_json,
    slice_json,
)


def given(*requests: str, key: str = "team/p-gpu") -> AllocateClaim:
    """kube-scheduler gave the claim a device for each of these requests."""
    results = [{"request": one, "device": f"gpu-{at}"} for at, one in enumerate(requests)]
    return AllocateClaim(key, {"devices": {"results": results}}, ("p",))


def ours(*requests: str) -> OurAnswer:
    """Ours gives the claim a device for each of these requests on node n1."""
    side = OurSide()
    side.cluster = cluster(node("n1"), pod("p"))
    results = tuple(
        DeviceResult(request=one, driver=DRIVER, pool="n1", device="gpu-0") for one in requests
    )
    claim, allocation = ResourceClaim(namespace="team", name="p-gpu"), Allocation(results=results)
    new = NewAllocation(Node(name="n1"), (claim,), (allocation,), ("p-gpu",))
    claims = OurAllocations({"n1": new})
    return msgspec.structs.replace(side.answer("team-p"), claims=claims)


@pytest.mark.parametrize(
    ("theirs", "expected"),
    [
        pytest.param((given("a", "b/one"),), "", id="equal"),
        pytest.param((given("b/one", "a"),), "", id="other-order"),
        pytest.param((given("a", "b/two", "b/two"),), "", id="other-alternative"),
        pytest.param((given("a", "a", "b/one"),), "('a', 'a', 'b/')", id="other-count"),
        pytest.param((given("a"),), "('a',)", id="fewer-requests"),
        pytest.param((), "None", id="not-allocated"),
        pytest.param((given("a", "b/one"), given("x", key="team/s")), "", id="a-claim-before"),
    ],
)
def test_allocations_differ_in_the_requests_that_they_meet(
    theirs: tuple[AllocateClaim, ...], expected: str
) -> None:
    answer = Answer(nodes="n1", choice="n1", effects=theirs)
    found = allocation_difference(answer, ours("a", "b/one"))
    assert expected in found
    assert bool(found) is bool(expected)


def seen(*objects: tuple[str, Any], claim: str = "gpu", **more: Any) -> OurAnswer:
    """Our answer about a pod with a claim, on the node n1 with these objects."""
    side = OurSide()
    there = manifests.node(NodeForm("n1", {}, {"cpu": "4", "memory": "4Gi", "pods": "110"}))
    for kind, manifest in (("nodes", there), ("deviceclasses", class_json()), *objects):
        side.see(kind, manifest)
    newcomer = pod("p", spec=claiming(claim) if claim else {}, **more)
    side.cluster.upsert_pod(newcomer)
    return side.answer(newcomer.uid)


CLAIM = ("resourceclaims", claim_json())
GPU = ("resourceslices", slice_json("n1", "gpu-0"))
#: The selector of the claim fails on the first device.
_NUMA = [{"cel": {"expression": 'device.attributes["gpu.example.com"].numa == 1'}}]
FAILING = (
    ("resourceclaims", claim_json("gpu", request_json(selectors=_NUMA))),
    (
        "resourceslices",
        slice_json("n1", "gpu-0", device_json("gpu-1", attributes={"numa": {"int": 1}})),
    ),
)


def test_error_of_kube_scheduler_needs_a_node_where_its_search_fails() -> None:
    """Difference D9: for us other devices of the node stay usable."""
    assert seen(*FAILING).feasible == {"n1"}
    assert difference(failed(), seen(*FAILING)) == ""
    assert "an error for kube-scheduler only" in difference(failed(), seen(CLAIM, GPU))


def test_allocation_that_the_check_refuses_is_a_difference() -> None:
    answer = seen(CLAIM, GPU)
    assert difference(placed(["n1"], "n1"), answer) == ""
    wrong = msgspec.structs.replace(answer.claims, problems=("n1: twice",))
    wrong_answer = msgspec.structs.replace(answer, claims=wrong)
    assert "is not valid: n1: twice" in difference(placed(["n1"], "n1"), wrong_answer)


def test_extended_resource_devices_are_a_claim_for_kube_scheduler() -> None:
    """Difference D4: ours counts the devices, as it does with a device plugin."""
    served = ("deviceclasses", class_json(extendedResourceName="nvidia.com/gpu"))
    answer = seen(served, GPU, claim="", requests={"nvidia.com/gpu": "2"})
    assert isinstance(answer.decision, Rejection)
    [[reason]] = answer.decision.diagnosis.nodes.values()
    assert reason.text == "Insufficient nvidia.com/gpu"
    assert answer.reasons == {"cannot allocate all claims": 1}


@pytest.mark.parametrize(
    ("claim", "expected"),
    [
        pytest.param(ResourceClaim(namespace="red", name="s-1"), "s-1", id="shared"),
        pytest.param(
            ResourceClaim(namespace="red", name="p1-17-c0", owner_uid="u"), "p1-c0", id="template"
        ),
        pytest.param(
            ResourceClaim(namespace="red", name="p1-17-x", owner_uid="u", is_extended=True),
            "p1-extended",
            id="extended-resource",
        ),
    ],
)
def test_names_of_claims_in_a_sequence(claim: ResourceClaim, expected: str) -> None:
    newcomer = Pod(uid="u", namespace="red", name="p1-17")
    assert name_in_sequence(claim, newcomer) == expected


@pytest.mark.parametrize("seed", range(1, 30))
def test_objects_of_sequences_are_readable(seed: int) -> None:
    one = sequence(seed)
    steps = [step for step in (*one.objects, *one.steps) if isinstance(step, SetObject)]
    events: list[Any] = [
        SOURCES[step.kind].decode(msgspec.json.encode(step.manifest), False) for step in steps
    ]
    assert [event.item.unread for event in events if getattr(event.item, "unread", "")] == []


def test_claims_are_released_with_their_last_pod() -> None:
    """A replay deallocates as kube-controller-manager does: else the second pod has no device."""
    whole = sequence(1)
    workload = msgspec.structs.replace(
        whole.workloads[0],
        namespace="red",
        requests={},
        spec=claiming(templates={"gpu": "gpu"}),
        templates={"gpu": claim_json()["spec"]},
    )
    allocated = AllocateClaim(
        "red/p1-gpu",
        {
            "devices": {
                "results": [
                    {"request": "gpu", "driver": "gpu.example.com", "pool": "n1", "device": "gpu-0"}
                ]
            }
        },
        ("p1",),
    )
    one = msgspec.structs.replace(
        whole,
        nodes=whole.nodes[:1],
        objects=(
            SetObject("deviceclasses", class_json()),
            SetObject("resourceslices", slice_json("n1", "gpu-0")),
        ),
        workloads=(workload,),
        steps=(CreatePod("p1", 0), CreatePod("p2", 0), DeletePod("p1"), CreatePod("p3", 0)),
    )
    first = Answer(nodes="n1", choice="n1", effects=(allocated,))
    second = Answer(reasons={"cannot allocate all claims": 1})
    third = msgspec.structs.replace(
        first, effects=(AllocateClaim("red/p3-gpu", allocated.allocation, ("p3",)),)
    )
    assert replay(Recording(sequence=one, answers=(first, second, third))) == ""
