"""`gpuctl simulate` on manifests as users submit them (`tests/cases`)."""

from __future__ import annotations

import json

from tests.unit.gpuctl.cli import ROOT, Json, gpuctl

CASES = ROOT / "tests" / "cases"


def simulated(name: str) -> list[Json]:
    """The rows for one file, in the order in which its pods come."""
    said = gpuctl("simulate", str(CASES / name), "-o", "json")
    assert said.status == 0, said.err
    found: list[Json] = json.loads(said.out)
    return found


def given(found: list[Json]) -> dict[str, tuple[str | None, str | None]]:
    """Pod -> its node and its CUDA_VISIBLE_DEVICES."""
    return {row["pod"]: (row["node"], row["cudaVisibleDevices"]) for row in found}


def test_a_line_on_a_cordoned_node_keeps_one_of_three_replicas_waiting_and_says_so() -> None:
    first, second, third = simulated("01-assigned-index-skips-no-line.yaml")

    assert [(row["node"], row["cudaVisibleDevices"]) for row in (first, second)] == [
        ("n1", "0"),
        ("n2", "0"),
    ]
    assert third["node"] is None
    assert third["reason"] == (
        "0/3 nodes are available: no line of gpu-scheduling-map can be had:"
        " line 0 on node n0: node(s) were unschedulable; 2 of 3 lines are held by its siblings."
    )


def test_master_and_workers_of_a_training_job_count_their_own_maps() -> None:
    assert given(simulated("02-pytorchjob-roles-with-own-maps.yaml")) == {
        "mnist-master-0": ("plain-a", "0,1"),
        "mnist-worker-0": ("plain-b", "0,1"),
        "mnist-worker-1": ("plain-b", "2,3"),
    }


def test_worker_groups_of_a_ray_cluster_count_their_own_maps() -> None:
    found = given(simulated("03-raycluster-worker-groups-with-own-maps.yaml"))

    assert all(node for node, _ in found.values())
    assert found["raycluster-small-worker-aaaaa"] == ("plain-a", "0")
    assert found["raycluster-large-worker-bbbbb"] == ("plain-b", "0,1")


def test_a_training_workers_line_is_its_replica_index_in_whatever_order_they_come() -> None:
    assert given(simulated("05-mpijob-worker-index.yaml")) == {
        "cifar-worker-1": ("plain-b", "0,1"),
        "cifar-worker-0": ("plain-a", "0,1"),
    }
