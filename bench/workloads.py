"""Pods per second of this scheduler and the stock kube-scheduler in the shapes of scheduler_perf.

Each shape is one cluster on a real API server without kubelets. In every round the scheduler starts
cold with the measured pods pending; the figure is their number by the time from the scheduler's
first write to the last Binding. Then every measured pod must have a Scheduled event, and no node
more pods than the shape allows. Both schedulers have the rights and policies of an installation.
The last line is JSON; on a shared machine only ratios of medians are significant.
"""

from __future__ import annotations

import argparse
import contextlib
import itertools
import os
import subprocess
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from bench import shapes
from bench.control_plane import without_kubelets
from bench.load import Request
from bench.observer import Observer, dumps
from bench.rounds import alternating, delete_all, finished, schedule, send, summary
from bench.schedulers import KubeScheduler, Ours, SchedulerUnderTest, apply_manifests
from bench.shapes import INIT, MEASURED, OTHERS, Shape, Sizes
from tools.controlplane import ControlPlane

OURS, KUBE = "ours", "kube_scheduler"
_tags = itertools.count(1)


class Cluster:
    """The control plane with the objects of one shape at a time."""

    def __init__(self, plane: ControlPlane, directory: Path) -> None:
        self.plane = plane
        self._directory = directory

    def prepare(self) -> None:
        """Namespaces and priorities, for all shapes."""
        client = self.plane.client
        for name in (INIT, MEASURED, OTHERS):
            client.create("/api/v1/namespaces", {"metadata": {"name": name}})
            account = {"metadata": {"name": "default"}}
            client.create(f"/api/v1/namespaces/{name}/serviceaccounts", account)
        for name, value in shapes.CLASSES.items():
            body = {"metadata": {"name": name}, "value": value}
            client.create("/apis/scheduling.k8s.io/v1/priorityclasses", body)

    def send(self, requests: Iterable[Request], rate: float = 0) -> subprocess.Popen[bytes]:
        """Send requests from a process of its own."""
        return send(self.plane, self._directory / f"{next(_tags)}.jsonl", requests, rate)

    @contextlib.contextmanager
    def nodes(self, shape: Shape, sizes: Sizes) -> Iterator[None]:
        """The nodes and the volumes of a shape."""
        try:
            finished(self.send([*shapes.nodes(shape, sizes), *shapes.claims(shape, sizes)]))
            yield
        finally:
            self._delete("/api/v1/nodes", "/apis/storage.k8s.io/v1/csinodes")
            claims = [f"/api/v1/namespaces/{n}/persistentvolumeclaims" for n in (INIT, MEASURED)]
            self._delete("/api/v1/persistentvolumes", *claims)

    @contextlib.contextmanager
    def pods(self, shape: Shape, sizes: Sizes, scheduler: str) -> Iterator[None]:
        """All pods of a round."""
        parts = (shapes.init_pods, shapes.waiting_pods, shapes.measured_pods)
        try:
            finished(self.send(one for part in parts for one in part(shape, sizes, scheduler)))
            yield
        finally:
            for name in (INIT, MEASURED, OTHERS):
                events = f"/apis/events.k8s.io/v1/namespaces/{name}/events"
                self._delete(f"/api/v1/namespaces/{name}/pods", events)

    @contextlib.contextmanager
    def disturbed(self, shape: Shape, sizes: Sizes, scheduler: str) -> Iterator[None]:
        """The requests of a shape that are sent while its pods are placed."""
        if shape.during is None:
            yield
            return
        requests = shape.during(sizes, scheduler, next(_tags))
        generator = self.send(requests, shape.during_rate)
        try:
            yield
        finally:
            generator.terminate()
            generator.wait()

    def _delete(self, *paths: str) -> None:
        client = self.plane.client
        for path in paths:
            delete_all(client, path)


def one_round(
    cluster: Cluster, contestant: SchedulerUnderTest, shape: Shape, sizes: Sizes
) -> dict[str, float]:
    """One round of one scheduler in one shape."""
    plane, name, count = cluster.plane, contestant.scheduler_name, shape.measured(sizes)
    with (
        cluster.pods(shape, sizes, name),
        Observer(plane.client, MEASURED) as seen,
        Observer(plane.client, INIT) as victims,
        cluster.disturbed(shape, sizes, name),
    ):
        used = schedule(plane, contestant, seen, count)
    check_nodes(shape, seen.nodes)
    writes = [min(seen.bound.values()), seen.nominated, victims.deleted if shape.preempts else None]
    begun = min(moment for moment in writes if moment is not None)
    return {
        "pods_per_s": round(shapes.throughput(begun, seen.bound.values()), 1),
        **used,
        "load": round(os.getloadavg()[0], 1),
    }


