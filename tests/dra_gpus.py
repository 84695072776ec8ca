"""A node whose GPUs are DRA devices of NVIDIA's driver, with permuted minors."""

from __future__ import annotations

from typing import Any

from scheduler.framework.decision import Placement, Preemption
from scheduler.model.reasons.reason import sentence
from scheduler.state.cache.cluster import Cluster
from tests.builders import GPU, node, refused
from tests.dra import (
    allocation_json,
    device_class,
    device_json,
    request_json,
    resource_claim,
    resource_slice,
    result_json,
)

NVIDIA = "gpu.nvidia.com"
DISCOVERED = {"nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3", "nvidia.com/gpu.replicas": "1"}
#: Selects whole GPUs only, as NVIDIA's chart has it.
EVERY_GPU = device_class(
    NVIDIA,
    f"device.driver == '{NVIDIA}' && device.attributes['{NVIDIA}'].type == 'gpu'",
    extendedResourceName=GPU,
)
PARTS = device_class(
    "mig", f"device.driver == '{NVIDIA}' && device.attributes['{NVIDIA}'].type == 'mig'"
)
#: Minors in another order than the PCI bus ids: index 0 is gpu-2.
PERMUTED = ("0000:47:00.0", "0000:4e:00.0", "0000:07:00.0", "0000:0f:00.0")
NAMES = {0: "gpu-2", 1: "gpu-3", 2: "gpu-0", 3: "gpu-1"}


def gpu(minor: int, bus: str, **more: Any) -> Any:
    """A whole GPU of NVIDIA's driver."""
    attributes = {
        "type": {"string": "gpu"},
        "resource.kubernetes.io/pciBusID": {"string": bus},
    }
    return device_json(f"gpu-{minor}", attributes=attributes, **more)


def on_dra(name: str = "n1", *others: Any) -> list[Any]:
    """A node with four GPUs whose minors are permuted."""
    devices = [gpu(minor, bus) for minor, bus in enumerate(PERMUTED)]
    slices = resource_slice(name, *devices, *others, driver=NVIDIA)
    return [node(name, labels=DISCOVERED), slices, EVERY_GPU, PARTS]


def devices_of(placement: Placement | Preemption) -> list[str]:
    """The devices of all claims of the placement, in their order."""
    plan = placement.claims
    assert plan is not None
    allocations = [one.allocation for one in plan.claims if one.allocation is not None]
    if plan.extended is not None:
        allocations.append(plan.extended.allocation)
    return [one.device for each in allocations for one in each.results]


def named(*indexes: int) -> list[str]:
    """The devices with these indexes."""
    return [NAMES[one] for one in indexes]


def given(device: str, **more: Any) -> Any:
    """An allocation of one device of the node."""
    return allocation_json(result_json(device, driver=NVIDIA, **more))


def claim(name: str = "mine", *requests: Any, **more: Any) -> Any:
    """A claim of whole GPUs."""
    return resource_claim(name, *(requests or (request_json("gpu", NVIDIA),)), **more)


def said(state: Cluster, mapped: Any) -> str:
    """The sentence of a rejection."""
    return sentence(refused(state, mapped).diagnosis)
