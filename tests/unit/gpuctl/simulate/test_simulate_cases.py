"""`gpuctl simulate` on manifests as users submit them (`tests/cases`)."""

from __future__ import annotations

import json

from tests.unit.gpuctl.cli import GPU, ROOT, Json, gpuctl, node, pod, rows, spec

DATED = '  name: h100-new\n  creationTimestamp: "2026-01-01T00:00:00Z"\n'
CASES = ROOT / "tests" / "cases"


def played(name: str) -> list[Json]:
    """The rows for one file, in the order in which its pods come."""
    result = gpuctl("simulate", str(CASES / name), "-o", "json")
    assert result.status == 0, result.err
    found: list[Json] = json.loads(result.out)
    return found


def test_a_share_of_a_card_is_no_card() -> None:
    """One pod of 20Gi has a whole card, none a quarter of the other; the rest has the reason."""
    found = played("09-gpu-memory-on-time-sliced-gpu.yaml")

    assert sorted(row["node"] or "" for row in found) == ["", "", "", "whole-1"]
    [reason] = {row["reason"] for row in found if not row["node"]}
    assert reason == (
        "0/2 nodes are available: 1 Insufficient nvidia.com/gpu (need 1; best node has 0 free),"
        " 1 node(s) where nvidia.com/gpu is one of 4 shares of a GPU with 6141 MiB for each"
        " (6.0Gi; the pod requests 20Gi)."
    )


def test_a_new_node_that_wants_another_layout_gives_nothing_away() -> None:
    [row] = played("10-mig-config-preset-on-new-node.yaml")

    assert row["node"] is None
    assert row["reason"] == (
        "0/1 nodes are available: 1 node(s) that wait for their MIG layout all-1g.10gb"
        " (nvidia.com/mig.config.state is not set yet; at most 15 min after the node's creation)."
    )


def test_a_node_that_was_made_long_ago_is_used_as_it_is() -> None:
    """As in a dump of a cluster: nothing came in a quarter of an hour, so nothing cuts it."""
    text = (CASES / "10-mig-config-preset-on-new-node.yaml").read_text(encoding="utf-8")
    dated = text.replace("  name: h100-new\n", DATED, 1)
    assert dated != text
    result = gpuctl("simulate", "-o", "json", "-", stdin=dated)
    assert [row["node"] for row in json.loads(result.out)] == ["h100-new"]


def test_the_reason_names_the_label_that_is_missing() -> None:
    """And the partition of the node pool, where two of its slices are asked for."""
    reasons = {
        row["pod"]: row["reason"] for row in played("12-gpu-memory-without-memory-label.yaml")
    }

    assert reasons == {
        "two": "0/1 nodes are available: 1 node(s) where nvidia.com/gpu counts slices of 1g.5gb"
        " and one container asked for more.",
        "mem": "0/1 nodes are available: 1 node(s) without the label nvidia.com/gpu.memory"
        " (the pod requests 16Gi).",
    }


def test_a_node_that_does_not_say_has_ephemeral_storage() -> None:
    assert [row["node"] for row in played("17-ephemeral-storage-in-simulator.yaml")] == ["gpu-a"]


def given(found: list[Json]) -> dict[str, tuple[str | None, str | None]]:
    """Pod -> its node and its CUDA_VISIBLE_DEVICES."""
    return {row["pod"]: (row["node"], row["cudaVisibleDevices"]) for row in found}


def test_map_line_of_a_cordoned_node_keeps_one_replica_waiting() -> None:
    first, second, third = played("01-assigned-index-skips-no-line.yaml")

    assert [(row["node"], row["cudaVisibleDevices"]) for row in (first, second)] == [
        ("n1", "0"),
        ("n2", "0"),
    ]
    assert third["node"] is None
    assert third["reason"] == (
        "0/3 nodes are available: no line of gpu-scheduling-map is available:"
        " line 0 on node n0: node(s) were unschedulable; 2 of 3 lines are held by its siblings."
    )


def test_master_and_workers_of_a_training_job_count_their_own_maps() -> None:
    assert given(played("02-pytorchjob-roles-with-own-maps.yaml")) == {
        "mnist-master-0": ("plain-a", "0,1"),
        "mnist-worker-0": ("plain-b", "0,1"),
        "mnist-worker-1": ("plain-b", "2,3"),
    }


def test_worker_groups_of_a_ray_cluster_count_their_own_maps() -> None:
    found = given(played("03-raycluster-worker-groups-with-own-maps.yaml"))

    assert all(node for node, _ in found.values())
    assert found["raycluster-small-worker-aaaaa"] == ("plain-a", "0")
    assert found["raycluster-large-worker-bbbbb"] == ("plain-b", "0,1")


def test_training_worker_gets_the_line_of_its_replica_index() -> None:
    assert given(played("05-mpijob-worker-index.yaml")) == {
        "cifar-worker-1": ("plain-b", "0,1"),
        "cifar-worker-0": ("plain-a", "0,1"),
    }


def test_a_pod_of_higher_priority_preempts_in_the_simulated_cluster() -> None:
    low, high = (
        {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", **body}
        for body in (
            {"metadata": {"name": "low"}, "value": 1},
            {"metadata": {"name": "high"}, "value": 9},
        )
    )
    first = pod("first", {**spec(GPU, 1), "priorityClassName": "low"})
    second = pod("second", {**spec(GPU, 1), "priorityClassName": "high"})

    found = {row["pod"]: row for row in rows(node("n1", gpu=1), low, high, first, second)}

    assert {name: row["node"] for name, row in found.items()} == {"first": None, "second": "n1"}
    assert "preempted on node n1 by default/second (priority 9)" in found["first"]["reason"]
