"""An hour of comings and goings in a minute: memory and what is remembered must not grow.

    python -m bench.churn [--seconds 60]

In process, on the loop itself: pods are created, bound, run and go, refused ones wait and go, nodes
are replaced; the clock jumps, so that pauses and deadlines pass. Reported are pods per second and
the resident memory after every tenth part. The last line is JSON.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import random
import time
from collections import deque
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec
import structlog

from bench.cluster_fixture import mixed, node
from bench.observer import dumps
from scheduler.bind.binder import Binder, binding_annotations
from scheduler.framework.decision import Placement
from scheduler.loop import Loop
from scheduler.model.pod import Pod
from scheduler.plugins import default_pipeline
from scheduler.report.events.recorder import Recorder
from scheduler.report.metrics import Metrics
from scheduler.state import event as ev
from scheduler.watch.client import Client

NODES = 200
ALIVE_MAX = 2000
CLOCK_STEP_S = 0.5


class Anything(Client):
    """An API server that takes everything."""

    def __init__(self) -> None:
        """Nothing is opened."""

    async def request(self, *_: object, **__: object) -> bytes:
        """Done."""
        return b"{}"


class Leads:
    """Always."""

    def leads(self) -> bool:
        """Yes."""
        return True


class Instant(Binder):
    """Binds at once; the watch shows it."""

    def __init__(self, emit: Callable[[ev.Event], None], calm: asyncio.Event) -> None:
        super().__init__(Anything(), emit, lambda: 1, lambda: True, calm)
        self._tell = emit

    def start(self, placement: Placement, decision_id: str) -> None:
        """The Binding went through."""
        written = binding_annotations(placement, decision_id, 1)
        bound = msgspec.structs.replace(
            placement.pod,
            node_name=placement.node_name,
            annotations={**placement.pod.annotations, **written},
            phase="Running",
        )
        self._tell(ev.BindEnded(placement.pod.uid, ev.BindOutcome.BOUND))
        self._tell(ev.PodUpdated(bound))


class World:
    """A loop, and the pods that are created and deleted."""

    def __init__(self) -> None:
        self.now = 1000.0
        self.rng = random.Random(1)
        self.number = 0
        self.alive: deque[Pod] = deque()
        calm = asyncio.Event()
        calm.set()
        self.recorder = Recorder(
            Anything(),
            "gpu-scheduler",
            "bench",
            lambda: self.now,
            lambda: datetime(2026, 11, 27, tzinfo=UTC),
            lambda *_: None,
            calm,
        )
        self.loop = Loop(
            default_pipeline(),
            lambda emit: Instant(emit, calm),  # type: ignore[arg-type] # it also plays the watch
            self.recorder,
            Metrics("gpu-scheduler"),
            Leads(),
            lambda: self.now,
        )
        self.loop.is_synced = True
        for number in range(NODES):
            self.loop.enqueue(ev.NodeUpdated(node(number)))

    async def step(self) -> None:
        """Some come, some go; half a second passes."""
        self.now += CLOCK_STEP_S
        for _ in range(50):
            self.number += 1
            newcomer = mixed(self.rng, self.number)
            self.alive.append(newcomer)
            self.loop.enqueue(ev.PodUpdated(newcomer))
        while len(self.alive) > ALIVE_MAX:
            self.loop.enqueue(ev.PodDeleted(self.alive.popleft().uid))
        if self.number % 1000 == 0:
            old = self.rng.randrange(NODES)
            fresh = node(old + NODES * (self.number // 1000))
            self.loop.enqueue(ev.NodeDeleted(node(old).name))
            self.loop.enqueue(ev.NodeUpdated(fresh))
            self.loop.enqueue(ev.NodeDeleted(fresh.name))
            self.loop.enqueue(ev.NodeUpdated(node(old)))
        self.loop.wake()
        for _ in range(3):
            await asyncio.sleep(0)


def resident_mib() -> float:
    """Resident memory of this process, after the garbage is gone."""
    gc.collect()
    status = Path("/proc/self/status").read_text(encoding="utf-8")
    line = next(line for line in status.splitlines() if line.startswith("VmRSS"))
    return round(int(line.split()[1]) / 1024, 1)


async def churn(seconds: float) -> dict[str, Any]:
    """Run for so long; the figures."""
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
