"""What one decision costs, and that it does not grow with the cluster.

    python -m bench.decide [--nodes 100,1000,10000] [--decisions 3000] [--rounds 5]

Every node has two labels of its own and a little less memory than nominal; the labels that pods
refer to make 60 classes; GPU and MIG nodes are mixed and half of their devices are taken. Of the
pods, 30 % have a selector, an affinity or a toleration, and 10 % fit nowhere. Pods are decoded
afresh, so nothing is remembered on them. After each placement the pod is entered and an older one
leaves, untimed here and reported beside it. The last line is JSON.
"""

from __future__ import annotations

import argparse
import gc
import random
import statistics
import time
from collections import deque
from collections.abc import Callable, Iterator
from typing import Any

import msgspec

from bench.observer import dumps, percentile
from scheduler.decide.cycle import decide
from scheduler.decide.decision import Placement
from scheduler.decide.view import Profile
from scheduler.model.node import Node
from scheduler.model.pod import Pod
from scheduler.model.reason import sentence
from scheduler.state.cluster import Assumption, Cluster
from scheduler.watch import convert

GPU = "nvidia.com/gpu"
MIG = "nvidia.com/mig-"
TYPES = ("a100", "h100", "h200", "l40s")
ZONES = tuple(f"zone-{letter}" for letter in "abcde")
POOLS = ("batch", "online", "research")
PROFILE = Profile()
Json = dict[str, Any]


def node(number: int) -> Node:
    """A node as clouds make them: nothing about it is exactly like another."""
    kind = number % 60
    offers = {"cpu": "128", "memory": f"{1024 * 1024 - number * 37 % 4096}Mi", "pods": "110"}
    if number % 3 < 2:
        offers[GPU] = "8"
    else:
        offers |= {f"{MIG}1g.10gb": "16", f"{MIG}2g.20gb": "8", f"{MIG}3g.40gb": "4"}
    taints = (
        [{"key": "reserved", "value": "ml", "effect": "NoSchedule"}] if number % 10 == 9 else []
    )
    labels = {
        "kubernetes.io/hostname": f"node-{number:05}",
        "example.com/instance": f"i-{number:08x}",
        "gpu-type": TYPES[kind % 4],
        "zone": ZONES[kind // 4 % 5],
        "pool": POOLS[kind // 20],
    }
    return convert.to_node(
        convert.NODE.decode(
            msgspec.json.encode(
                {
                    "metadata": {"name": f"node-{number:05}", "labels": labels},
                    "spec": {"taints": taints},
                    "status": {"allocatable": offers},
                }
            )
        )
    )


def requests(rng: random.Random) -> dict[str, str]:
    """What an ordinary pod asks for."""
    wanted = {"cpu": str(rng.choice((2, 4, 8))), "memory": f"{rng.choice((8, 16, 32))}Gi"}
    if rng.random() < 0.6:
        return wanted | {GPU: str(rng.choice((1, 1, 1, 2, 4)))}
    return wanted | {f"{MIG}{rng.choice(('1g.10gb', '2g.20gb', '3g.40gb'))}": "1"}


def misfit(rng: random.Random) -> Json:
    """A spec that fits nowhere: too big in one way or another, or a label that nobody has."""
    wanted: dict[str, str] = requests(rng)
    selector: dict[str, str] = {}
    match rng.randrange(4):
        case 0:
            wanted = {"cpu": "4", "memory": "16Gi", GPU: "16"}
        case 1:
            wanted = {"cpu": "4", "memory": "16Gi", f"{MIG}7g.80gb": "1"}
        case 2:
            wanted = {"cpu": "4", "memory": "2Ti", GPU: "1"}
        case 3:
            selector = {"gpu-type": "b300"}
    return {
        "containers": [{"name": "c", "resources": {"limits": wanted}}],
        "nodeSelector": selector,
    }


def fussy(rng: random.Random) -> Json:
    """A selector, a required and a preferred affinity, or a toleration."""
    types = [{"key": "gpu-type", "operator": "In", "values": sorted(rng.sample(TYPES, 2))}]
    zone = [{"key": "zone", "operator": "In", "values": [rng.choice(ZONES)]}]
    match rng.randrange(3):
        case 0:
            return {"nodeSelector": {"pool": rng.choice(POOLS), "gpu-type": rng.choice(TYPES)}}
        case 1:
            required = {"nodeSelectorTerms": [{"matchExpressions": types}]}
            preferred = [{"weight": 10, "preference": {"matchExpressions": zone}}]
            both = {
                "requiredDuringSchedulingIgnoredDuringExecution": required,
                "preferredDuringSchedulingIgnoredDuringExecution": preferred,
            }
            return {"affinity": {"nodeAffinity": both}}
    return {"tolerations": [{"key": "reserved", "operator": "Exists"}]}


def ordinary(rng: random.Random) -> Json:
    """A spec that fits somewhere."""
    return {"containers": [{"name": "c", "resources": {"limits": requests(rng)}}]}


def pod(number: int, spec: Json) -> Pod:
    """A pod as the watch delivers it."""
    body = {
        "metadata": {
            "name": f"p-{number}",
            "namespace": f"team-{number % 20}",
            "uid": f"u-{number}",
            "labels": {"app": f"a-{number % 50}"},
        },
        "spec": {"schedulerName": "gpu-scheduler", **spec},
    }
    return convert.to_pod(convert.POD.decode(msgspec.json.encode(body)))


def anti_affine(rng: random.Random) -> Json:
    """One pod per host, required: not implemented yet, so refused as unsupported."""
    term = {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"app": "a"}}}
    rule = {"requiredDuringSchedulingIgnoredDuringExecution": [term]}
    return ordinary(rng) | {"affinity": {"podAntiAffinity": rule}}


