"""One hour of pods and nodes, compressed: deleted objects leave nothing in memory.

The clock stands still between steps, so an hour is a second here. Whatever could grow for ever in
a long life, in the leader or in a standby, would be left over at the end.
"""

from __future__ import annotations

import asyncio
import random
from collections import deque
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest

from scheduler.framework.pipeline import Pipeline
from scheduler.model.node import Node
from scheduler.model.pods.pod import Pod
from scheduler.report.decisions.journal import Journal
from scheduler.report.events.recorder import Recorder
from scheduler.report.metrics import Metrics
from scheduler.state import event as ev
from scheduler.state.breakers.circuit import Timings
from scheduler.state.index.node_index import VALUES_MAX
from scheduler.watch.client import Client
from tests.builders import as_bound, namespace, node, pod
from tests.unit.loop.loop_world import Clock, Leader, wire

ROUNDS = 8
PODS = 60
#: More than a label key may have values before it is indexed in another way.
NODES = VALUES_MAX + 6
#: Kept on purpose, and bounded where they are kept: see the tests beside them.
BOUNDED = ("filter_results", "_journal", "journal", "_metrics", "index.keys", "index._ranked")


class Anything(Client):
    """An API server that takes everything."""

    def __init__(self) -> None:
        """Nothing is opened."""

    async def request(self, *_: object, **__: object) -> bytes:
        return b"{}"


class World:
    """A loop, and the pods and nodes that come and go around it."""

    def __init__(self, *, leads: bool) -> None:
        self.clock = Clock()
        self.leader = Leader()
        self.leader.is_leading = leads
        idle = asyncio.Event()
        idle.set()
        metrics = Metrics("gpu-scheduler")
        self.recorder = Recorder(
            Anything(),
            "gpu-scheduler",
            "test",
            self.clock,
            lambda: datetime(2026, 11, 27, tzinfo=UTC),
            metrics,
            idle,
        )
        self.loop, self.inbox, self.binder, self.gate, *_ = wire(
            self.recorder,
            Journal(self.clock, entries=50),
            self.leader,
            metrics,
            self.clock,
        )
        self.gate.sync()
        self.rng = random.Random(7)
        self.alive: dict[str, Pod] = {}
        self.nodes: dict[str, Node] = {}

    async def quiet(self, seconds: float = 0.0) -> None:
        """Time passes, and everything that can happen then has happened."""
        self.clock.now += seconds
        self.inbox.wake()
        for _ in range(30):
            await asyncio.sleep(0)

    def nodes_come(self, round_: int) -> None:
        for number in range(NODES):
            name = f"n{number}-{round_}"
            labels = {"host": name, "zone": f"z{number % 3}", "stamp": f"{round_}"}
            mig = {"1g.10gb": 2, "2g.20gb": 1} if number % 2 else {}
            gpus = None if number % 2 else 2
            made = node(name, gpus=gpus, mig=mig, with_gpu_indexes=True, labels=labels, uid=name)
            self.nodes[name] = made
            self.inbox.enqueue(ev.NodeUpdated(made))

    def pod_comes(self, round_: int, number: int) -> None:
        name = f"p{round_}-{number}"
        kinds: list[dict[str, Any]] = [
            {"gpus": 1},
            {"gpus": 3},
            {"mig": {"2g.20gb": 1}},
            {"mig": {"1g.10gb": 1}, "selector": {"host": f"n1-{round_}"}},
            {"map": f"{number}=n0-{round_}:0"},
            {"gpus": 1, "scheduler": "default-scheduler", "node": f"n2-{round_}"},
            {"requests": {"cpu": "1"}, "owner": "StatefulSet/w", "nominated": f"n3-{round_}"},
            {"gates": ["example.com/hold"]},
        ]
        fields = kinds[number % len(kinds)]
        made = pod(name, uid=name, namespace=f"ns-{round_}", priority=number % 2, **fields)
        self.alive[name] = made
        self.inbox.enqueue(ev.PodUpdated(made))
        if number % 10 == 2:  # admitted through us
            self.loop.reservations.create(f"r-{name}", made, "", self.clock.now, is_annotated=False)

    def bindings_end(self) -> None:
        """Most go through, others fail in every way there is."""
        while self.binder.sent:
            placement = self.binder.sent.pop()
            outcome = self.rng.choice([ev.BindOutcome.BOUND] * 5 + list(ev.BindOutcome))
            self.binder.end(placement, outcome, "as the test says")
            if outcome is ev.BindOutcome.BOUND:
                bound = self.alive[placement.pod.uid] = as_bound(placement)
                self.inbox.enqueue(ev.PodUpdated(bound))
                if self.rng.random() < 0.5:
                    running = msgspec.structs.replace(bound, phase="Running")
                    self.inbox.enqueue(ev.PodUpdated(running))

    def delete_everything(self, round_: int) -> None:
        for uid in list(self.alive):
            self.inbox.enqueue(ev.PodDeleted(uid))
            if self.rng.random() < 0.1:
                self.inbox.enqueue(ev.PodRejected(uid, "OutOfcpu"))
        self.alive.clear()
        for name in list(self.nodes):
            self.inbox.enqueue(ev.NodeDeleted(name))
        self.nodes.clear()
        self.inbox.enqueue(ev.NamespaceDeleted(f"ns-{round_}"))

    async def round(self, round_: int) -> None:
        self.inbox.enqueue(ev.NamespaceUpdated(namespace(f"ns-{round_}", maps=True)))
        self.nodes_come(round_)
        for number in range(PODS):
            self.pod_comes(round_, number)
        for seconds in (0, 1, 2, 5, 20):
            await self.quiet(seconds)
            self.bindings_end()
        await self.quiet(10)

    async def end(self, round_: int) -> None:
        """Everything is deleted; then five minutes pass."""
        self.delete_everything(round_)
        await self.quiet(300)


