"""The utilization of pods by their request rates, from a fake Prometheus."""

from __future__ import annotations

import asyncio
import random
import re
import time
from collections.abc import AsyncIterator

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer, make_mocked_request

from fakegpu.controller.kwok_metrics import KwokExporter
from fakegpu.exporter.prometheus_query import TIMEOUT_S, PrometheusQuery
from fakegpu.node.device_assignment import assign
from fakegpu.topology.node_topology import NodeTopology
from tests.unit.fakegpu.nodes import fake, use

RATES = {"uid-busy": "42.7", "uid-flooded": "250"}


class Prometheus:
    """``/api/v1/query``: an instant vector for the pods that it knows; ``hangs``: no answer."""

    def __init__(self) -> None:
        self.queries: list[str] = []
        self.hangs = False

    async def query(self, request: web.Request) -> web.Response:
        self.queries.append(request.query["query"])
        if self.hangs:
            await asyncio.Event().wait()
        found = re.search(r'uid="([^"]*)"', self.queries[-1])
        rate = RATES.get(found[1] if found else "")
        result = [{"metric": {}, "value": [1764300000.1, rate]}] if rate else []
        data = {"resultType": "vector", "result": result}
        return web.json_response({"status": "success", "data": data})


@pytest.fixture
def prometheus() -> Prometheus:
    return Prometheus()


@pytest.fixture
async def url(prometheus: Prometheus) -> AsyncIterator[str]:
    app = web.Application()
    app.router.add_get("/api/v1/query", prometheus.query)
    async with TestServer(app) as server:
        yield str(server.make_url("/"))


def served(*names: str) -> NodeTopology:
    """A node with one GPU for each of these pods, which are measured by their requests."""
    pool = f"gpus: [{{type: t4, count: {len(names)}}}]"
    pods = [use(name, created=str(number), load=None) for number, name in enumerate(names)]
    return assign(fake(pool), pods)


async def scrape(exporter: KwokExporter) -> dict[str, str]:
    """The utilisation that each pod shows."""
    answer = await exporter.answer(make_mocked_request("GET", "/metrics"))
    assert isinstance(answer.body, bytes)
    found = re.findall(
        r'DCGM_FI_DEV_GPU_UTIL\{.*Hostname="n",.*pod="(.*)"\} (\d+)', answer.text or ""
    )
    return dict(found)


def exporter(url: str, topology: NodeTopology) -> KwokExporter:
    return KwokExporter(
        lambda: [("n", topology)], PrometheusQuery(url), time.monotonic, random.Random(1), 0
    )


@pytest.mark.contract("S1-51", "S1-54")
async def test_pods_show_their_request_rate_as_percent_up_to_100(
    url: str, prometheus: Prometheus
) -> None:
    shown = await scrape(exporter(url, served("busy", "flooded", "unknown")))

    assert shown == {"busy": "42", "flooded": "100", "unknown": "0"}
    assert len(prometheus.queries) == 3
    assert sorted(prometheus.queries) == [
        "rate(revision_app_request_count[1m]) * on(pod) group_left(uid) "
        f'kube_pod_info{{uid="uid-{name}"}}'
        for name in ("busy", "flooded", "unknown")
    ]


@pytest.mark.contract("S1-B16")
async def test_metrics_do_not_wait_for_a_prometheus_that_hangs(
    url: str, prometheus: Prometheus
) -> None:
    """All queries are sent at once; after one second a pod without a value is idle."""
    prometheus.hangs = True
    started = time.monotonic()

    shown = await scrape(exporter(url, served(*(f"p{number}" for number in range(20)))))

    # One after the other they would take twenty times the limit.
    assert time.monotonic() - started < 10 * TIMEOUT_S
    assert len(prometheus.queries) == 20
    assert set(shown.values()) == {"0"}


async def test_without_an_address_no_query_is_sent_and_an_error_means_idle(url: str) -> None:
    for wrong in ("", url + "nothing/there"):
        assert await scrape(exporter(wrong, served("busy"))) == {"busy": "0"}