def mixed(rng: random.Random, number: int) -> Pod:
    """One in ten fits nowhere, three in ten are fussy."""
    draw = rng.random()
    if draw < 0.1:
        return pod(number, misfit(rng))
    return pod(number, ordinary(rng) | (fussy(rng) if draw < 0.4 else {}))


class World:
    """A cluster that stays half full while decisions are made on it."""

    def __init__(self, nodes: int, rng: random.Random) -> None:
        self.cluster = Cluster()
        self.rng = rng
        self.number = 0
        self._placed: deque[str] = deque()
        for number in range(nodes):
            self.cluster.see_node(node(number))
        self._fill()

    def _fill(self) -> None:
        taken = total = 0
        total = sum(
            amount
            for books in self.cluster.candidates()
            if books.node
            for resource, amount in books.node.allocatable.items()
            if resource in books.node.devices
        )
        places = [books.node.name for books in self.cluster.candidates() if books.node]
        while taken < total // 2:
            newcomer = self.next(lambda rng, number: pod(number, ordinary(rng)))
            books = self.cluster.books[self.rng.choice(places)]
            wanted = newcomer.gpu_requests
            if all(books.free(resource) >= count for resource, count in wanted.items()):
                assert books.node is not None
                self._enter(newcomer, Assumption(books.node.name, packed_devices(newcomer)))
                taken += sum(wanted.values())

    def next(self, make: Callable[[random.Random, int], Pod] = mixed) -> Pod:
        """The next pod; nothing is remembered on it."""
        self.number += 1
        return make(self.rng, self.number)

    def enter(self, placement: Placement) -> None:
        """Enter a placement and let somebody leave, so that the world stays as full."""
        given = Assumption(placement.node_name, placement.devices, placement.index)
        self._enter(placement.pod, given)
        self._placed.rotate(-self.rng.randrange(len(self._placed)))
        self.cluster.lose_pod(self._placed.popleft())

    def _enter(self, newcomer: Pod, given: Assumption) -> None:
        self.cluster.see_pod(newcomer)
        self.cluster.assume(newcomer, given)
        self._placed.append(newcomer.uid)


def packed_devices(newcomer: Pod) -> Any:
    """What a pod holds on a counted node."""
    from scheduler.decide import packed
    from scheduler.state.ledger import NodeBooks

    return packed.devices(newcomer, NodeBooks(Node(name="any", allocatable=newcomer.requests)))


def timed(work: Callable[..., Any], *arguments: Any) -> tuple[float, Any]:
    """Microseconds, and the result."""
    started = time.perf_counter()
    result = work(*arguments)
    return (time.perf_counter() - started) * 1e6, result


def run(world: World, decisions: int) -> dict[str, float]:
    """One round on one world."""
    yes: list[float] = []
    no: list[float] = []
    enter: list[float] = []
    for _ in range(decisions):
        newcomer = world.next()
        world.cluster.refer(newcomer)
        took, decision = timed(decide, world.cluster, newcomer, PROFILE)
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


def unsupported(world: World) -> float:
    """The median time of refusing a required hostname anti-affinity."""
    times = []
    for _ in range(200):
        newcomer = world.next(lambda rng, number: pod(number, anti_affine(rng)))
        times.append(timed(decide, world.cluster, newcomer, PROFILE)[0])
    return statistics.median(times)


def rows(options: argparse.Namespace) -> Iterator[tuple[int, dict[str, float]]]:
    """All sizes, in alternating rounds, as (nodes, figures)."""
    sizes = [int(text) for text in options.nodes.split(",")]
    worlds = {size: World(size, random.Random(f"{size}")) for size in sizes}
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
