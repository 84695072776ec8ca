"""Memory and start of both schedulers on a real API server with running pods."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from bench.load import Request, name_of, node, pod
from bench.observer import Observer, dumps
from bench.process_memory import memory_mib
from bench.rounds import BOUND_S, Namespace, alternating, finished, send, summary
from bench.schedulers import KubeScheduler, Ours, SchedulerUnderTest
from tools.controlplane import ControlPlane
from tools.controlplane.process import tail

#: Nodes, running pods.
Size = tuple[int, int]
GPUS = 8
#: Pods of a size that no GPU is left for would keep the new pod waiting.
PODS_PER_NODE_MAX = GPUS - 1
#: After this time without work the resident memory is that of an idle scheduler.
IDLE_S = 5.0


def created(size: Size, namespace: str) -> Iterator[Request]:
    """The nodes, and the pods with a node."""
    nodes, pods = size
    if pods > nodes * PODS_PER_NODE_MAX:
        raise ValueError(f"{pods} pods do not fit on {nodes} nodes with {GPUS} GPUs and leave one")
    for number in range(nodes):
        yield Request("POST", "/api/v1/nodes", node(number, GPUS))
    for number in range(pods):
        body = pod(name_of(number), "default-scheduler")
        body["spec"]["nodeName"] = f"node-{number % nodes:05}"
        yield Request("POST", f"/api/v1/namespaces/{namespace}/pods", body)


def started(size: Size, namespace: str) -> Iterator[Request]:
    """The status of the running pods."""
    condition = {"type": "Ready", "status": "True"}
    for number in range(size[1]):
        path = f"/api/v1/namespaces/{namespace}/pods/{name_of(number)}/status"
        yield Request("PATCH", path, {"status": {"phase": "Running", "conditions": [condition]}})


def start_figures(plane: ControlPlane, directory: Path, size: Size, rounds: int) -> dict[str, Any]:
    """Alternating starts: medians, and the ratios of memory and of the first Binding."""
    contestants: list[SchedulerUnderTest] = [
        Ours(plane, directory / "ours"),
        KubeScheduler(plane, directory / "kube"),
    ]
    results: dict[str, list[dict[str, float]]] = {entry.name: [] for entry in contestants}
    running = Namespace(plane).__enter__()  # its pods end with the control plane
    finished(send(plane, directory / "created.jsonl", created(size, running)))
    finished(send(plane, directory / "started.jsonl", started(size, running)))
    for number, contestant in alternating(contestants, rounds):
        outcome = one_start(plane, contestant)
        results[contestant.name].append(outcome)
        print(f"{size} round {number} {contestant.name}: {dumps(outcome)}", flush=True)
    medians = {name: summary(entries) for name, entries in results.items()}
    ours, kube = medians["ours"], medians["kube_scheduler"]
    ratios = {f"{key}_ratio": round(ours[key] / kube[key], 2) for key in ours if key != "load"}
    return {**medians, **ratios}


def one_start(plane: ControlPlane, contestant: SchedulerUnderTest) -> dict[str, float]:
    """Start a scheduler with one pending pod, and wait until it is bound and the process idle."""
    with Namespace(plane) as namespace, Observer(plane.client, namespace) as seen:
        path = f"/api/v1/namespaces/{namespace}/pods"
        plane.client.create(path, pod(name_of(0), contestant.scheduler_name))
        began = time.monotonic()
        process = contestant.start()
        try:
            seen.wait(1, BOUND_S, process.is_alive)
            time.sleep(IDLE_S)
            memory = memory_mib(process.pid)
        except (RuntimeError, TimeoutError) as error:
            raise RuntimeError(f"{error}\n{tail(contestant.log, 40)}") from error
        finally:
            process.stop()
    return {
        "first_binding_s": round(min(seen.bound.values()) - began, 2),
        **memory,
        "load": round(os.getloadavg()[0], 1),
    }
