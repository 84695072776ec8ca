"""The index that each GPU has among the DRA devices of a node."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from scheduler.model.dra.device import Device
from scheduler.model.dra.gpu_indexes import GpuIndexes, gpu_indexes
from tests.dra import device_json, resource_slice

NVIDIA = "gpu.nvidia.com"
SLICES = Path(__file__).parents[3] / "golden/slices"


def real(name: str) -> list[Device]:
    """The devices that NVIDIA's driver published."""
    found: list[Device] = []
    for at, spec in enumerate(json.loads((SLICES / f"{name}.json").read_text())):
        if devices := spec.get("devices"):
            pool = spec["pool"]
            one = resource_slice(
                spec["nodeName"],
                *devices,
                name=f"s{at}",
                driver=spec["driver"],
                generation=pool["generation"],
            )
            found += one.devices
    return found


def gpu(minor: int, bus: str = "", kind: str = "gpu", name: str = "") -> dict[str, Any]:
    """A whole GPU of NVIDIA's driver, or with another type a part of one."""
    attributes: dict[str, Any] = {"type": {"string": kind}}
    if bus:
        attributes["resource.kubernetes.io/pciBusID"] = {"string": bus}
    return device_json(name or f"gpu-{minor}", attributes=attributes)


def part(minor: int, bus: str = "", place: int = 0) -> dict[str, Any]:
    """A MIG partition of the card with this minor."""
    return gpu(minor, bus, "mig", f"gpu-{minor}-mig-1g10gb-19-{place}")


def named(*devices: dict[str, Any], driver: str = NVIDIA, by: str = "") -> dict[int, str]:
    """The names of the devices by index; empty for a card in partitions."""
    found = indexes(*devices, driver=driver, by=by)
    assert found is not None
    assert not found.problem
    return {index: one.device if one else "" for index, one in found.devices.items()}


def indexes(*devices: dict[str, Any], driver: str = NVIDIA, by: str = "") -> GpuIndexes | None:
    """The indexes of one driver's devices, by an attribute if one is configured."""
    attributes = {driver: by} if by else {}
    return gpu_indexes(resource_slice("n1", *devices, driver=driver).devices, attributes)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        pytest.param("dynamic-h100", {0: "gpu-0"}, id="whole-and-in-parts"),
        pytest.param("dynamic-a100", {0: "gpu-0", 1: ""}, id="one-card-in-parts-only"),
        pytest.param("static-mig", {0: "", 2: "gpu-2"}, id="one-cut-and-one-without-devices"),
    ],
)
def test_devices_of_nvidias_driver_have_the_indexes_of_nvidia_smi(
    name: str, expected: dict[int, str]
) -> None:
    found = gpu_indexes(real(name), {})

    assert found is not None
    assert {at: one.device if one else "" for at, one in found.devices.items()} == expected


ORDERS: list[Any] = [
    pytest.param(
        [gpu(0, "0000:47:00.0"), gpu(1, "0000:07:00.0"), gpu(2, "0000:0f:00.0")],
        {0: "gpu-1", 1: "gpu-2", 2: "gpu-0"},
        id="minors-in-another-order-than-buses",
    ),
    pytest.param(
        [gpu(0, "0000:47:00.0"), part(1, "0000:07:00.0"), part(1, "0000:07:00.0", 1)],
        {0: "", 1: "gpu-0"},
        id="a-card-in-parts-has-an-index",
    ),
    pytest.param(
        [gpu(1, "10000:01:00.0"), gpu(0, "0000:f7:00.0")],
        {0: "gpu-0", 1: "gpu-1"},
        id="a-domain-of-more-digits-comes-last",
    ),
    pytest.param(
        [gpu(0, "0000:07:00.0"), gpu(2, "0000:47:00.0")],
        {0: "gpu-0", 2: "gpu-2"},
        id="a-lost-card-keeps-its-index",
    ),
    pytest.param([gpu(3), gpu(0), gpu(1)], {0: "gpu-0", 1: "gpu-1", 3: "gpu-3"}, id="by-minor"),
    pytest.param(
        [gpu(1, "0000:07:00.0"), gpu(0)], {0: "gpu-0", 1: "gpu-1"}, id="a-card-without-a-bus"
    ),
    pytest.param(["gpu-1", "gpu-0"], {0: "gpu-0", 1: "gpu-1"}, id="nothing-but-names"),
    pytest.param([gpu(10), gpu(9)], {9: "gpu-9", 10: "gpu-10"}, id="minors-are-numbers"),
    pytest.param([gpu(0), gpu(0, kind="vfio", name="gpu-vfio-0")], {0: "gpu-0"}, id="another-type"),
]


