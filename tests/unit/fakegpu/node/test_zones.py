"""NUMA zones of fake nodes: their GPUs and CPUs, and their documents."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from fakegpu.controller.plan_types import Settings
from fakegpu.node.numa_zones import cpulist, document, members, processors, shares
from fakegpu.topology.document import read_topology
from fakegpu.topology.node_topology import decode_yaml, encode_json, encode_yaml
from fakegpu.topology.numa import Numa
from tests.unit.fakegpu.nodes import fake, planned, read_answer

NUMA = "numa: {zones: 2, gpusPerZone: [3, 1], cpuPerZone: 8, memPerZone: 64Gi}"
SETTINGS = Settings(namespace="gpu-operator", map_prefix="topology-", zones=True)
FOUR = "gpus: [{type: t4, count: 4}]"


@pytest.mark.contract("S1-16")
@pytest.mark.parametrize(
    ("numa", "gpus", "wanted"),
    [
        pytest.param(Numa(), 4, [[0, 1, 2, 3]], id="one-zone"),
        pytest.param(Numa(zones=2), 5, [[0, 1, 2], [3, 4]], id="what-is-left-over-goes-first"),
        pytest.param(Numa(zones=2, gpus_per_zone=(1, 3)), 4, [[0], [1, 2, 3]], id="as-it-is-said"),
        pytest.param(Numa(zones=2), 1, [[0], []], id="a-zone-without"),
    ],
)
def test_gpus_are_numbered_zone_by_zone(numa: Numa, gpus: int, wanted: list[list[int]]) -> None:
    assert [list(zone) for zone in members(numa, gpus)] == wanted


@pytest.mark.contract("S1-53")
def test_processors_are_listed_as_linux_does() -> None:
    zones = processors(Numa(zones=2, cpu_per_zone="4"))

    assert [cpulist(zone) for zone in zones] == ["0-3", "4-7"], "the content of a cpulist file"
    assert [cpulist(zone) for zone in processors(Numa(zones=2))] == ["", ""]


@pytest.mark.parametrize(
    ("total", "weights", "wanted"),
    [(8, (2, 1), (5, 3)), (3, (1, 1), (2, 1)), (5, (0, 0), (5, 0)), (0, (1, 2), (0, 0))],
)
def test_a_number_is_shared_and_nothing_of_it_is_lost(
    total: int, weights: tuple[int, ...], wanted: tuple[int, ...]
) -> None:
    assert shares(total, weights) == wanted
    assert sum(shares(total, weights)) == total


def told(pool: str) -> dict[str, Any]:
    return document("n", "node-uid", fake(pool))


@pytest.mark.contract("S1-52")
def test_a_node_resource_topology_tells_the_zones_costs_and_policies() -> None:
    found = told(f"{FOUR}, {NUMA}")

    assert (found["apiVersion"], found["kind"]) == (
        "topology.node.k8s.io/v1alpha2",
        "NodeResourceTopology",
    )
    [owner] = found["metadata"]["ownerReferences"]
    assert (owner["kind"], owner["name"], owner["uid"]) == ("Node", "n", "node-uid")
    assert found["topologyPolicies"] == ["SingleNUMANodeContainerLevel"]
    first, second = found["zones"]
    assert (first["name"], first["type"]) == ("node-0", "Node")
    assert [one["value"] for one in first["costs"]] == [10, 21]
    assert [one["value"] for one in second["costs"]] == [21, 10]
    amounts = {one["name"]: one for one in second["resources"]}
    assert set(amounts) == {"nvidia.com/gpu", "cpu", "memory"}
    assert amounts["nvidia.com/gpu"] == {
        "name": "nvidia.com/gpu",
        "capacity": "1",
        "allocatable": "1",
        "available": "1",
    }
    assert amounts["memory"]["capacity"] == "64Gi"


@pytest.mark.parametrize(
    ("policy", "scope", "wanted"),
    [
        ("restricted", "pod", "RestrictedPodLevel"),
        ("best-effort", "container", "BestEffortContainerLevel"),
        ("none", "pod", "None"),
    ],
)
def test_older_readers_get_policy_and_scope_in_one_word(
    policy: str, scope: str, wanted: str
) -> None:
    said = f"topologyManagerPolicy: {policy}, topologyManagerScope: {scope}"

    assert told(f"{FOUR}, numa: {{{said}}}")["topologyPolicies"] == [wanted]


def test_configured_zones_are_in_the_node_topology_in_both_spellings() -> None:
    found = fake(f"{FOUR}, {NUMA}")

    assert decode_yaml(encode_yaml(found)) == found
    assert read_answer(encode_json(found)) == found
    assert "numa" not in encode_yaml(fake(FOUR))


def test_the_document_is_planned_on_request_only() -> None:
    assert planned(FOUR).zones is None
    wanted = planned(FOUR, settings=SETTINGS).zones
    assert wanted is not None
    assert [zone["name"] for zone in msgspec.json.decode(wanted)["zones"]] == ["node-0"]


@pytest.mark.parametrize(
    ("numa", "problem"),
    [
        ("{zones: 0}", "nodePools.p.numa.zones: "),
        ("{cpuPerZone: many}", "nodePools.p.numa.cpuPerZone: "),
        ("{topologyManagerPolicy: strict}", "nodePools.p.numa.topologyManagerPolicy: "),
    ],
)
def test_zones_that_cannot_be_are_refused_with_their_path(numa: str, problem: str) -> None:
    found = read_topology(f"nodePools:\n  p: {{{FOUR}, numa: {numa}}}\n")

    assert found.problems["p"].startswith(problem)