def check_nodes(shape: Shape, placed: dict[str, str]) -> None:
    """No node may have more of the measured pods than fit."""
    for node, count in Counter(placed.values()).items():
        if count > shape.most_per_node:
            raise RuntimeError(
                f"{shape.name}: {count} measured pods on {node}; {shape.most_per_node} fit"
            )


def compete(
    cluster: Cluster, contestants: list[SchedulerUnderTest], shape: Shape, options: Any
) -> dict[str, Any]:
    """All rounds of one shape: the median of every figure, and the ratio."""
    sizes = Sizes(options.nodes, options.pods)
    results: dict[str, list[dict[str, float]]] = {entry.name: [] for entry in contestants}
    with cluster.nodes(shape, sizes):
        for number, contestant in alternating(contestants, options.rounds):
            outcome = one_round(cluster, contestant, shape, sizes)
            results[contestant.name].append(outcome)
            print(f"{shape.name} round {number} {contestant.name}: {dumps(outcome)}", flush=True)
    medians = {name: summary(rounds) for name, rounds in results.items()}
    return {
        "measures": shape.measures,
        "upstream": shape.upstream,
        "measured_pods": shape.measured(sizes),
        **medians,
        "ratio": round(medians[OURS]["pods_per_s"] / medians[KUBE]["pods_per_s"], 2),
        "goal": shape.goal,
    }


def report(figures: dict[str, dict[str, Any]], failed: dict[str, str]) -> dict[str, Any]:
    """The last line: a failed shape has the ratio 0."""
    ratios = {name: figure["ratio"] for name, figure in figures.items()}
    ratios |= dict.fromkeys(failed, 0.0)
    goals = {name: figure["goal"] for name, figure in figures.items()}
    missed = [name for name, ratio in ratios.items() if ratio < goals.get(name, 1.0)]
    return {
        "ratios": ratios,
        "min_ratio": min(ratios.values(), default=0.0),
        "not_reached": missed,
        "failed": failed,
        "shapes": figures,
    }


def run(cluster: Cluster, directory: Path, options: argparse.Namespace) -> dict[str, Any]:
    """All shapes; the failure of one does not end the others."""
    plane = cluster.plane
    contestants: list[SchedulerUnderTest] = [
        Ours(plane, directory / "ours", elects=True),
        KubeScheduler(plane, directory / "kube"),
    ]
    figures: dict[str, dict[str, Any]] = {}
    failed: dict[str, str] = {}
    for shape in options.shapes:
        try:
            figures[shape.name] = compete(cluster, contestants, shape, options)
        except RuntimeError as error:
            failed[shape.name] = str(error).partition("\n")[0]
            print(f"{shape.name} failed: {error}", flush=True)
        else:
            print(f"{shape.name}: ratio {figures[shape.name]['ratio']}", flush=True)
    return report(figures, failed)


def _shapes(words: str) -> tuple[Shape, ...]:
    try:
        return shapes.chosen(words)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def parse(words: list[str] | None = None) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(
        prog="python -m bench.workloads",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    names = ", ".join(shapes.SHAPES)
    parser.add_argument("--shapes", type=_shapes, default="", help=f"comma-separated; all: {names}")
    parser.add_argument("--nodes", type=int, default=1000, help="nodes of each cluster")
    parser.add_argument("--pods", type=int, default=2000, help="measured pods, where they fit")
    parser.add_argument("--rounds", type=int, default=3, help="rounds of each scheduler and shape")
    return parser.parse_args(words)


def main() -> None:
    """Start a control plane without kubelets, run the rounds, print the JSON."""
    options = parse()
    with without_kubelets() as (plane, directory):
        apply_manifests(plane)
        cluster = Cluster(plane, directory)
        cluster.prepare()
        print(dumps(run(cluster, directory, options)), flush=True)


if __name__ == "__main__":
    main()
