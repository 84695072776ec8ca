"""Pods per second of this scheduler and the stock kube-scheduler, on one control plane, in
alternating rounds.

    python -m bench.throughput [--nodes 1000] [--pods 3000] [--rounds 3] [--live-rate 150]

Backlog: the pods exist first, the scheduler starts cold; measured from its first Binding to its
last one. Live: pods arrive at a fixed rate at a scheduler that has already placed one; measured
from creation to Binding. After each round the Scheduled events are counted and every node is
checked for over-commit. The last line is JSON; on a shared machine only ratios of medians are
significant.
"""

from __future__ import annotations

import argparse
import time
from collections import Counter
from pathlib import Path
from typing import Any

from bench.control_plane import without_kubelets
from bench.load import pod
from bench.observer import Observer, dumps, percentile
from bench.rounds import (
    BOUND_S,
    Namespace,
    alternating,
    finished,
    load,
    schedule,
    summary,
    usage,
)
from bench.schedulers import KubeScheduler, Ours, SchedulerUnderTest, apply_roles
from tools.controlplane import ControlPlane
from tools.controlplane.process import Running

GPUS = 8


def check_over_commit(seen: Observer) -> None:
    """No node may hold more pods than it has GPUs."""
    worst = max(Counter(seen.nodes.values()).values(), default=0)
    if worst > GPUS:
        raise RuntimeError(f"over-commit: a node with {GPUS} GPUs got {worst} one-GPU pods")


def backlog(plane: ControlPlane, contestant: SchedulerUnderTest, pods: int) -> dict[str, float]:
    """One backlog round."""
    with Namespace(plane) as namespace:
        finished(load(plane, "pods", namespace, contestant.scheduler_name, str(pods), "0"))
        with Observer(plane.client, namespace) as seen:
            started = time.monotonic()
            used = schedule(plane, contestant, seen, pods)
            check_over_commit(seen)
            first, last = min(seen.bound.values()), max(seen.bound.values())
    return {
        "pods_per_s": round((pods - 1) / (last - first), 1),
        "cold_start_s": round(first - started, 2),
        **used,
    }


def warm(
    plane: ControlPlane, contestant: SchedulerUnderTest, namespace: str, process: Running
) -> None:
    """Wait until the scheduler has placed a pod: its start-up time belongs to the backlog
    figure.
    """
    with Observer(plane.client, namespace) as seen:
        path = f"/api/v1/namespaces/{namespace}/pods"
        plane.client.create(path, pod("warm-0", contestant.scheduler_name))
        seen.wait(1, BOUND_S, process.is_alive)
    plane.client.request("DELETE", f"{path}/warm-0?gracePeriodSeconds=0")
    plane.client.wait_for(path, lambda seen: not seen["items"], what="the first pod to go")


def live(
    plane: ControlPlane, contestant: SchedulerUnderTest, pods: int, rate: float
) -> dict[str, float]:
    """One live round: latency from the pod's creation to its Binding, both seen by the observer."""
    with Namespace(plane) as namespace:
        process = contestant.start()
        try:
            warm(plane, contestant, namespace, process)
            with Observer(plane.client, namespace) as seen:
                generator = load(
                    plane, "pods", namespace, contestant.scheduler_name, str(pods), str(rate)
                )
                seen.wait(pods, BOUND_S, process.is_alive)
                finished(generator)
                used = usage(process)
                check_over_commit(seen)
        finally:
            process.stop()
    waits = [1000 * (seen.bound[name] - seen.created[name]) for name in seen.bound]
    return {
        "p50_ms": round(percentile(waits, 0.5), 1),
        "p99_ms": round(percentile(waits, 0.99), 1),
        **used,
    }


def compete(plane: ControlPlane, directory: Path, options: argparse.Namespace) -> dict[str, Any]:
    """All rounds, alternating; the medians and the ratio."""
    contestants: list[SchedulerUnderTest] = [
        Ours(plane, directory / "ours"),
        KubeScheduler(plane, directory / "kube"),
    ]
    results: dict[str, list[dict[str, float]]] = {entry.name: [] for entry in contestants}
    lives: dict[str, list[dict[str, float]]] = {entry.name: [] for entry in contestants}
    for number, contestant in alternating(contestants, options.rounds):
        outcome = backlog(plane, contestant, options.pods)
        results[contestant.name].append(outcome)
        print(f"round {number} backlog {contestant.name}: {dumps(outcome)}", flush=True)
        if options.live_rate:
            waited = live(plane, contestant, options.live_pods, options.live_rate)
            lives[contestant.name].append(waited)
            print(f"round {number} live {contestant.name}: {dumps(waited)}", flush=True)
    report: dict[str, Any] = {name: summary(rounds) for name, rounds in results.items()}
    for name, rounds in lives.items():
        if rounds:
            report[name]["live"] = summary(rounds)
    ours, kube = report["ours"], report["kube_scheduler"]
    report["ratio"] = round(ours["pods_per_s"] / kube["pods_per_s"], 2)
    report["rss_ratio"] = round(ours["rss_mib"] / kube["rss_mib"], 2)
    report["nodes"], report["pods"] = options.nodes, options.pods
    return report


def main() -> None:
    """Start a control plane without kubelets, run the rounds, print the JSON."""
    parser = argparse.ArgumentParser(prog="python -m bench.throughput", description=__doc__)
    parser.add_argument("--nodes", type=int, default=1000)
    parser.add_argument("--pods", type=int, default=3000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--live-pods", type=int, default=1000)
    parser.add_argument("--live-rate", type=float, default=100.0, help="pods/s; 0: no live rounds")
    options = parser.parse_args()
    with without_kubelets() as (plane, directory):
        apply_roles(plane)
        finished(load(plane, "nodes", str(options.nodes), str(GPUS)))
        print(dumps(compete(plane, directory, options)), flush=True)


if __name__ == "__main__":
    main()
