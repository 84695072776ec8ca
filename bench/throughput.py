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
import itertools
import statistics
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

from bench.control_plane import without_kubelets
from bench.load import pod
from bench.observer import Observer, dumps, percentile
from bench.schedulers import KubeScheduler, Ours, SchedulerUnderTest, apply_roles
from tools.controlplane import ControlPlane, wait_until
from tools.controlplane.process import Running, tail

GPUS = 8
BOUND_S = 180.0
EVENTS_S = 30.0
_numbers = itertools.count(1)


def load(plane: ControlPlane, *words: str) -> subprocess.Popen[bytes]:
    """Start the load generator in a process of its own."""
    command = [sys.executable, "-m", "bench.load", str(plane.kubeconfig), *words]
    return subprocess.Popen(command)


def finished(process: subprocess.Popen[bytes]) -> None:
    """Wait for the load generator; its failure fails the benchmark."""
    if process.wait(timeout=BOUND_S) != 0:
        raise RuntimeError("the load generator failed")


class Namespace:
    """A new namespace with a default ServiceAccount; its pods are deleted at once at the end."""

    def __init__(self, plane: ControlPlane) -> None:
        self.name = f"bench-{next(_numbers)}"
        self._plane = plane

    def __enter__(self) -> str:
        client = self._plane.client
        client.create("/api/v1/namespaces", {"metadata": {"name": self.name}})
        client.create(
            f"/api/v1/namespaces/{self.name}/serviceaccounts", {"metadata": {"name": "default"}}
        )
        return self.name

    def __exit__(self, *_: object) -> None:
        client = self._plane.client
        path = f"/api/v1/namespaces/{self.name}/pods"
        client.request("DELETE", f"{path}?gracePeriodSeconds=0", timeout_s=120)
        client.wait_for(path, lambda seen: not seen["items"], what="pods to go", timeout_s=120)


def scheduled_events(plane: ControlPlane, namespace: str) -> int:
    """The number of pods with a Scheduled event."""
    path = f"/apis/events.k8s.io/v1/namespaces/{namespace}/events"
    items = plane.client.request("GET", path, timeout_s=60)["items"]
    return len({item["regarding"]["name"] for item in items if item["reason"] == "Scheduled"})


def usage(process: Running) -> dict[str, float]:
    """Peak memory (MiB) and CPU time (s) of a process and its children so far."""
    status = Path(f"/proc/{process.pid}/status").read_text(encoding="utf-8")
    peak = next(line for line in status.splitlines() if line.startswith("VmHWM"))
    fields = Path(f"/proc/{process.pid}/stat").read_text(encoding="utf-8").rsplit(")", 1)[1].split()
    return {
        "rss_mib": round(int(peak.split()[1]) / 1024, 1),
        "cpu_s": round((int(fields[11]) + int(fields[12])) / 100, 2),
    }


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
            process = contestant.start()
            try:
                seen.wait(pods, BOUND_S, process.is_alive)
                wait_until(
                    lambda: scheduled_events(plane, namespace) == pods,
                    what=f"{pods} Scheduled events",
                    timeout_s=EVENTS_S,
                )
                used = usage(process)
            except (RuntimeError, TimeoutError) as error:
                raise RuntimeError(f"{error}\n{tail(contestant.log, 40)}") from error
            finally:
                process.stop()
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


def summary(rounds: list[dict[str, float]]) -> dict[str, float]:
    """The median of every figure."""
    return {key: round(statistics.median(entry[key] for entry in rounds), 2) for key in rounds[0]}


def compete(plane: ControlPlane, directory: Path, options: argparse.Namespace) -> dict[str, Any]:
    """All rounds, alternating; the medians and the ratio."""
    contestants: list[SchedulerUnderTest] = [
        Ours(plane, directory / "ours"),
        KubeScheduler(plane, directory / "kube"),
    ]
    results: dict[str, list[dict[str, float]]] = {entry.name: [] for entry in contestants}
    lives: dict[str, list[dict[str, float]]] = {entry.name: [] for entry in contestants}
    for number in range(options.rounds):
        order = contestants if number % 2 == 0 else contestants[::-1]
        for contestant in order:
            outcome = backlog(plane, contestant, options.pods)
            results[contestant.name].append(outcome)
            print(f"round {number + 1} backlog {contestant.name}: {dumps(outcome)}", flush=True)
            if options.live_rate:
                waited = live(plane, contestant, options.live_pods, options.live_rate)
                lives[contestant.name].append(waited)
                print(f"round {number + 1} live {contestant.name}: {dumps(waited)}", flush=True)
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
