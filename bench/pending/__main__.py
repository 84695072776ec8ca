"""Ten thousand unschedulable pods, and their cost for other pods.

    python -m bench.pending [--pods 10000] [--nodes 1000] [--rounds 3]

On the real API server: the time until each of them has a condition; the latency of a new pod that
fits, meanwhile and afterwards; the scheduler's CPU use when idle; the reaction to one released
slice that any of them could use. Before that, ``condition_rate`` compares the rate of the
conditions with a bare loop of status patches. The last line is JSON.
"""

from __future__ import annotations

import argparse
import http.client
import re
import time
from collections.abc import Callable
from typing import Any

from bench.control_plane import without_kubelets
from bench.load import node, pod
from bench.observer import Observer, dumps, percentile
from bench.pending import condition_rate
from bench.rounds import Namespace, finished, load, usage
from bench.schedulers import apply_roles
from tools.controlplane import ControlPlane, wait_until
from tools.controlplane.ports import LOOPBACK
from tools.controlplane.process import Running
from tools.product import Product

SCHEDULER = "gpu-scheduler"
EXPLAINED_S = 300.0
NEW_PODS = 20
IDLE_S = 10.0
#: One MIG node with this many slices, all used by the first pods.
SLICES = 4


class Scheduler:
    """The product's scheduler as a measured process."""

    def __init__(self, product: Product) -> None:
        self._port = product.health_port
        self._running = Running("scheduler", product.pids["scheduler"], "scheduler")

    def used(self) -> dict[str, float]:
        """Peak memory (MiB) and CPU time (s)."""
        return usage(self._running)

    def metric(self, pattern: str) -> float:
        """The sum of the samples that match."""
        connection = http.client.HTTPConnection(LOOPBACK, self._port, timeout=10)
        try:
            connection.request("GET", "/metrics")
            page = connection.getresponse().read().decode()
        finally:
            connection.close()
        return sum(float(value) for value in re.findall(rf"^{pattern} (\S+)$", page, re.M))

    def decisions(self) -> float:
        """The number of decisions so far."""
        return self.metric(r"gpu_scheduler_scheduling_algorithm_duration_seconds_count")


def explained(plane: ControlPlane, namespace: str) -> int:
    """The number of pods with a condition."""
    answer = plane.client.request("GET", f"/api/v1/namespaces/{namespace}/pods", timeout_s=60)
    return sum(1 for item in answer["items"] if _says_why(item))


def _says_why(item: Any) -> bool:
    for one in item.get("status", {}).get("conditions", []):
        if one["type"] == "PodScheduled":
            return bool(one["status"] == "False" and one.get("message"))
    return False


def new_pods(plane: ControlPlane, namespace: str, count: int, first: int) -> dict[str, float]:
    """Milliseconds from creation to node, one pod at a time.

    ``created`` are those until the API server had the pod: no scheduler has a part in them.
    """
    path = f"/api/v1/namespaces/{namespace}/pods"
    times, created = [], []
    with Observer(plane.client, namespace) as seen:
        for number in range(first, first + count):
            started = time.monotonic()
            plane.client.create(path, pod(f"new-{number}", SCHEDULER))
            created.append(1000 * (time.monotonic() - started))
            _wait(lambda: f"new-{number}" in seen.bound, 30)  # noqa: B023 - called at once
            times.append(1000 * (seen.bound[f"new-{number}"] - started))
    return {
        "p50": percentile(times, 0.5),
        "max": max(times),
        "created_p50": percentile(created, 0.5),
        "created_max": max(created),
    }


def _wait(check: Callable[[], bool], timeout_s: float) -> None:
    deadline = time.monotonic() + timeout_s
    while not check():
        if time.monotonic() > deadline:
            raise TimeoutError(f"not within {timeout_s:g} s")
        time.sleep(0.002)


def idle(scheduler: Scheduler) -> float:
    """The CPU use when idle, in percent of one core."""
    before = scheduler.used()["cpu_s"]
    time.sleep(IDLE_S)
    return 100 * (scheduler.used()["cpu_s"] - before) / IDLE_S