def containers(value: object, path: str, seen: set[int]) -> Iterator[tuple[str, int]]:
    """Every container inside, with its size, as far as it is ours."""
    if isinstance(value, Pipeline):
        return  # composed at the start, and never changed
    if id(value) in seen or any(path.endswith(name) for name in BOUNDED):
        return
    seen.add(id(value))
    if isinstance(value, dict | list | set | deque):
        yield path, len(value)
        inner = list(value.values()) if isinstance(value, dict) else list(value)
        for number, one in enumerate(inner):
            yield from containers(one, f"{path}[{number}]", seen)
    elif isinstance(value, asyncio.Queue):
        yield path, value.qsize()
    elif type(value).__module__.startswith("scheduler."):
        slots = [name for kind in type(value).__mro__ for name in getattr(kind, "__slots__", ())]
        for name in (*slots, *getattr(value, "__dict__", ())):
            yield from containers(getattr(value, name, None), f"{path}.{name}", seen)


def filled(world: World) -> dict[str, int]:
    """What is not empty; of resources that were ever offered, and label keys, only names stay."""
    found = {path: size for path, size in containers(world.loop, "loop", set()) if size}
    names = ("index.buckets", "index.high_cardinality._nodes", "index._tracked_keys")
    return {path: size for path, size in found.items() if not path.endswith(names)}


@pytest.mark.parametrize("leads", [True, False], ids=["leader", "standby"])
async def test_deleted_objects_leave_no_memory(leads: bool) -> None:
    world = World(leads=leads)
    tasks = [asyncio.create_task(world.loop.run()), asyncio.create_task(world.recorder.run())]
    for round_ in range(ROUNDS):
        await world.round(round_)
        assert len(filled(world)) > 50, "nodes, pods and the queue"
        await world.end(round_)
    await world.recorder.drain(10)
    await world.quiet(Timings().calm_s)
    await world.quiet(2)
    assert not any(task.done() for task in tasks), tasks
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)

    assert (world.loop.journal.written > 20 * ROUNDS) == leads, "much was decided"
    assert filled(world) == {}
    buckets = world.loop.cluster.index.buckets
    assert {resource: len(bucket) for resource, bucket in buckets.items() if len(bucket)} == {}
