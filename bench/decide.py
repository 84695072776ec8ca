"""The time of one decision, which must not grow with the cluster.

    python -m bench.decide [--nodes 100,1000,10000] [--decisions 3000] [--rounds 5]

The cluster and the pods are those of ``bench/cluster_fixture``. Every pod is decoded again, so it
has no cached properties; a rejection is timed including its message. After each placement the pod
is added and older ones are deleted; this time is reported separately. The last line is JSON, in
microseconds.
"""

from __future__ import annotations

import argparse
import gc
import random
import statistics
import time
from collections.abc import Callable, Iterator
from typing import Any

from bench.cluster_fixture import ClusterFixture, anti_affine, pod
from bench.observer import dumps, percentile
from scheduler.decide.schedule_one import schedule_one
from scheduler.framework.decision import Placement
from scheduler.model.reasons.reason import sentence
from scheduler.plugins import default_pipeline

PIPELINE = default_pipeline()


def timed(work: Callable[..., Any], *arguments: Any) -> tuple[float, Any]:
    """Microseconds, and the result."""
    started = time.perf_counter()
    result = work(*arguments)
    return (time.perf_counter() - started) * 1e6, result


def run(world: ClusterFixture, decisions: int) -> dict[str, float]:
    """One round on one world."""
    yes: list[float] = []
    no: list[float] = []
    enter: list[float] = []
    for _ in range(decisions):
        newcomer = world.next()
        world.cluster.track_label_keys(newcomer)
        took, decision = timed(schedule_one, world.cluster, newcomer, PIPELINE)
        if isinstance(decision, Placement):
            yes.append(took)
            enter.append(timed(world.enter, decision)[0])
        else:
            no.append(took + timed(sentence, decision.diagnosis)[0])
    every = yes + no
    return {
        "median_us": statistics.median(every),
        "p99_us": percentile(every, 0.99),
        "placed_us": statistics.median(yes),
        "rejected_us": statistics.median(no),
        "rejected_p99_us": percentile(no, 0.99),
        "rejected_share": len(no) / len(every),
        "enter_and_leave_us": statistics.median(enter),
    }


def unsupported(world: ClusterFixture) -> float:
    """The median time of a rejection because of a required hostname anti-affinity."""
    times = []
    for _ in range(200):
        newcomer = world.next(lambda rng, number: pod(number, anti_affine(rng)))
        times.append(timed(schedule_one, world.cluster, newcomer, PIPELINE)[0])
    return statistics.median(times)


def rows(options: argparse.Namespace) -> Iterator[tuple[int, dict[str, float]]]:
    """All sizes, in alternating rounds, as (nodes, figures)."""
    sizes = [int(text) for text in options.nodes.split(",")]
    worlds = {size: ClusterFixture(size, random.Random(f"{size}")) for size in sizes}
    gc.freeze()
    for world in worlds.values():
        run(world, options.decisions // 4)
    for _ in range(options.rounds):
        for size, world in worlds.items():
            figures = run(world, options.decisions)
            figures["anti_affinity_us"] = unsupported(world)
            figures["classes"] = len(world.cluster.index.classes)
            yield size, figures


def main() -> None:
    """Print a line per round and size, then the medians as JSON."""
    parser = argparse.ArgumentParser(prog="python -m bench.decide", description=__doc__)
    parser.add_argument("--nodes", default="100,1000,10000")
    parser.add_argument("--decisions", type=int, default=3000)
    parser.add_argument("--rounds", type=int, default=5)
    seen: dict[int, list[dict[str, float]]] = {}
    for size, figures in rows(parser.parse_args()):
        seen.setdefault(size, []).append(figures)
        print(size, dumps({key: round(value, 2) for key, value in figures.items()}), flush=True)
    report: dict[str, dict[str, float]] = {}
    for size, rounds in seen.items():
        for key in rounds[0]:
            value = statistics.median(entry[key] for entry in rounds)
            report.setdefault(key, {})[str(size)] = round(value, 2)
    print(dumps(report))


if __name__ == "__main__":
    main()
