"""MIG requests under churn: the part that is placed, and the used slices.

    python -m bench.mig [--seeds 6] [--jobs 2] [--duration 200]

Streams of requests for 100 A100-80GB (``bench/mig/stream``) go to the product, through its own
``decide`` on a cluster of 100 dynamic MIG nodes, and to other policies (``bench/mig/baselines``).
``product+1`` also migrates at most one pod for each rejected request (``decide/migration/defrag``).
``product+2`` migrates at most two, by plans that are certain, within an allowance of one migration
for ten placed requests (``Allowance``). ``repack`` is the bound: every request is placed that any
number of migrations makes room for.

The bar is a reference study of the same columns with other streams, in percent of slices in use.
Both run FGD, which calibrates the difficulty of the streams: the product's lead over FGD must be at
least the study's in every column, within the standard error. ``margin`` is the plain difference.
``toRepack`` is how far a policy with migrations comes from the product without to the bound on the
same streams, in percent; ``toStudyRepack`` the same between the study's two figures. The last line
is JSON.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from typing import Any, Final

from bench.mig.baselines import FirstFit, Random, Repack, Scored, best_fit, fgd
from bench.mig.stream import COLUMNS, GPUS, Outcome, Policy, Request, run, stream
from bench.observer import dumps
from scheduler.decide.migration.defrag import plan
from scheduler.decide.migration.defrag_plan import Plan
from scheduler.decide.schedule_one import schedule_one
from scheduler.framework.decision import Placement
from scheduler.model import well_known
from scheduler.model.gpu.device import Devices
from scheduler.model.node import Node
from scheduler.model.pods.pod import Pod
from scheduler.plugins import default_pipeline
from scheduler.state.cache.cluster import Assumption, Cluster

FIRST_SEED: Final = 100
#: Slices in use (percent) and its standard error in the study, in the order of the columns.
BARS: Final[dict[str, tuple[tuple[float, float], ...]]] = {
    "product": (
        *((90.75, 0.09), (93.66, 0.03), (94.85, 0.04)),
        *((93.25, 0.04), (90.23, 0.12), (92.64, 0.05)),
    ),
    "product+1": (
        *((92.96, 0.13), (96.24, 0.03), (97.05, 0.03)),
        *((95.96, 0.05), (91.66, 0.06), (95.18, 0.05)),
    ),
}
#: The same for FGD, without errors.
STUDY_FGD: Final = (90.87, 93.47, 94.62, 93.24, 89.54, 92.09)
#: The upper bound of any packing of the same requests with free migrations (same study).
REPACK: Final = (93.79, 97.41, 98.10, 96.91, 93.15, 96.86)


class Allowance:
    """How an administrator may spend migrations: RATE for each placed request, SAVED_MAX saved at
    most. The less is left, the more a plan has to gain for each of its migrations.
    """

    RATE: Final = 0.1
    SAVED_MAX: Final = 30.0
    #: Memory slices that a plan gains for each migration before the last allowance is spent on it.
    GAIN_MAX: Final = 2.5

    def __init__(self) -> None:
        self._left = 0.0

    def earn(self) -> None:
        """A request was placed."""
        self._left = min(self.SAVED_MAX, self._left + self.RATE)

    def spend(self, plan: Plan) -> bool:
        """Whether the plan is worth its migrations, which are spent then."""
        least = self.GAIN_MAX * (1 - self._left / self.SAVED_MAX) * plan.restarts
        if not plan.is_certain or plan.restarts > self._left or plan.gain < least:
            return False
        self._left -= plan.restarts
        return True


class Product:
    """The product's decisions on nodes with one GPU each; with ``moves_max`` its defrag plan."""

    def __init__(self, moves_max: int = 0, allowance: Allowance | None = None) -> None:
        self.moves = 0
        self._moves_max = moves_max
        self._allowance = allowance
        self._pipeline = default_pipeline()
        self._cluster = Cluster()
        for number in range(GPUS):
            self._cluster.upsert_node(_node(number))

    def place(self, request: Request) -> bool:
        """Place it now or never."""
        pod = Pod(
            uid=str(request.number),
            name=f"p{request.number}",
            namespace="bench",
            scheduler_name=well_known.SCHEDULER_NAME,
            requests={well_known.mig_resource(request.profile): 1},
        )
        decision = schedule_one(self._cluster, pod, self._pipeline)
        is_placed = isinstance(decision, Placement)
        if isinstance(decision, Placement):
            self._enter(pod, decision.node_name, decision.devices)
        elif self._moves_max:
            is_placed = self._make_room(pod)
        if is_placed and self._allowance is not None:
            self._allowance.earn()
        return is_placed

    def _make_room(self, pod: Pod) -> bool:
        found = plan(self._cluster, pod, self._pipeline, moves_max=self._moves_max)
        if found is None or (self._allowance is not None and not self._allowance.spend(found)):
            return False
        for move in found.moves:
            self._cluster.delete_pod(move.pod.uid)
        for move in found.moves:
            self._enter(move.pod, move.node_name, move.devices)
        self._enter(pod, found.node_name, Devices(mig_placements=(found.mig_placement,)))
        self.moves += found.restarts
        return True

    def _enter(self, pod: Pod, node_name: str, devices: Devices) -> None:
        self._cluster.assume(pod, Assumption(node_name, devices))

    def end(self, number: int) -> None:
        """A placed request ends."""
        self._cluster.delete_pod(str(number))


