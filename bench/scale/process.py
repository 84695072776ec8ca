"""One scheduler process on a large cluster, measured from inside.

    python -m bench.scale.process KUBECONFIG DECISIONS

The process is the product's: its client, decoder, caches and loop. After its first decisions it
decides DECISIONS more pods on the same state, timed. The last line is JSON.
"""

from __future__ import annotations

import asyncio
import os
import random
import signal
import statistics
import sys
import time
from typing import Any

import aiohttp
import structlog

from bench.cluster_fixture import mixed
from bench.observer import dumps, percentile
from bench.process_memory import memory_mib
from scheduler import config as configuration
from scheduler.app import App
from scheduler.decide.schedule_one import schedule_one
from scheduler.framework.decision import Placement
from scheduler.loop import Loop
from scheduler.watch.client import Client
from scheduler.watch.credentials.authorization import Authorization
from tools.controlplane.ports import LOOPBACK, free_ports

WAIT_S = 300.0
SETTLE_S = 3.0


class Timed(Client):
    """Records the time of the first list and of the first Binding."""

    def __init__(
        self, url: str, authorization: Authorization, session: aiohttp.ClientSession
    ) -> None:
        super().__init__(url, authorization, session)
        self.listed_at = self.bound_at = 0.0
        self.has_bound = asyncio.Event()

    async def request(self, method: str, path: str, *words: Any, **options: Any) -> bytes:
        """One request, as the product's client sends it."""
        now = time.monotonic()
        if method == "GET" and not self.listed_at:
            self.listed_at = now
        if path.endswith("/binding") and not self.bound_at:
            self.bound_at = now
            self.has_bound.set()
        return await super().request(method, path, *words, **options)


class Measured(App):
    """The product's process with its loop in reach."""

    @property
    def loop(self) -> Loop:
        """The scheduling loop."""
        return self._loop


def decisions(loop: Loop, count: int) -> dict[str, float]:
    """The time of decisions on the loop's state, in microseconds; placements enter the state."""
    rng, times = random.Random(1), []
    for number in range(count):
        newcomer = mixed(rng, 10**6 + number)
        loop.cluster.track_label_keys(newcomer)
        started = time.perf_counter()
        decision = schedule_one(loop.cluster, newcomer, loop.pipeline)
        times.append((time.perf_counter() - started) * 1e6)
        if isinstance(decision, Placement):
            loop.cluster.upsert_pod(newcomer)
            loop.cluster.delete_pod(newcomer.uid)
    return {"decision_us": statistics.median(times), "decision_p99_us": percentile(times, 0.99)}


async def measure(kubeconfig: str, count: int) -> dict[str, float]:
    """Start, wait for the first Binding, measure, stop."""
    health, served = free_ports(2)
    config = configuration.Config(
        leader_election=configuration.LeaderElection(leader_elect=False),
        health_address=f"{LOOPBACK}:{health}",
        decisions_address=f"{LOOPBACK}:{served}",
    )
    client = await Timed.connect(kubeconfig, "bench-scale")
    assert isinstance(client, Timed), "connect returns its own class"
    app = Measured(config, client, None)
    running = asyncio.create_task(app.run())
    try:
        async with asyncio.timeout(WAIT_S):
            await client.has_bound.wait()
        await asyncio.sleep(SETTLE_S)
        figures = {
            "first_decision_s": client.bound_at - client.listed_at,
            **memory_mib(os.getpid()),
            "nodes": len(app.loop.cluster.nodes),
            "pods": len(app.loop.cluster.pods),
        }
        return figures | decisions(app.loop, count)
    finally:
        os.kill(os.getpid(), signal.SIGTERM)
        await running
        await client.close()


def main() -> None:
    """Print the JSON."""
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(30))
    print(dumps(asyncio.run(measure(sys.argv[1], int(sys.argv[2])))))


if __name__ == "__main__":
    main()
