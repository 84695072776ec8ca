"""The time of one large group, of this scheduler and of kube-scheduler's own gang scheduling, on
one control plane with KWOK nodes, in alternating rounds.

    python -m bench.gang [--nodes 500] [--members 512] [--rounds 5] [--topology example.com/rack]

In each round the scheduler runs and has placed a pod when the members are created. Measured is the
time from the creation of the last member to the last Binding, both as a watch of the API server
sees them. kube-scheduler has the gate GenericWorkload, as have the API server and
kube-controller-manager, and a PodGroup with ``minCount``; ours has the label and annotation of
``docs/groups.md``. Neither has a client rate limit. ``ratio`` is ``kube_scheduler_s`` by
``ours_s``. ``first_s`` is the part of the time until the first Binding: the rest are Bindings.

With ``--topology`` this scheduler also runs with that label as the preferred level of the group,
after small groups of random sizes: ``topology_s``, ``topology_to_ours`` (by ``ours_s``) and
``domains_to_least``, the mean number of domains per group by the fewest that had room. For these
figures kube-scheduler is not needed: ``--ours-only``.

The last line is JSON; on a shared machine only ratios of medians are significant.
"""

from __future__ import annotations

import argparse
import os
import random
import statistics
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, Final, NamedTuple

from bench.gang import objects
from bench.gang.domains import Domains
from bench.observer import Observer, dumps
from bench.rounds import BOUND_S, Namespace, alternating, delete_all, finished, send, summary, usage
from bench.schedulers import KubeScheduler, Ours, SchedulerUnderTest, apply_roles
from bench.throughput import warm
from tools.controlplane import ControlPlane, add_nodes
from tools.controlplane.commands import API_SERVER, CONTROLLER_MANAGER, ETCD
from tools.controlplane.process import Running, tail

OURS, TOPOLOGY, KUBE = "ours", "topology", "kube_scheduler"
QUICK: Final = {"nodes": 20, "members": 40, "rounds": 1}
GATE: Final = "--feature-gates=GenericWorkload=true"
#: The small groups before the large one, with a preferred level.
SMALL_GROUPS: Final = 20


@contextmanager
def control_plane() -> Iterator[tuple[ControlPlane, Path]]:
    """A control plane with KWOK and PodGroups; removed at the end."""
    flags = {
        API_SERVER: (GATE, "--runtime-config=scheduling.k8s.io/v1beta1=true"),
        # ``bench.rounds.Namespace`` creates the ServiceAccount with each namespace.
        CONTROLLER_MANAGER: (GATE, "--controllers=-serviceaccount-controller"),
    }
    with (
        tempfile.TemporaryDirectory(prefix="bench-") as folder,
        ControlPlane.start(
            Path(folder) / "plane", components={ETCD, API_SERVER}, flags=flags
        ) as plane,
    ):
        plane.start_process(CONTROLLER_MANAGER)
        yield plane, Path(folder)


class Placed(NamedTuple):
    """Seconds from the last creation to the last and the first Binding; domains by the fewest."""

    seconds: float
    first_s: float
    share: float


class Round:
    """One round of one scheduler; its namespaces last until the end of ``stack``."""

    def __init__(
        self,
        plane: ControlPlane,
        contestant: SchedulerUnderTest,
        options: argparse.Namespace,
        stack: ExitStack,
    ) -> None:
        self._plane = plane
        self._contestant = contestant
        self._members: int = options.members
        self._topology: str = options.topology if contestant.name == TOPOLOGY else ""
        self._stack = stack
        self._directory = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="bench-")))
        labels = {one.name: one.labels for one in objects.nodes(options.nodes)}
        racks = {name: each[options.topology or objects.RACK] for name, each in labels.items()}
        self._domains = Domains(racks, objects.GPUS)

    def figures(self, sizes: list[int]) -> dict[str, float]:
        """The figures; ``sizes`` are those of the groups before the measured one."""
        process = self._contestant.start()
        try:
            warm(self._plane, self._contestant, self._namespace(), process)
            shares = [self._place(size, process).share for size in sizes]
            placed = self._place(self._members, process)
            used = usage(process)
        except (RuntimeError, TimeoutError) as error:
            raise RuntimeError(f"{error}\n{tail(self._contestant.log, 40)}") from error
        finally:
            process.stop()
        domains = statistics.mean([*shares, placed.share])
        return {
            "seconds": round(placed.seconds, 3),
            "first_s": round(placed.first_s, 3),
            "domains_to_least": round(domains, 3),
            **used,
            "load": round(os.getloadavg()[0], 1),
        }

    def _place(self, size: int, process: Running) -> Placed:
        """A new group; its domains are compared with the fewest that had room."""
        namespace, name = self._namespace(), self._contestant.scheduler_name
        if self._contestant.name == KUBE:
            requests = objects.kubernetes_group(namespace, name, size)
        else:
            requests = objects.our_group(namespace, name, size, self._topology)
        with Observer(self._plane.client, namespace) as seen:
            finished(send(self._plane, self._directory / f"{namespace}.jsonl", requests))
            seen.wait(size, BOUND_S, process.is_alive)
            created, bound = max(seen.created.values()), seen.bound.values()
            share = self._domains.take(seen.nodes.values())
            return Placed(max(bound) - created, min(bound) - created, share)

    def _namespace(self) -> str:
        one = Namespace(self._plane)
        # After the pods: until then the PodGroup has a finalizer.
        self._stack.callback(delete_all, self._plane.client, objects.groups_path(one.name))
        return self._stack.enter_context(one)


