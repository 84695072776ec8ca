"""The fake's ResourceSlices beside those that NVIDIA's DRA driver published for the same GPUs.

``tests/golden/slices`` was published by its version 0.5.0-dev on NVIDIA's mock NVML: pools,
counters, names of all devices, and of each GPU's parts the first of every profile. What differs is
listed here, each with its reason; everything else is equal.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from fakegpu.dra.pool import Pool, changes
from fakegpu.node.hardware import hardware
from fakegpu.node.resource_slices import contents
from fakegpu.topology.node_topology import NodeTopology, Sharing
from tests.unit.fakegpu.nodes import topology

Json = dict[str, Any]
GOLDEN = Path(__file__).parents[3] / "golden" / "slices"

STATIC = "gpus: [{type: a100, count: 3}], mig: {mig-configs: {selected: ["
STATIC += "{devices: [0], mig-devices: {0: 2g.10gb, 2: 2g.10gb, 4: 1g.5gb}}, "
STATIC += "{devices: [1], mig-enabled: true}]}}"
IN_MODE = "gpus: [{type: a100, count: 2}], "
IN_MODE += "mig: {mig-configs: {selected: [{devices: [1], mig-enabled: true}]}}"
CASES = [
    pytest.param("static-mig", STATIC, False, id="cut-by-configuration"),
    pytest.param("dynamic-h100", "gpus: [{type: h100, count: 2}]", True, id="cut-by-claims"),
    pytest.param("dynamic-a100", IN_MODE, True, id="ampere-in-mig-mode"),
]

#: Attributes with other values or of ours alone.
ONLY_OURS = {"model": "seed operator's"}
OTHER_VALUES = {
    "uuid": "of this node",
    "parentUUID": "of this node",
    "resource.kubernetes.io/pciBusID": "of this machine",
}
#: Counters and capacities with other amounts: the mock library's are no card's.
OTHER_AMOUNTS = {
    "memory": "the mock has 98 % of the nominal memory",
    "decoders": "the mock has one for two compute slices",
    "jpeg": "the mock has one for the whole GPU",
    "copy": "the mock has one for each compute slice, a whole H100 has 8",
    "multiprocessors": "the mock has 14 for a compute slice on every board",
}
#: Where the board is the one that the mock speaks of, multiprocessors and copies have to be equal.
EXACT_ON_A100 = ("copy", "multiprocessors")


def node(pool: str, *, in_parts: bool) -> NodeTopology:
    found = topology(pool).pools["p"]
    return hardware(
        "real-node",
        found,
        found.layouts,
        strategy="mixed",
        sharing=Sharing(),
        failures={},
        dra="instead",
        in_parts=in_parts,
    )


def published(pool: str, *, in_parts: bool) -> list[Json]:
    """The specs of all slices, as they are written."""
    where = Pool(driver="gpu.nvidia.com", node="real-node", node_uid="u", base="real-node")
    made = changes(where, contents("real-node", node(pool, in_parts=in_parts)), [])
    return [msgspec.json.decode(msgspec.json.encode(body))["spec"] for _, body in made.write]


def is_mocks_own(name: str, *, is_a100: bool) -> bool:
    key = next((word for word in OTHER_AMOUNTS if name.startswith(word)), "")
    exact = EXACT_ON_A100 if is_a100 else ()
    # Memory slices are counted, not measured.
    return key not in ("", *exact) and not name.startswith(("memory-slice", "memorySlice"))


def comparable(amounts: Json, *, is_a100: bool) -> Json:
    return {
        name: "some" if is_mocks_own(name, is_a100=is_a100) else amount
        for name, amount in amounts.items()
    }


def device(one: Json, *, is_a100: bool) -> Json:
    """A device without the values that may differ; the names and types of all of them."""
    attributes = {
        name: list(value) if name in OTHER_VALUES else value
        for name, value in one["attributes"].items()
        if name not in ONLY_OURS
    }
    consumed = [
        {**part, "counters": comparable(part["counters"], is_a100=is_a100)}
        for part in one.get("consumesCounters", ())
    ]
    capacity = comparable(one["capacity"], is_a100=is_a100)
    return {"attributes": attributes, "capacity": capacity, "consumesCounters": consumed}


@pytest.mark.parametrize(("name", "pool", "in_parts"), CASES)
def test_slices_are_those_of_nvidias_driver(name: str, pool: str, in_parts: bool) -> None:
    """Their number and order, names of devices and counters, attributes with types, capacities."""
    theirs = json.loads((GOLDEN / f"{name}.json").read_text(encoding="utf-8"))
    ours = published(pool, in_parts=in_parts)
    is_a100 = name != "dynamic-h100"

    assert len(ours) == len(theirs)
    for mine, real in zip(ours, theirs, strict=True):
        for key in ("driver", "nodeName"):
            assert mine[key] == real[key]
        assert mine["pool"] | {"generation": 0} == real["pool"] | {"generation": 0}
        there = {one["name"]: one for one in mine.get("devices", ())}
        assert list(there) == real["names"]
        for one in real["devices"]:
            assert device(there[one["name"]], is_a100=is_a100) == device(one, is_a100=is_a100)
        sets = [
            {**one, "counters": comparable(one["counters"], is_a100=is_a100)}
            for one in mine.get("sharedCounters", ())
        ]
        assert sets == [
            {**one, "counters": comparable(one["counters"], is_a100=is_a100)}
            for one in real["sharedCounters"]
        ]


def test_a_gpu_that_nothing_is_cut_on_has_only_memory() -> None:
    """As the real one of a node where no GPU is offered in parts."""
    (spec,) = published("gpus: [{type: a100, count: 2}]", in_parts=False)

    assert [one["name"] for one in spec["devices"]] == ["gpu-0", "gpu-1"]
    assert {tuple(one["capacity"]) for one in spec["devices"]} == {("memory",)}
    assert {one["capacity"]["memory"]["value"] for one in spec["devices"]} == {"40Gi"}


def test_a_driver_version_that_is_none_is_left_out() -> None:
    """A version that is no semantic one would make the API server refuse the whole slice."""
    pool = "gpu: {profile: a100, overrides: {system: {driver_version: beta, cuda_version: '12'}}}"
    (spec,) = published(pool, in_parts=False)

    attributes = spec["devices"][0]["attributes"]
    assert not {"driverVersion", "cudaDriverVersion"} & attributes.keys()
    assert attributes["cudaComputeCapability"] == {"version": "8.0.0"}
