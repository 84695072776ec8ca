"""Devices by ResourceClaims: this scheduler and the stock kube-scheduler, on one control plane, in
alternating rounds.

    python -m bench.dra [--nodes 500] [--pods 1000] [--rounds 3] [--parts claims,extended,churn]

``claims``: pods with a claim each for a whole GPU wait when the scheduler starts; the figure is
pods per second from the first Binding to the last one. ``extended``: the same for pods that request
``nvidia.com/gpu``. ``churn``: percent of memory slices in use by the stream of ``bench.mig`` on 100
A100 in parts. Nothing is allocated twice, which is checked after each round. The last line is JSON;
on a shared machine only ratios of medians are significant.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any, Final

from bench.control_plane import without_kubelets
from bench.dra import backlog, churn
from bench.dra.cluster import Cluster
from bench.dra.objects import gpu_in_parts, whole_gpus
from bench.mig.stream import COLUMNS
from bench.mig.stream import GPUS as PARTED_GPUS
from bench.observer import dumps
from bench.rounds import alternating, summary
from bench.schedulers import KubeScheduler, Ours, SchedulerUnderTest, apply_manifests
from tools.controlplane import ControlPlane

OURS, KUBE = "ours", "kube_scheduler"
PARTS: Final = (*backlog.KINDS, "churn")
FIRST_SEED: Final = 100

Rounds = dict[str, list[dict[str, float]]]


def compete(
    cluster: Cluster, contestants: list[SchedulerUnderTest], kind: str, options: argparse.Namespace
) -> dict[str, Any]:
    """All rounds with pods of one kind: the medians, and the ratio of both schedulers."""
    rounds: Rounds = {entry.name: [] for entry in contestants}
    for number, contestant in alternating(contestants, options.rounds):
        outcome = backlog.one_round(cluster, contestant, kind, options.pods)
        rounds[contestant.name].append(outcome)
        print(f"{kind} round {number} {contestant.name}: {dumps(outcome)}", flush=True)
    return compared(rounds, "pods_per_s")


def churned(
    cluster: Cluster, contestants: list[SchedulerUnderTest], options: argparse.Namespace
) -> dict[str, Any]:
    """All rounds of the stream, each with a seed of its own."""
    rounds: Rounds = {entry.name: [] for entry in contestants}
    column = COLUMNS[options.column]
    for number, contestant in alternating(contestants, options.rounds):
        seed = FIRST_SEED + number
        outcome = churn.one_round(cluster, contestant, column, seed, options.duration)
        rounds[contestant.name].append(outcome)
        print(f"churn round {number} {contestant.name}: {dumps(outcome)}", flush=True)
    return compared(rounds, "slices")


def compared(rounds: Rounds, figure: str) -> dict[str, Any]:
    """The median of a figure of each scheduler, all medians, and the ratio where both ran."""
    medians = {name: summary(entries) for name, entries in rounds.items()}
    result: dict[str, Any] = {name: one[figure] for name, one in medians.items()}
    if medians.keys() >= {OURS, KUBE}:
        result["ratio"] = round(result[OURS] / result[KUBE], 2)
    return {**result, "medians": medians}


def run(plane: ControlPlane, directory: Path, options: argparse.Namespace) -> dict[str, Any]:
    """All parts."""
    cluster = Cluster(plane, directory)
    both: list[SchedulerUnderTest] = [
        Ours(plane, directory / "ours", elects=True),
        KubeScheduler(plane, directory / "kube"),
    ]
    contestants = [one for one in both if one.name in options.schedulers]
    report: dict[str, Any] = {}
    kinds = [kind for kind in options.parts if kind in backlog.KINDS]
    if kinds:
        with cluster.nodes(options.nodes, whole_gpus):
            report |= {kind: compete(cluster, contestants, kind, options) for kind in kinds}
    if "churn" in options.parts:
        with cluster.nodes(PARTED_GPUS, gpu_in_parts):
            report["churn"] = churned(cluster, contestants, options)
    return {**report, "nodes": options.nodes, "pods": options.pods}


def _words(text: str) -> tuple[str, ...]:
    return tuple(text.split(","))


def parse(words: list[str] | None = None) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(
        prog="python -m bench.dra",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--nodes", type=int, default=500, help="nodes with 8 GPUs each")
    parser.add_argument("--pods", type=int, default=1000, help="pods of a round")
    parser.add_argument("--rounds", type=int, default=3, help="rounds of each scheduler and part")
    parser.add_argument("--parts", type=_words, default=PARTS, help=",".join(PARTS))
    parser.add_argument("--schedulers", type=_words, default=(OURS, KUBE), help=f"{OURS},{KUBE}")
    columns = ", ".join(f"{number}: {mix} {load}" for number, (mix, load) in enumerate(COLUMNS))
    parser.add_argument("--column", type=int, default=1, help=f"the churn's stream; {columns}")
    parser.add_argument("--duration", type=float, default=11.0, help="of the churn; 10 warm it up")
    options = parser.parse_args(words)
    if not {*options.parts} <= {*PARTS} or not {*options.schedulers} <= {OURS, KUBE}:
        parser.error(f"parts are {', '.join(PARTS)}, schedulers {OURS} and {KUBE}")
    return options


def main() -> None:
    """Start a control plane without kubelets, run the rounds, print the JSON."""
    options = parse()
    with without_kubelets() as (plane, directory):
        apply_manifests(plane)
        print(dumps(run(plane, directory, options)), flush=True)


if __name__ == "__main__":
    main()
