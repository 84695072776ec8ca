"""Conditions per second of the scheduler, and status patches per second of a bare loop.

In alternating rounds on one API server: pending pods that fit nowhere exist first. In a round of
the scheduler it starts cold and writes their conditions. In a round of the bare loop a process
sends the same patches, with as many in flight. The figure of both is the number of pods by the time
from the first condition to the last one, as a watch shows them.
"""

from __future__ import annotations

import itertools
import statistics
from collections.abc import Callable
from pathlib import Path
from typing import Any

from bench.load import Request
from bench.observer import Observer
from bench.rounds import BOUND_S, Namespace, finished, load, send
from bench.schedulers import Ours
from scheduler.report.events.send_queue import WORKERS
from tools.controlplane import ControlPlane
from tools.controlplane.process import tail

OURS, BARE = "scheduler", "bare_loop"
_files = itertools.count(1)
Round = Callable[[Observer], None]


def rates(plane: ControlPlane, directory: Path, pods: int, rounds: int) -> dict[str, Any]:
    """Both figures, the median of each, and the ratio of the medians."""
    scheduler = Ours(plane, directory / "conditions")
    sample: list[dict[str, Any]] = []

    def ours(seen: Observer) -> None:
        process = scheduler.start()
        try:
            seen.wait_explained(pods, BOUND_S, process.is_alive)
        except (RuntimeError, TimeoutError) as error:
            raise RuntimeError(f"{error}\n{tail(scheduler.log, 40)}") from error
        finally:
            process.stop()
        sample[:] = [_condition(plane, seen.namespace)]

    def bare(seen: Observer) -> None:
        file = directory / f"patches-{next(_files)}.jsonl"
        patches = _patches(plane, seen.namespace, sample[0])
        generator = send(plane, file, patches, in_flight=WORKERS)
        seen.wait_explained(pods, BOUND_S, lambda: generator.poll() in (None, 0))
        finished(generator)

    found: dict[str, list[float]] = {OURS: [], BARE: []}
    for number in range(rounds):
        both: list[tuple[str, Round]] = [(OURS, ours), (BARE, bare)]
        for name, one_round in both if number % 2 == 0 else both[::-1]:
            found[name].append(_rate(plane, pods, one_round))
            print(f"conditions round {number + 1} {name}: {found[name][-1]:.1f}/s", flush=True)
    medians = {name: statistics.median(values) for name, values in found.items()}
    return {
        f"{OURS}_per_s": medians[OURS],
        f"{BARE}_per_s": medians[BARE],
        "ratio": medians[OURS] / medians[BARE],
    }


def _rate(plane: ControlPlane, pods: int, one_round: Round) -> float:
    with Namespace(plane) as namespace:
        finished(load(plane, "pods", namespace, Ours.scheduler_name, str(pods), "0", "mig"))
        with Observer(plane.client, namespace) as seen:
            one_round(seen)
            moments = seen.explained.values()
            return (pods - 1) / (max(moments) - min(moments))


def _condition(plane: ControlPlane, namespace: str) -> dict[str, Any]:
    """What the scheduler wrote into one pod."""
    pods = plane.client.request("GET", f"/api/v1/namespaces/{namespace}/pods?limit=1")["items"]
    [written] = [one for one in pods[0]["status"]["conditions"] if one["type"] == "PodScheduled"]
    return {key: value for key, value in written.items() if key != "observedGeneration"}


def _patches(plane: ControlPlane, namespace: str, condition: dict[str, Any]) -> list[Request]:
    """The scheduler's patch for each pod of a namespace."""
    path = f"/api/v1/namespaces/{namespace}/pods"
    return [
        Request(
            "PATCH",
            f"{path}/{pod['metadata']['name']}/status",
            {"metadata": {"uid": pod["metadata"]["uid"]}, "status": {"conditions": [condition]}},
        )
        for pod in plane.client.request("GET", path, timeout_s=60)["items"]
    ]
