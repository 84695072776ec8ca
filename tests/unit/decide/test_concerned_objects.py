"""The next step of a code names the node, claim or class that it is about."""

from __future__ import annotations

import pytest

from scheduler.decide.explain import Refusal
from scheduler.decide.rejection_message import parts
from scheduler.decide.remedy.concerned_objects import (
    OF_NODES,
    ConcernedObjects,
    of_message,
    of_refusals,
)
from scheduler.plugins import REASON_CODES
from tests.questions import explain_now
from tests.reason_worlds import DECIDED, world_of

NAMED = {
    "CLAIM_IN_USE": "PersistentVolumeClaim data",
    "CLAIM_NOT_BOUND": "PersistentVolumeClaim data, StorageClass now",
    "CLAIM_NOT_FOUND": "PersistentVolumeClaim data",
    "CLAIM_NOT_USABLE": "PersistentVolumeClaim data",
    "CSI_DRIVER_MISSING": "node n1, driver x.example/y",
    "DEVICES_NOT_AVAILABLE": "node n1, DeviceClass gpu.example.com",
    "DEVICE_CLASS_NOT_FOUND": "DeviceClass gpu.example.com",
    "DEVICE_SELECTOR_FAILED": "DeviceClass gpu.example.com, driver gpu.example.com",
    "MAP_AND_VOLUME": "PersistentVolumeClaim data, PersistentVolume pv",
    "RESOURCE_CLAIM_ELSEWHERE": "node n1, ResourceClaim gpu",
    "RESOURCE_CLAIM_NOT_FOUND": "ResourceClaim gpu",
    "RESOURCE_CLAIM_NOT_USABLE": "ResourceClaim gpu",
    "RESOURCE_CLAIM_PENDING": "ResourceClaim team/gpu",
    "RESOURCE_CLAIM_SHARED": "ResourceClaim gpu",
    "STORAGE_FULL": "node n1, PersistentVolumeClaim data, StorageClass fast",
    "VOLUME_AFFINITY": "PersistentVolumeClaim data, PersistentVolume pv",
    "VOLUME_LIMIT": "node n1, driver x.example/y",
    "VOLUME_NOT_AVAILABLE": "node n1, PersistentVolumeClaim data, StorageClass local",
    "VOLUME_NOT_FOUND": "PersistentVolume gone",
    "VOLUME_ZONE": "PersistentVolumeClaim data, PersistentVolume pv",
}


def objects_of(code: str) -> ConcernedObjects | None:
    world = world_of(REASON_CODES[code])
    now = explain_now(world.cluster, world.pod, world.pipeline)
    return of_refusals(now.refusals).get(code)


@pytest.mark.parametrize("code", sorted(one.name for one in DECIDED))
def test_next_step_names_the_objects_of_its_code(code: str) -> None:
    found = objects_of(code)
    expected = NAMED.get(code, "node n1" if code in OF_NODES else "")

    assert found is not None
    assert found.named("do it") == f"do it ({code}{', ' * bool(expected)}{expected})"


@pytest.mark.parametrize(
    ("code", "step"),
    [
        pytest.param("NODE_UNSCHEDULABLE", "uncordon the node: kubectl uncordon n1", id="node"),
        pytest.param("CLAIM_NOT_BOUND", "read kubectl describe pvc data", id="claim"),
        pytest.param("VOLUME_AFFINITY", "read the nodes of the volume: kubectl get pv pv", id="pv"),
        pytest.param(
            "RESOURCE_CLAIM_NOT_USABLE",
            "read the claim with kubectl get resourceclaim gpu -o yaml",
            id="resource-claim",
        ),
    ],
)
def test_command_of_a_next_step_has_the_name(code: str, step: str) -> None:
    found = objects_of(code)

    assert found is not None
    assert found.named(REASON_CODES[code].next_step).startswith(step)


def test_many_nodes_are_shortened() -> None:
    codes = [Refusal(node=f"n{at}", stage="s", code="TAINT", text="t") for at in range(5)]

    told = of_refusals(codes)["TAINT"].named("remove it")

    assert told == "remove it (TAINT, nodes n0, n1, n2 and 2 more)"


def test_message_of_a_condition_names_no_node() -> None:
    message = 'persistentvolumeclaim "data" not found'
    cordoned = "0/2 nodes are available: 2 node(s) were unschedulable."

    assert [one.named("x") for one in of_message(parts(message)).values()] == [
        "x (CLAIM_NOT_FOUND, PersistentVolumeClaim data)"
    ]
    assert [one.named("uncordon NODE") for one in of_message(parts(cordoned)).values()] == [
        "uncordon NODE (NODE_UNSCHEDULABLE)"
    ]