def _node(number: int) -> Node:
    labels = {
        well_known.MIG_DYNAMIC: "true",
        well_known.GPU_PRODUCT: "NVIDIA-A100-SXM4-80GB",
        well_known.GPU_COUNT: "1",
    }
    return Node(name=f"gpu-{number:03}", labels=labels, allocatable={well_known.PODS: 110})


POLICIES: Final[dict[str, Callable[[], Policy]]] = {
    "random": partial(Random, 0),
    "first-fit": FirstFit,
    "best-fit": partial(Scored, best_fit),
    "fgd": partial(Scored, fgd),
    "product": Product,
    "product+1": partial(Product, 1),
    "product+2": lambda: Product(2, Allowance()),
    "repack": Repack,
}
MIGRATING: Final = ("product+1", "product+2")
#: The bar of ``product+2``: migrations per placed request, and percent of the way to the bound.
MOVES_BAR: Final = 0.1
REPACK_BAR: Final = 75.0


def play(job: tuple[str, int, int, float]) -> Outcome:
    """One policy on one stream."""
    policy, column, seed, duration = job
    mix, load = COLUMNS[column]
    return run(POLICIES[policy](), stream(mix, load, seed, duration), duration)


def figures(outcomes: list[Outcome]) -> dict[str, float]:
    """Means over the seeds, with the standard error of the compared figure."""
    slices = [one.slices for one in outcomes]
    error = statistics.stdev(slices) / len(slices) ** 0.5 if len(slices) > 1 else 0.0
    return {
        "accepted": round(statistics.mean(one.accepted for one in outcomes), 2),
        "slices": round(statistics.mean(slices), 2),
        "error": round(error, 2),
        "moves": round(statistics.mean(one.moves for one in outcomes), 3),
    }


def judged(policy: str, column: int, ours: list[Outcome], rival: list[Outcome]) -> dict[str, Any]:
    """The figures beside the bar: the lead over FGD on the same streams, and the study's."""
    found: dict[str, Any] = figures(ours)
    bar, error = BARS[policy][column]
    leads = [one.slices - other.slices for one, other in zip(ours, rival, strict=True)]
    lead, expected = statistics.mean(leads), bar - STUDY_FGD[column]
    noise = statistics.stdev(leads) / len(leads) ** 0.5 if len(leads) > 1 else 0.0
    slack = (error**2 + noise**2) ** 0.5
    found |= {"study": bar, "margin": round(found["slices"] - bar, 2)}
    found |= {"lead": round(lead, 2), "studyLead": round(expected, 2)}
    found |= {"slack": round(slack, 2), "ahead": lead >= expected - slack}
    return found


def to_repack(column: int, of: dict[str, list[Outcome]], policy: str) -> dict[str, Any]:
    """How far a policy with migrations comes from the product without to the bound, in percent."""
    ours, plain, bound = (
        statistics.mean(one.slices for one in of[name]) for name in (policy, "product", "repack")
    )
    studied, study_bound = BARS["product"][column][0], REPACK[column]
    return {
        "toRepack": round(100 * (ours - plain) / (bound - plain), 1),
        "toStudyRepack": round(100 * (ours - studied) / (study_bound - studied), 1),
    }


def columns(options: argparse.Namespace) -> Iterator[tuple[str, str, dict[str, Any]]]:
    """Every policy in every column, as (column, policy, figures)."""
    seeds = range(FIRST_SEED, FIRST_SEED + options.seeds)
    with ProcessPoolExecutor(options.jobs) as pool:
        for column, (mix, load) in enumerate(COLUMNS):
            of: dict[str, list[Outcome]] = {}
            for policy in POLICIES:
                jobs = [(policy, column, seed, options.duration) for seed in seeds]
                of[policy] = list(pool.map(play, jobs))
            for policy, ours in of.items():
                is_judged = policy in BARS
                found = judged(policy, column, ours, of["fgd"]) if is_judged else figures(ours)
                if policy in MIGRATING:
                    found |= to_repack(column, of, policy)
                yield f"{mix} {load}", policy, found


def main() -> None:
    """Print a line per column and policy, then everything as JSON."""
    parser = argparse.ArgumentParser(prog="python -m bench.mig", description=__doc__)
    parser.add_argument("--seeds", type=int, default=6)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--duration", type=float, default=200.0)
    options = parser.parse_args()
    started = time.monotonic()
    report: dict[str, dict[str, Any]] = {}
    for column, policy, found in columns(options):
        report.setdefault(policy, {})[column] = found
        print(f"{time.monotonic() - started:6.0f} s", column, policy, dumps(found), flush=True)
    ahead = all(one["ahead"] for name in BARS for one in report[name].values())
    is_reached = all(
        one["moves"] <= MOVES_BAR and one["toRepack"] >= REPACK_BAR
        for one in report["product+2"].values()
    )
    print(
        dumps({"policies": report, "seeds": options.seeds, "ahead": ahead, "twoMoves": is_reached})
    )


if __name__ == "__main__":
    main()
