"""The metrics of all KWOK nodes, from one exporter, because no agent runs on them.

``/metrics`` beside the topology server, answered by the leader only: every GPU has one series,
whatever the number of scraped replicas. Values are computed on request only.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Iterable

from aiohttp import web

from fakegpu.exporter.metrics import Exported, render
from fakegpu.exporter.prometheus_query import PrometheusQuery, queried_pods
from fakegpu.exporter.server import TEXT
from fakegpu.node.telemetry import read_all
from fakegpu.topology.node_topology import NodeTopology

#: KWOK nodes by their names.
Topologies = Callable[[], Iterable[tuple[str, NodeTopology]]]


class KwokExporter:
    """Readings of one interval; the first scrape of the next interval computes new ones."""

    def __init__(
        self,
        topologies: Topologies,
        asking: PrometheusQuery,
        clock: Callable[[], float],
        rng: random.Random,
        interval_s: float,
    ) -> None:
        self._topologies = topologies
        self._asking = asking
        self._clock = clock
        self._rng = rng
        self._interval_s = interval_s
        self._drawn_at = float("-inf")
        self._seed = 0.0

    async def answer(self, _: web.Request) -> web.Response:
        """One scrape."""
        topologies = tuple(self._topologies())
        if self._clock() >= self._drawn_at + self._interval_s:
            self._drawn_at, self._seed = self._clock(), self._rng.random()
            await self._asking.ask({uid for _, one in topologies for uid in queried_pods(one)})
        # Thousands of GPUs take a second, in which the lease must be renewed.
        text = await asyncio.to_thread(self._text, topologies)
        return web.Response(body=text.encode(), headers={"Content-Type": TEXT})

    def _text(self, topologies: Iterable[tuple[str, NodeTopology]]) -> str:
        """Depends only on the interval's random draw and on the node's pods."""
        gpus = [
            Exported(node, reading)
            for node, topology in topologies
            for reading in read_all(
                topology, random.Random(f"{self._seed}/{node}").randint, self._asking.of
            )
        ]
        return render(gpus)
