"""The large clusters of bench.scale, and the memory per object."""

from __future__ import annotations

import pytest

from bench.scale import big_cluster
from bench.scale.__main__ import fitted, parse, parse_sizes
from bench.scale.live import created, started
from scheduler.watch.decode.objects import read_node, read_pod


def test_pods_of_a_large_cluster_are_running_and_readable() -> None:
    parts = list(big_cluster.pod_parts(1200, 700, [{"metadata": {}}]))
    pods = [read_pod(content) for part in parts[1:] for content in part]

    assert [len(part) for part in parts] == [1, 500, 500, 200]
    assert not any(pod.unread for pod in pods)
    assert len({pod.uid for pod in pods}) == len({pod.key for pod in pods}) == 1200
    assert [pod.node_name for pod in (pods[0], pods[699], pods[700])] == [
        *("node-00000", "node-00699", "node-00000")
    ]
    assert {pod.phase for pod in pods} == {"Running"}


@pytest.mark.parametrize("nodes", [pytest.param(60, id="few-nodes"), pytest.param(900, id="many")])
def test_no_node_of_a_large_cluster_is_over_committed(nodes: int) -> None:
    offered = {
        node.name: node.allocatable.get("nvidia.com/gpu", 0)
        for part in big_cluster.node_parts(nodes)
        for node in map(read_node, part)
    }
    for part in big_cluster.pod_parts(6 * nodes, nodes, []):
        for pod in map(read_pod, part):
            offered[pod.node_name] -= pod.gpu_requests.get("nvidia.com/gpu", 0)

    assert min(offered.values()) >= 0
    assert sum(offered.values()) > 0


def test_objects_have_the_size_of_real_ones() -> None:
    [nodes] = big_cluster.node_parts(2)
    *_, pods = big_cluster.pod_parts(2, 2, [])

    assert [len(content) // 1000 for content in nodes] == [7, 7]
    assert [len(content) // 1000 for content in pods] == [4, 4]


def test_memory_is_split_into_a_base_and_a_part_per_object() -> None:
    sizes = [(100, 1000), (1000, 1000), (1000, 9000), (5000, 20_000)]
    rows = [
        {"nodes": n, "pods": p, "rss_mib": 80 + n * 20 / 1024 + p * 12 / 1024} for n, p in sizes
    ]

    found = fitted(rows, "rss_mib")

    assert {key: round(value, 6) for key, value in found.items()} == {
        **{"base_mib": 80, "node_kib": 20, "pod_kib": 12}
    }


def test_sizes_on_one_line_cannot_be_split() -> None:
    rows = [{"nodes": n, "pods": 2 * n, "rss_mib": 80.0 + n} for n in (1, 2, 3)]

    with pytest.raises(ValueError, match="different ratios"):
        fitted(rows, "rss_mib")


def test_command_line_reads_sizes_and_names_an_invalid_one(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert parse([]).sizes == parse_sizes(
        "1000x5000,5000x20000,5000x50000,10000x50000,15000x100000"
    )
    assert parse(["--live"]).sizes == [(5000, 20_000)]
    assert parse(["--sizes", "10x20,3x4"]).sizes == [(10, 20), (3, 4)]
    with pytest.raises(SystemExit):
        parse(["--sizes", "10"])
    assert "'10' is no size such as 5000x20000" in capsys.readouterr().err


def test_live_cluster_has_running_pods_and_leaves_a_gpu_free() -> None:
    bodies = [one.body for one in created((2, 6), "ns")]
    patches = list(started((2, 6), "ns"))

    assert [body["spec"].get("nodeName") for body in bodies[2:]] == [
        *("node-00000", "node-00001") * 3
    ]
    assert {one.body["status"]["phase"] for one in patches} == {"Running"}
    with pytest.raises(ValueError, match="15 pods do not fit"):
        next(created((2, 15), "ns"))
