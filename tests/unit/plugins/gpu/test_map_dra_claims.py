"""Mapped pods with ResourceClaims of their own get the devices of their line, or a reason."""

from __future__ import annotations

from typing import Any

import pytest

from scheduler.state.node_info import over_committed
from tests.builders import cluster, node, placed, pod, settle
from tests.dra import claiming, device_class, request_json, resource_slice
from tests.dra_gpus import (
    DISCOVERED,
    EVERY_GPU,
    NAMES,
    NVIDIA,
    claim,
    devices_of,
    given,
    gpu,
    named,
    on_dra,
    said,
)

CLAIMS: list[Any] = [
    pytest.param([request_json("gpu", NVIDIA, count=2)], "3,0", named(3, 0), id="one-request"),
    pytest.param(
        [request_json("a", NVIDIA), request_json("b", NVIDIA)], "1,2", named(1, 2), id="two"
    ),
    pytest.param(
        [request_json("gpu", NVIDIA, allocationMode="All")],
        "0,1,2,3",
        ["gpu-0", "gpu-1", "gpu-2", "gpu-3"],
        id="mode-all",
    ),
    pytest.param(
        [request_json("gpu", NVIDIA), request_json("net", "net")],
        "2",
        [NAMES[2], "eth0"],
        id="beside-a-network-card",
    ),
]
NET = resource_slice("n1", "eth0", driver="net.example.com")
NETS = device_class("net", "device.driver == 'net.example.com'")


@pytest.mark.parametrize(("requests", "line", "expected"), CLAIMS)
def test_claims_of_the_pod_get_the_devices_of_the_line(
    requests: list[Any], line: str, expected: list[str]
) -> None:
    state = cluster(*on_dra(), NET, NETS, claim("mine", *requests))
    found = placed(state, pod("w-0", map=f"0=n1:{line}", spec=claiming("mine")))

    assert devices_of(found) == expected
    assert found.devices.numbers == tuple(map(int, line.split(",")))
    assert found.notes == ()


MISMATCHES: list[Any] = [
    pytest.param(
        claim("mine", request_json("gpu", NVIDIA, count=1)),
        "line 0 of gpu-scheduling-map names GPUs 0 1 and the claims of the pod (mine) get GPU 0",
        id="fewer",
    ),
    pytest.param(
        claim("mine", request_json("gpu", NVIDIA, count=3)),
        "line 0 of gpu-scheduling-map names GPUs 0 1 and the claims of the pod (mine) cannot have"
        " them (cannot allocate all claims (shared counters or capacity or constraints))",
        id="more",
    ),
    pytest.param(
        claim("mine", request_json("gpu", NVIDIA, allocationMode="All")),
        "line 0 of gpu-scheduling-map names GPUs 0 1 and the claims of the pod (mine) get"
        " GPUs 0 1 2 3",
        id="all",
    ),
    pytest.param(
        claim(
            "mine",
            request_json("a", NVIDIA, count=2, selectors=[
                {"cel": {"expression": "device.attributes['resource.kubernetes.io'].pciBusID"
                                       " == '0000:47:00.0'"}}]),
        ),
        "line 0 of gpu-scheduling-map names GPUs 0 1 and the claims of the pod (mine) cannot have"
        " them (cannot allocate all claims (request a; class gpu.nvidia.com) (need 2;"
        " 1 free))",
        id="a-selector-that-selects-too-few",
    ),
    pytest.param(
        claim("mine", request_json("net", "net")),
        "line 0 of gpu-scheduling-map names GPUs 0 1 and the claims of the pod (mine) get no GPU",
        id="no-gpu-at-all",
    ),
    pytest.param(
        claim("mine", allocation=given(NAMES[2])),
        "line 0 of gpu-scheduling-map names GPUs 0 1 and the claims of the pod (mine) get GPU 2",
        id="allocated-before",
    ),
]  # fmt: skip


@pytest.mark.parametrize(("mine", "text"), MISMATCHES)
def test_claims_that_ask_for_something_else_are_refused_with_both(mine: Any, text: str) -> None:
    state = cluster(*on_dra(), NET, NETS, mine)
    mapped = pod("w-0", map="0=n1:0,1", spec=claiming("mine"))

    assert text in said(state, mapped)


def test_claims_share_a_device_that_allows_multiple_allocations() -> None:
    shared = gpu(0, "0000:07:00.0", allowMultipleAllocations=True)
    theirs = claim("theirs", allocation=given("gpu-0", shareID="s"))
    published = resource_slice("n1", shared, driver=NVIDIA)
    state = cluster(node(labels=DISCOVERED), published, EVERY_GPU, theirs, claim("mine"))

    found = placed(state, pod("w-0", map="0=n1:0", spec=claiming("mine")))

    assert devices_of(found) == ["gpu-0"]


def test_pods_share_a_device_by_one_claim() -> None:
    shared = claim("shared", allocation=given(NAMES[1]), users=["w-0"])
    first = pod("w-0", map="0=n1:1\n1=n1:1", node="n1", spec=claiming("shared"))
    state = cluster(*on_dra(), shared, first)

    found = settle(state, pod("w-1", map="0=n1:1\n1=n1:1", spec=claiming("shared")))

    assert found.devices.numbers == (1,)
    assert over_committed(state.nodes.node_info["n1"]) == {}
