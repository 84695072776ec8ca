"""A kubelet's report about a pod's devices, as the API server sends it."""

from __future__ import annotations

from typing import Any

import pytest

from scheduler.model.gpu.allocated_devices import AllocatedDevice, table, unhealthy
from scheduler.model.limits import DEVICE_ID_LENGTH_MAX, NODE_GPUS_MAX, POD_DEVICES_MAX
from tests.builders import node, pod

GPU = "nvidia.com/gpu"


def status(*containers: Any) -> dict[str, Any]:
    """A pod's status; each container has its report."""
    listed = [
        {"name": f"c{number}", "allocatedResourcesStatus": told}
        for number, told in enumerate(containers)
    ]
    return {"containerStatuses": listed}


def told(resource: str, **health: str) -> dict[str, Any]:
    listed = [{"resourceID": one, "health": how} for one, how in health.items()]
    return {"name": resource, "resources": listed}


A, B = AllocatedDevice(GPU, "A", "Healthy"), AllocatedDevice(GPU, "B", "Unhealthy")
CLAIMED = AllocatedDevice("claim:gpu/0", "gpu.nvidia.com/n1/gpu-0", "Unknown")
READ = [
    pytest.param({}, (), id="no-status"),
    pytest.param({"containerStatuses": [{"name": "c"}]}, (), id="absent-as-before-1.36"),
    pytest.param(status(None), (), id="null"),
    pytest.param(status([]), (), id="empty"),
    pytest.param(status([{"name": GPU}]), (), id="a-resource-without-devices"),
    pytest.param(status([{"name": GPU, "resources": None}]), (), id="and-with-null"),
    pytest.param(status([told(GPU, A="Healthy", B="Unhealthy")]), (A, B), id="two-devices"),
    pytest.param(status([told(GPU, A="Healthy")], [told(GPU, B="Unhealthy")]), (A, B), id="each"),
    pytest.param(
        status([{"name": GPU, "resources": [{"resourceID": "A"}]}]),
        (AllocatedDevice(GPU, "A"),),
        id="no-word-about-its-health",
    ),
    pytest.param(
        status([told("claim:gpu/0", **{"gpu.nvidia.com/n1/gpu-0": "Unknown"})]),
        (CLAIMED,),
        id="a-claim-of-nvidias-driver",
    ),
    pytest.param(
        status([told("claim:nic", **{"nic.example.com/n1/nic-0": "Unhealthy"})]),
        (),
        id="a-claim-of-another-driver",
    ),
    pytest.param(status([told("example.com/fpga", F="Unhealthy")]), (), id="another-resource"),
]


@pytest.mark.parametrize(("said", "devices"), READ)
def test_the_gpus_of_a_pod_are_read_from_its_status(
    said: dict[str, Any], devices: tuple[AllocatedDevice, ...]
) -> None:
    found = pod(gpus=1, status=said)
    assert found.allocated == devices
    assert not found.unread


def many(count: int) -> dict[str, Any]:
    return status([told(GPU, **{f"G{number}": "Healthy" for number in range(count)})])


@pytest.mark.parametrize(
    ("said", "count"),
    [
        pytest.param(many(POD_DEVICES_MAX), POD_DEVICES_MAX, id="as-many-as-are-read"),
        pytest.param(many(POD_DEVICES_MAX + 1), 0, id="more"),
        pytest.param(status([told(GPU, **{"G" * DEVICE_ID_LENGTH_MAX: "Healthy"})]), 1, id="long"),
        pytest.param(
            status([told(GPU, **{"G" * (DEVICE_ID_LENGTH_MAX + 1): "Healthy"})]), 0, id="too-long"
        ),
        pytest.param(
            status([told("nvidia.com/" + "x" * DEVICE_ID_LENGTH_MAX, G="Healthy")]),
            0,
            id="a-name-that-is-too-long",
        ),
    ],
)
def test_field_beyond_its_bounds_is_ignored(said: dict[str, Any], count: int) -> None:
    found = pod(gpus=1, status=said)
    assert len(found.allocated) == count
    assert found.problem == ""


def test_a_decision_does_not_depend_on_what_a_pod_was_given() -> None:
    """A change of the pod's status neither requeues the pod nor changes its kind."""
    before, after = pod(gpus=1), pod(gpus=1, status=many(3))
    assert before.equivalence_class == after.equivalence_class
    assert before.decision_inputs() == after.decision_inputs()


def test_only_unhealthy_status_means_failed() -> None:
    named = {"A": "Healthy", "B": "Unhealthy", "C": "Unknown", "D": "", "E": "unhealthy"}
    devices = tuple(AllocatedDevice(GPU, one, how) for one, how in named.items())
    assert unhealthy(devices) == {"B"}


TABLES = [
    pytest.param("", {}, id="none"),
    pytest.param("GPU-a", {"GPU-a": 0}, id="one"),
    pytest.param("GPU-a, GPU-b", {"GPU-a": 0, "GPU-b": 1}, id="two"),
    pytest.param("GPU-a,GPU-a", {}, id="one-id-twice"),
    pytest.param("GPU-a,,GPU-b", {}, id="a-gap"),
    pytest.param(",".join(map(str, range(NODE_GPUS_MAX + 1))), {}, id="too-many"),
    pytest.param("G" * 70_000, {}, id="too-long"),
]


@pytest.mark.parametrize(("text", "indexes"), TABLES)
def test_node_annotation_maps_device_ids_to_indexes(text: str, indexes: dict[str, int]) -> None:
    """An invalid one is ignored."""
    assert dict(table(text)) == indexes
    assert dict(node(annotations={"gpu-scheduler.io/gpu-ids": text}).gpu_ids) == indexes


def test_a_node_knows_when_its_machine_was_started() -> None:
    assert node().boot == ""
