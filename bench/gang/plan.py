"""The processor time of the plan of one group, without a control plane.

    python -m bench.gang.plan [--nodes 500] [--members 512] [--rounds 5] [--profile KIND]

Each kind is a group of equal pods on nodes with 8 GPUs and nothing else; ``half_full`` has pods
with one GPU on the cluster of ``bench/cluster_fixture``, whose nodes and free devices differ. Every
pod is decoded again in each round, so it has no cached properties. The last line is JSON, in
milliseconds.
"""

from __future__ import annotations

import argparse
import cProfile
import gc
import pstats
import random
import statistics
import time
from collections.abc import Callable
from typing import Any, Final

import msgspec

from bench import load
from bench.cluster_fixture import ClusterFixture
from bench.observer import dumps
from scheduler.decide.gang.plan import GangPlan, plan_gang
from scheduler.model import well_known
from scheduler.model.pods.pod import Pod
from scheduler.plugins import default_pipeline
from scheduler.state import event as ev
from scheduler.state.cache.cluster import Cluster
from scheduler.state.fold import fold
from scheduler.watch.decode import nodes, pods

PIPELINE = default_pipeline()
GPUS: Final = 8
SHOWN: Final = 25
KINDS: Final[dict[str, dict[str, str]]] = {
    "one_gpu": {"nvidia.com/gpu": "1"},
    "four_gpus": {"nvidia.com/gpu": "4"},
    "no_gpu": {},
    "half_full": {"nvidia.com/gpu": "1"},
}


def empty_cluster(count: int) -> Cluster:
    """Nodes as ``bench/load`` creates them, without pods."""
    cluster = Cluster()
    for number in range(count):
        body = load.node(number, GPUS)
        cluster.upsert_node(nodes.to_node(nodes.NODE.decode(msgspec.json.encode(body))))
    return cluster


def half_full_cluster(count: int) -> Cluster:
    """The cluster of the other benchmarks of decisions."""
    return ClusterFixture(count, random.Random(f"{count}")).cluster


def members(limits: dict[str, str], count: int) -> list[Pod]:
    """The pods of one group, as the watch delivers them."""
    return [_member(limits, number, count) for number in range(count)]


def _member(limits: dict[str, str], number: int, count: int) -> Pod:
    body = load.pod(load.name_of(number), "gpu-scheduler")
    body["metadata"] |= {
        "namespace": "bench",
        "uid": f"u-{number}",
        "labels": {well_known.GROUP: "train"},
        "annotations": {well_known.GROUP_MIN: str(count)},
    }
    body["spec"]["containers"][0]["resources"]["limits"] = limits
    return pods.to_pod(pods.POD.decode(msgspec.json.encode(body)))


def planned(cluster: Cluster, every: list[Pod]) -> tuple[float, GangPlan]:
    """The milliseconds of a plan, and the plan; the cluster is left as it was."""
    for pod in every:
        fold(cluster, ev.PodUpdated(pod))
    gang = cluster.gangs.of(every[0])
    assert gang is not None
    started = time.process_time()
    plan = plan_gang(cluster, gang, every, PIPELINE)
    took_ms = 1000 * (time.process_time() - started)
    for pod in every:
        fold(cluster, ev.PodDeleted(pod.uid))
    if not isinstance(plan, GangPlan):
        raise RuntimeError(f"the group has no place: {plan.diagnosis}")
    return took_ms, plan


def figures(options: argparse.Namespace) -> dict[str, dict[str, float]]:
    """The median and the maximum of each kind, in alternating rounds."""
    made: dict[str, Callable[[int], Cluster]] = {
        kind: half_full_cluster if kind == "half_full" else empty_cluster for kind in KINDS
    }
    clusters = {kind: make(options.nodes) for kind, make in made.items()}
    gc.freeze()
    times: dict[str, list[float]] = {kind: [] for kind in KINDS}
    used: dict[str, int] = {}
    for _ in range(options.rounds):
        for kind, limits in KINDS.items():
            took_ms, plan = planned(clusters[kind], members(limits, options.members))
            times[kind].append(took_ms)
            used[kind] = len({one.node_name for one in plan.placements})
    return {
        kind: {
            "median_ms": round(statistics.median(each), 1),
            "max_ms": round(max(each), 1),
            "nodes": used[kind],
        }
        for kind, each in times.items()
    }


def profile(kind: str, options: argparse.Namespace) -> None:
    """Print where one plan spends its time."""
    make = half_full_cluster if kind == "half_full" else empty_cluster
    cluster, every = make(options.nodes), members(KINDS[kind], options.members)
    watched = cProfile.Profile()
    watched.runcall(planned, cluster, every)
    pstats.Stats(watched).sort_stats("tottime").print_stats(SHOWN)


def main() -> None:
    """Print the figures as JSON."""
    parser = argparse.ArgumentParser(prog="python -m bench.gang.plan", description=__doc__)
    parser.add_argument("--nodes", type=int, default=500)
    parser.add_argument("--members", type=int, default=512)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--profile", choices=KINDS, help="profile one plan of this kind first")
    options = parser.parse_args()
    if options.profile:
        profile(options.profile, options)
    report: dict[str, Any] = figures(options)
    print(dumps(report))


if __name__ == "__main__":
    main()