@pytest.mark.parametrize(("devices", "expected"), ORDERS)
def test_cards_are_ordered_by_bus_else_by_minor(
    devices: list[Any], expected: dict[int, str]
) -> None:
    assert named(*devices) == expected


def other(name: str, **attributes: Any) -> dict[str, Any]:
    """A device of another driver."""
    return device_json(name, attributes=attributes)


@pytest.mark.parametrize(
    ("attribute", "devices", "expected"),
    [
        pytest.param(
            "index",
            [other("a", index={"int": 4}), other("b", index={"int": 0})],
            {0: "b", 4: "a"},
            id="a-number-is-the-index",
        ),
        pytest.param(
            "example.com/slot",
            [
                other("a", **{"example.com/slot": {"string": "s10"}}),
                other("b", **{"example.com/slot": {"string": "s9"}}),
                other("nic"),
            ],
            {0: "b", 1: "a"},
            id="texts-are-ordered",
        ),
    ],
)
def test_other_drivers_devices_are_numbered_by_the_set_attribute(
    attribute: str, devices: list[Any], expected: dict[int, str]
) -> None:
    assert named(*devices, driver="gpu.example.com", by=attribute) == expected
    assert indexes(*devices, driver="gpu.example.com") is None


@pytest.mark.parametrize(
    ("devices", "attribute", "problem"),
    [
        pytest.param(
            [gpu(0, "0000:07:00.0"), gpu(1, "0000:07:00.0")],
            "",
            "gpu.nvidia.com: devices gpu-0 and gpu-1 are one GPU by their place",
            id="two-cards-on-one-bus",
        ),
        pytest.param(
            [gpu(0, "0000:47:00.0"), gpu(2, "0000:07:00.0")],
            "",
            "gpu.nvidia.com: a card has no device, and the minors are not in the order of the PCI"
            " bus ids",
            id="a-lost-card-among-permuted-minors",
        ),
        pytest.param(
            [gpu(0), gpu(0, name="card")],
            "",
            "gpu.nvidia.com: device card has no minor in its name",
            id="a-gpu-with-another-name",
        ),
        pytest.param(
            [other("a", index={"int": 1}), other("b", index={"int": 1})],
            "index",
            "gpu.nvidia.com: device b has the gpu.nvidia.com/index of another one (1)",
            id="an-index-twice",
        ),
        pytest.param(
            [other("a", index={"bool": True})],
            "index",
            "gpu.nvidia.com: attribute gpu.nvidia.com/index of device a is neither a number nor a"
            " text",
            id="an-index-that-is-a-bool",
        ),
        pytest.param(
            [other("a", index={"int": 1}), other("b", index={"string": "1"})],
            "index",
            "the devices are numbered by numbers and by texts",
            id="numbers-and-texts",
        ),
        pytest.param(
            [other("a", index={"int": -1})],
            "index",
            "a GPU has an index that is not from 0 to 255",
            id="an-index-out-of-bounds",
        ),
    ],
)
def test_indexes_that_contradict_each_other_are_unknown(
    devices: list[Any], attribute: str, problem: str
) -> None:
    found = indexes(*devices, by=attribute)

    assert found == GpuIndexes(problem=problem)


def test_two_drivers_with_gpus_have_no_indexes() -> None:
    devices = (
        *resource_slice("n1", "gpu-0", driver=NVIDIA).devices,
        *resource_slice("n1", other("a", index={"int": 0})).devices,
    )
    found = gpu_indexes(devices, {"gpu.example.com": "index"})

    assert found == GpuIndexes(
        problem="drivers gpu.example.com and gpu.nvidia.com both publish GPUs"
    )