def free_one(plane: ControlPlane, scheduler: Scheduler, waiting: str, holder: str) -> Any:
    """One slice becomes free: the time until a pending pod has it, and the cost."""
    before, used = scheduler.decisions(), scheduler.used()["cpu_s"]
    with Observer(plane.client, waiting) as seen:
        started = time.monotonic()
        plane.client.request("DELETE", f"{holder}?gracePeriodSeconds=0")
        _wait(lambda: bool(seen.bound), 60)
        took = time.monotonic() - started
    time.sleep(2)
    return {
        "bound_after_s": took,
        "decisions": scheduler.decisions() - before,
        "cpu_s": scheduler.used()["cpu_s"] - used,
    }


def run(plane: ControlPlane, product: Product, options: argparse.Namespace) -> dict[str, Any]:
    """All steps, in order."""
    scheduler = Scheduler(product)
    figures: dict[str, Any] = {"pods": options.pods, "nodes": options.nodes}
    with Namespace(plane) as holders, Namespace(plane) as waiting, Namespace(plane) as others:
        finished(load(plane, "pods", holders, SCHEDULER, str(SLICES), "0", "mig"))
        started = time.monotonic()
        generator = load(plane, "pods", waiting, SCHEDULER, str(options.pods), "0", "mig")
        time.sleep(2)
        figures["new_while_they_come_ms"] = new_pods(plane, others, NEW_PODS, 0)
        finished(generator)
        figures["created_after_s"] = time.monotonic() - started
        wait_until(
            lambda: explained(plane, waiting) == options.pods,
            what="a reason on every pod",
            timeout_s=EXPLAINED_S,
        )
        figures["explained_after_s"] = time.monotonic() - started
        time.sleep(5)
        figures["idle_cpu_percent"] = idle(scheduler)
        figures["new_ms"] = new_pods(plane, others, NEW_PODS, NEW_PODS)
        holder = f"/api/v1/namespaces/{holders}/pods/p-00000"
        figures["freed"] = free_one(plane, scheduler, waiting, holder)
        time.sleep(12)  # all requeued pods have been tried again
        figures["idle_again_cpu_percent"] = idle(scheduler)
        figures["rss_mib"] = scheduler.used()["rss_mib"]
    return figures


def rounded(value: Any) -> Any:
    """Round to two digits."""
    if isinstance(value, dict):
        return {key: rounded(one) for key, one in value.items()}
    return round(value, 2)


def make_mig_node(plane: ControlPlane, count: int) -> None:
    """One MIG node beside the GPU nodes."""
    body = node(count, 0)
    body["metadata"]["name"] = "mig"
    amounts = body["status"]["capacity"]
    del amounts["nvidia.com/gpu"]
    amounts["nvidia.com/mig-2g.20gb"] = str(SLICES)
    plane.client.create("/api/v1/nodes", body)


def main() -> None:
    """Start a control plane without kubelets and the scheduler on it, run, print the JSON."""
    parser = argparse.ArgumentParser(prog="python -m bench.pending", description=__doc__)
    parser.add_argument("--pods", type=int, default=10_000)
    parser.add_argument("--nodes", type=int, default=1000)
    parser.add_argument("--rounds", type=int, default=3, help="rounds of the rates; 0: none")
    options = parser.parse_args()
    with without_kubelets() as (plane, directory):
        apply_roles(plane)
        finished(load(plane, "nodes", str(options.nodes), "8"))
        figures: dict[str, Any] = {}
        if options.rounds:
            rate = condition_rate.rates(plane, directory, options.pods, options.rounds)
            figures = {"conditions": rate}
        make_mig_node(plane, options.nodes)
        product = Product(plane, directory / "product")
        product.start(webhook=False)
        try:
            figures |= run(plane, product, options)
            print(dumps(rounded(figures)), flush=True)
        finally:
            product.close()


if __name__ == "__main__":
    main()
