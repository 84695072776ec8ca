"""An hour of pod churn in a minute: memory and cached state must not grow.

    python -m bench.churn [--seconds 60]

In process, on the scheduling loop itself: pods are created, bound, run and are deleted; rejected
pods are deleted too; nodes are replaced; the clock jumps, so that backoffs and deadlines expire.
The result has the pods per second and the resident memory after every tenth part. The last line is
JSON.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import random
import time
from collections import deque
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec
import structlog

from bench.cluster_fixture import mixed, node
from bench.observer import dumps
from scheduler.bind.binder import Binder, binding_annotations
from scheduler.bind.claim_writer import ClaimWriter
from scheduler.bind.groups.owner_reader import GroupOwnerReader
from scheduler.bind.groups.state_writer import GroupWriter
from scheduler.bind.migration_worker import MigrationWorker
from scheduler.bind.partition_writer import PartitionWriter
from scheduler.bind.pod_preemptor import PodPreemptor
from scheduler.bind.pod_recreator import PodRecreator
from scheduler.bind.volume_binder import VolumeBinder
from scheduler.controllers.dispatch import ActionRunner, Shells
from scheduler.controllers.leadership.gate import LeaderGate
from scheduler.controllers.table import Controllers
from scheduler.framework.decision import Placement
from scheduler.loop import Loop
from scheduler.model.pods.pod import Pod
from scheduler.plugins import default_pipeline
from scheduler.report.decisions.journal import Journal
from scheduler.report.events.recorder import Recorder
from scheduler.report.metrics import Metrics
from scheduler.state import event as ev
from scheduler.state.scheduler_state import empty_state
from scheduler.watch.client import Client
from scheduler.watch.decode.dra.claims import read_claim
from scheduler.watch.inbox import Inbox
from scheduler.watch.terminated_pods import TerminatedPodLookup

NODES = 200
ALIVE_MAX = 2000
CLOCK_STEP_S = 0.5
NOON = datetime(2026, 11, 27, 12, tzinfo=UTC)


class Anything(Client):
    """An API server that accepts every request."""

    def __init__(self) -> None:
        """Opens no connection."""

    async def request(self, *_: object, **__: object) -> bytes:
        """An empty response."""
        return b"{}"


class Leads:
    """An election without a lease; this process is the leader."""

    is_enabled = False
    epoch = 1

    def leads(self) -> bool:
        """Always."""
        return True

    async def next_term(self, epoch: int | None) -> float:
        """Never returns: there is no other term."""
        await asyncio.Event().wait()
        return 0.0


class Instant(Binder):
    """Binds at once; the watch shows the result."""

    def __init__(self, inbox: Inbox, idle: asyncio.Event) -> None:
        super().__init__(Anything(), inbox, Leads(), idle)

    def start(self, placement: Placement, decision_id: str) -> None:
        """The Binding succeeded."""
        written = binding_annotations(placement, decision_id, 1)
        bound = msgspec.structs.replace(
            placement.pod,
            node_name=placement.node_name,
            annotations={**placement.pod.annotations, **written},
            phase="Running",
        )
        self._inbox.enqueue(ev.BindEnded(placement.pod.uid, ev.BindOutcome.BOUND))
        self._inbox.enqueue(ev.PodUpdated(bound))


class World:
    """A loop with its pods and nodes."""

    def __init__(self) -> None:
        self.now = 1000.0
        self.rng = random.Random(1)
        self.number = 0
        self.alive: deque[Pod] = deque()
        idle = asyncio.Event()
        idle.set()
        metrics, self.inbox = Metrics("gpu-scheduler"), Inbox()
        self.recorder = Recorder(
            Anything(),
            "gpu-scheduler",
            "bench",
            lambda: self.now,
            lambda: NOON,
            metrics,
            idle,
        )
        pipeline, client = default_pipeline(), Anything()
        state, gate = empty_state(pipeline.scheduler_name), LeaderGate(Leads(), [], self.inbox)
        binder = Instant(self.inbox, idle)
        controllers = Controllers(state, binder, gate, metrics, lambda: self.now)
        shells = Shells(
            self.recorder,
            TerminatedPodLookup(client, "gpu-scheduler", self.inbox, lambda: NOON),
            MigrationWorker(client, "own", self.inbox, gate),
            PartitionWriter(client, "own", self.inbox, gate),
            PodRecreator(client, self.inbox, gate),
            PodPreemptor(client, "gpu-scheduler", self.inbox, gate, lambda: NOON),
            VolumeBinder(client, self.inbox, gate),
            ClaimWriter(client, self.inbox, gate, read_claim),
            GroupWriter(client, gate),
            GroupOwnerReader(client, self.inbox),
        )
        self.loop = Loop(
            pipeline,
            state,
            self.inbox,
            gate,
            controllers,
            ActionRunner(shells, controllers.bindings),
            Journal(lambda: self.now),
            metrics,
            lambda: self.now,
        )
        gate.sync()
        for number in range(NODES):
            self.inbox.enqueue(ev.NodeUpdated(node(number)))

    async def step(self) -> None:
        """Create and delete some pods; advance the clock by half a second."""
        self.now += CLOCK_STEP_S
        for _ in range(50):
            self.number += 1
            newcomer = mixed(self.rng, self.number)
            self.alive.append(newcomer)
            self.inbox.enqueue(ev.PodUpdated(newcomer))
        while len(self.alive) > ALIVE_MAX:
            self.inbox.enqueue(ev.PodDeleted(self.alive.popleft().uid))
        if self.number % 1000 == 0:
            old = self.rng.randrange(NODES)
            fresh = node(old + NODES * (self.number // 1000))
            self.inbox.enqueue(ev.NodeDeleted(node(old).name))
            self.inbox.enqueue(ev.NodeUpdated(fresh))
            self.inbox.enqueue(ev.NodeDeleted(fresh.name))
            self.inbox.enqueue(ev.NodeUpdated(node(old)))
        self.inbox.wake()
        for _ in range(3):
            await asyncio.sleep(0)


def resident_mib() -> float:
    """Resident memory of this process, after a garbage collection."""
    gc.collect()
    status = Path("/proc/self/status").read_text(encoding="utf-8")
    line = next(line for line in status.splitlines() if line.startswith("VmRSS"))
    return round(int(line.split()[1]) / 1024, 1)


async def churn(seconds: float) -> dict[str, Any]:
    """Run for this time; returns the figures."""
    world = World()
    tasks = [asyncio.create_task(world.loop.run()), asyncio.create_task(world.recorder.run())]
    memory: list[float] = []
    started = time.monotonic()
    for part in range(1, 11):
        while time.monotonic() - started < seconds * part / 10:
            await world.step()
        memory.append(resident_mib())
    took = time.monotonic() - started
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    return {
        "pods": world.number,
        "pods_per_s": round(world.number / took),
        "simulated_s": round(world.now - 1000),
        "memory_mib": memory,
        "growth_mib": round(memory[-1] - memory[2], 1),
    }


def main() -> None:
    """Print the JSON."""
    parser = argparse.ArgumentParser(prog="python -m bench.churn", description=__doc__)
    parser.add_argument("--seconds", type=float, default=60)
    options = parser.parse_args()
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(50))
    print(dumps(asyncio.run(churn(options.seconds))))


if __name__ == "__main__":
    main()
