"""The fake GPU operator with a thousand KWOK nodes: latencies and cost.

    python -m bench.fakegpu [--nodes 1000] [--edits 100] [--minutes 12]

On the real API server: from the creation of the nodes until all have their devices; from one edit
of a node (its pool, or its MIG configuration) until its status shows it; from an edit of a pool
until all of its nodes show it; and the controller's memory while five pods a second are created and
deleted, from minute 2 on (``--minutes 0`` leaves that out). The last line is JSON.
"""

from __future__ import annotations

import argparse
import os
import random
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from bench.observer import dumps, percentile
from bench.rounds import usage
from tools.controlplane import ControlPlane, FakeNode
from tools.controlplane.fake_nodes import is_ready
from tools.controlplane.process import Running
from tools.fake_operator import FakeOperator

POOL = "run.ai/simulated-gpu-node-pool"
GPU = "nvidia.com/gpu"
PODS_PER_S = 5.0
PODS_KEPT = 200
SETTLED_MIN = 2.0
SAMPLE_S = 5.0
MIG = "version: v1\nmig-configs:\n  selected:\n  - {devices: all, mig-devices: {3g.20gb: 2}}\n"


def pools(count: int = 8) -> dict[str, Any]:
    """Two pools; ``count`` is the number of GPUs of a node in the large one."""
    a100 = {"gpuProduct": "NVIDIA-A100-SXM4-40GB", "gpuMemory": 40960}
    return {"nodePools": {"large": {**a100, "gpuCount": count}, "small": {**a100, "gpuCount": 4}}}


def offers(node: dict[str, Any], resource: str = GPU) -> int:
    """A node's allocatable of a resource."""
    return int(node["status"].get("allocatable", {}).get(resource, 0))


class Bench:
    """One control plane and one controller."""

    def __init__(self, plane: ControlPlane, operator: FakeOperator, nodes: int) -> None:
        self.client = plane.client
        self.plane = plane
        self.operator = operator
        self.nodes = nodes

    def wait_all(self, is_right: Callable[[dict[str, Any]], bool], timeout_s: float) -> float:
        """Seconds until the check succeeds for all nodes."""
        started = time.monotonic()
        while True:
            seen = self.client.request("GET", "/api/v1/nodes", timeout_s=60)["items"]
            right = sum(map(is_right, seen))
            if right == self.nodes:
                return time.monotonic() - started
            if time.monotonic() - started > timeout_s:
                raise TimeoutError(f"{right} of {self.nodes} nodes after {timeout_s:g} s")
            time.sleep(2.0)  # a list of all nodes costs the API server more than our writes

    def ready(self) -> float:
        """Seconds from the creation of all nodes until each has its GPUs."""
        started = time.monotonic()
        self.create_nodes()
        self.wait_all(lambda node: offers(node) == 8 and is_ready(node), 180)
        return time.monotonic() - started

    def create_nodes(self) -> None:
        """Create all nodes, in the large pool."""
        with self.client.kept() as client:
            for number in range(self.nodes):
                node = FakeNode(name=f"node-{number:05}", labels={POOL: "large"})
                client.create("/api/v1/nodes", node.manifest())

    def pool_edit(self, count: int) -> float:
        """Seconds from the edit of a pool until all of its nodes show it."""
        self.operator.configure(pools(count))
        return self.wait_all(lambda node: offers(node) == count, 180)

    def edits(self, count: int, rng: random.Random) -> list[float]:
        """Seconds until an edit of one node is visible, for several kinds of edit in turn."""
        kinds: list[tuple[dict[str, Any], Callable[[dict[str, Any]], bool]]] = [
            ({"labels": {POOL: "small"}}, lambda node: offers(node) == 4),
            (
                {"annotations": {"run.ai/mig.config": MIG}},
                lambda node: offers(node, "nvidia.com/mig-3g.20gb") == 8,
            ),
            (
                {"annotations": {"run.ai/mig.config": None}},
                lambda node: offers(node) == 4,
            ),
            (
                {"annotations": {"gpu-scheduler.io/fake-failures": "2:xid-48"}},
                lambda node: offers(node) == 3,
            ),
            ({"labels": {POOL: None}}, lambda node: GPU not in node["status"]["allocatable"]),
        ]
        times: list[float] = []
        with self.client.kept() as client:
            while len(times) < count:
                path = f"/api/v1/nodes/node-{rng.randrange(self.nodes):05}"
                for change, is_done in kinds:
                    started = time.monotonic()
                    client.patch(path, {"metadata": change})
                    while not is_done(client.get(path)):
                        if time.monotonic() - started > 30:
                            raise TimeoutError(f"{change} did not take effect on {path}")
                        time.sleep(0.01)
                    times.append(time.monotonic() - started)
                restored = {"annotations": {"gpu-scheduler.io/fake-failures": None}}
                client.patch(path, {"metadata": {**restored, "labels": {POOL: "large"}}})
        return times

    def churn(self, namespace: str, minutes: float, rng: random.Random) -> list[float]:
        """Resident memory (MiB) every few seconds, while pods are created and deleted."""
        path = f"/api/v1/namespaces/{namespace}/pods"
        samples: list[float] = []
        names: list[str] = []
        started = sampled = time.monotonic()
        with self.client.kept() as client:
            for number in range(int(minutes * 60 * PODS_PER_S)):
                pause = started + number / PODS_PER_S - time.monotonic()
                time.sleep(max(0.0, pause))
                if len(names) < PODS_KEPT or number % 2:
                    names.append(f"p-{number}")
                    client.create(path, self._pod(names[-1], rng))
                else:
                    name = names.pop(rng.randrange(len(names)))
                    client.delete(f"{path}/{name}", {"gracePeriodSeconds": 0})
                if time.monotonic() - sampled >= SAMPLE_S:
                    sampled = time.monotonic()
                    samples.append(self.rss())
        return samples

    def _pod(self, name: str, rng: random.Random) -> dict[str, Any]:
        container = {"name": "c", "image": "i", "resources": {"limits": {GPU: "1"}}}
        return {
            "metadata": {"name": name},
            "spec": {
                "nodeName": f"node-{rng.randrange(self.nodes):05}",
                "automountServiceAccountToken": False,
                "containers": [container],
            },
        }

    def rss(self) -> float:
        """The controller's resident memory now."""
        status = Path(f"/proc/{self.operator.pid}/status").read_text()
        return int(status.partition("VmRSS:")[2].split()[0]) / 1024