def one_round(
    plane: ControlPlane, contestant: SchedulerUnderTest, options: argparse.Namespace, seed: int
) -> dict[str, float]:
    """One round of one scheduler; the sizes of the small groups depend on the seed."""
    rng = random.Random(seed)
    count = SMALL_GROUPS if contestant.name == TOPOLOGY else 0
    with ExitStack() as stack:
        return Round(plane, contestant, options, stack).figures(
            [rng.randint(2, options.small) for _ in range(count)]
        )


def report(rounds: dict[str, list[dict[str, float]]]) -> dict[str, Any]:
    """The last line: medians of all rounds, and their ratios."""
    medians = {name: summary(each) for name, each in rounds.items()}
    found: dict[str, Any] = {
        f"{name}_s": round(statistics.median(one["seconds"] for one in each), 3)
        for name, each in rounds.items()
    }
    if KUBE in rounds:
        found["ratio"] = round(found[f"{KUBE}_s"] / found[f"{OURS}_s"], 2)
    if TOPOLOGY in rounds:
        found["topology_to_ours"] = round(found[f"{TOPOLOGY}_s"] / found[f"{OURS}_s"], 2)
        shares = [one["domains_to_least"] for one in rounds[TOPOLOGY]]
        found["domains_to_least"] = round(statistics.mean(shares), 3)
    return {**found, "medians": medians}


def compete(plane: ControlPlane, directory: Path, options: argparse.Namespace) -> dict[str, Any]:
    """All rounds, alternating."""
    contestants: list[SchedulerUnderTest] = [Ours(plane, directory / "ours")]
    if not options.ours_only:
        contestants.append(KubeScheduler(plane, directory / "kube", flags=(GATE,)))
    if options.topology:
        contestants.append(Ours(plane, directory / "topology", name=TOPOLOGY))
    rounds: dict[str, list[dict[str, float]]] = {one.name: [] for one in contestants}
    for number, contestant in alternating(contestants, options.rounds):
        outcome = one_round(plane, contestant, options, number)
        rounds[contestant.name].append(outcome)
        print(f"round {number} {contestant.name}: {dumps(outcome)}", flush=True)
    return {**report(rounds), "nodes": options.nodes, "members": options.members}


def parse(words: list[str] | None = None) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(
        prog="python -m bench.gang",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--nodes", type=int, default=500, help="nodes with 8 GPUs each")
    parser.add_argument("--members", type=int, default=512, help="of the group, one GPU each")
    parser.add_argument("--rounds", type=int, default=5, help="rounds of each scheduler")
    parser.add_argument(
        "--topology",
        default="",
        metavar="LABEL",
        help=f"preferred level; nodes have {objects.RACK}",
    )
    parser.add_argument("--small", type=int, default=40, help="largest group before, with topology")
    parser.add_argument("--ours-only", action="store_true", help="without kube-scheduler")
    parser.add_argument("--quick", action="store_true", help=f"a minute: {QUICK}")
    options = parser.parse_args(words)
    if options.quick:
        vars(options).update(QUICK)
    if options.topology not in ("", objects.RACK, objects.HOSTNAME):
        parser.error(f"the nodes have the labels {objects.RACK} and {objects.HOSTNAME}")
    return options


def main() -> None:
    """Start a control plane with KWOK, run the rounds, print the JSON."""
    options = parse()
    with control_plane() as (plane, directory):
        apply_roles(plane)
        add_nodes(plane.client, objects.nodes(options.nodes), timeout_s=BOUND_S)
        print(dumps(compete(plane, directory, options)), flush=True)


if __name__ == "__main__":
    main()