def processor_s(plane: ControlPlane, operator: FakeOperator) -> dict[str, float]:
    """CPU time of each program so far, and of this process, which creates the nodes."""
    pids = {**plane.processes, "fakegpu": operator.pid, "bench": os.getpid()}
    return {name: usage(Running(name, pid, ""))["cpu_s"] for name, pid in pids.items()}


def grown(samples: list[float], minutes: float) -> float:
    """The growth of memory after the start: medians of the first and the last minute."""
    first = int(min(SETTLED_MIN, minutes / 3) * 60 / SAMPLE_S)
    width = max(1, int(60 / SAMPLE_S))
    after = samples[first:]
    return percentile(after[-width:], 0.5) - percentile(after[:width], 0.5) if after else 0.0


def main() -> None:
    """Run the benchmark, and print the result."""
    parser = argparse.ArgumentParser(prog="python -m bench.fakegpu")
    parser.add_argument("--nodes", type=int, default=1000)
    parser.add_argument("--edits", type=int, default=100)
    parser.add_argument("--minutes", type=float, default=12.0)
    options = parser.parse_args()
    rng = random.Random(7)
    with tempfile.TemporaryDirectory() as folder, ControlPlane.start(Path(folder)) as plane:
        operator = FakeOperator(plane, Path(folder) / "operator", config={"mig": {"latencyS": 0.5}})
        operator.install()
        operator.configure(pools())
        with operator:
            bench = Bench(plane, operator, options.nodes)
            before = processor_s(plane, operator)
            result: dict[str, Any] = {"nodes": options.nodes, "ready_s": bench.ready()}
            after = processor_s(plane, operator)
            # The sum over all programs: the time on otherwise idle cores.
            result["ready_cpu_s"] = {name: after[name] - before[name] for name in before}
            result["ready_all_cpu_s"] = sum(result["ready_cpu_s"].values())
            result["pool_edit_s"] = bench.pool_edit(6)
            bench.pool_edit(8)
            times = bench.edits(options.edits, rng)
            result["edit_p50_s"] = percentile(times, 0.5)
            result["edit_p99_s"] = percentile(times, 0.99)
            print(dumps(result))
            if options.minutes:
                plane.client.create("/api/v1/namespaces", {"metadata": {"name": "bench"}})
                plane.wait_for_service_account("bench")
                samples = bench.churn("bench", options.minutes, rng)
                result["minutes"] = options.minutes
                result["rss_mib"] = samples[-1]
                result["rss_grown_mib"] = grown(samples, options.minutes)
            used = usage(Running("fakegpu", operator.pid, "fakegpu"))
            result |= {"peak_mib": used["rss_mib"], "cpu_s": used["cpu_s"]}
    print(dumps(result))


if __name__ == "__main__":
    main()
