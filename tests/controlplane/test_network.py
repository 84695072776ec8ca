"""Unknown clients open connections to the running product during API server reviews."""

from __future__ import annotations

import asyncio
import json
import resource
import time
import urllib.request
from collections.abc import Callable

import pytest

from tests.http.httpserver.attackers import MIB, anything, flood, memory_of
from tests.patience import PATIENCE_S
from tests.unit.webhook.pods import pod
from tools.controlplane import ControlPlane
from tools.product import Product

Source = Callable[[int], str]
#: The chart's limit of the webhook's container.
LIMIT = 256 * MIB


class Tenant:
    """Creates pods that are never stored, through the real API server."""

    def __init__(self, cp: ControlPlane, namespace: str) -> None:
        self._client = cp.client
        self._path = f"/api/v1/namespaces/{namespace}/pods?dryRun=All"

    def mutated(self) -> list[bool]:
        """Whether each of five mapped pods gets its environment."""
        made = [self._client.create(self._path, pod(map_text="0=g1:0")) for _ in range(5)]
        return ["CUDA_VISIBLE_DEVICES" in json.dumps(one["spec"]) for one in made]


@pytest.fixture
def tenant(cp: ControlPlane, product: Product, namespace: str) -> Tenant:
    assert product.is_running("webhook")
    return Tenant(cp, namespace)


def other_pod(_: int) -> str:
    return "127.0.0.2"


def same_address(_: int) -> str:
    """The API server's own."""
    return "127.0.0.1"


@pytest.mark.parametrize("source", [other_pod, same_address])
def test_webhook_mutates_beside_1500_silent_connections(
    product: Product, tenant: Tenant, source: Source
) -> None:
    """And less memory than the container may have."""

    async def attack() -> tuple[list[bool], int]:
        async with flood(product.webhook_port) as silent:
            await silent.open(1500, source)
            return await asyncio.to_thread(tenant.mutated), memory_of(product.pids["webhook"])

    mutated, memory = asyncio.run(attack())

    assert mutated == [True] * 5
    assert memory < LIMIT


@pytest.mark.parametrize("source", [other_pod, same_address])
def test_webhook_mutates_beside_1020_half_requests(
    product: Product, tenant: Tenant, source: Source
) -> None:
    """Each behind a whole TLS handshake."""

    async def attack() -> tuple[list[bool], int]:
        async with flood(product.webhook_port) as half:
            await half.open(1020, source, b"P", anything())
            return await asyncio.to_thread(tenant.mutated), memory_of(product.pids["webhook"])

    mutated, memory = asyncio.run(attack())

    assert mutated == [True] * 5
    assert memory < LIMIT


def test_probes_answer_beside_1100_silent_clients_with_1024_files(
    product: Product, tenant: Tenant
) -> None:
    """Neither of the health port, nor of the webhook's."""
    before = {}
    for name, pid in product.pids.items():
        before[name] = resource.prlimit(pid, resource.RLIMIT_NOFILE)
        resource.prlimit(pid, resource.RLIMIT_NOFILE, (1024, before[name][1]))

    async def attack() -> tuple[list[float], list[bool]]:
        async with flood(product.health_port) as silent, flood(product.webhook_port) as others:
            await silent.open(1100, other_pod, b"G")
            await others.open(1100, other_pod)
            times = [await asyncio.to_thread(probe, product.health_port) for _ in range(5)]
            return times, await asyncio.to_thread(tenant.mutated)

    try:
        times, mutated = asyncio.run(attack())
    finally:
        for name, limits in before.items():
            resource.prlimit(product.pids[name], resource.RLIMIT_NOFILE, limits)

    # The kubelet's probe waits for one second, and three in a row must fail.
    assert sorted(times)[2] < 1
    assert mutated == [True] * 5
    assert len(product.log("scheduler")) < MIB


def probe(port: int) -> float:
    """How long ``/health`` takes, in seconds."""
    started = time.monotonic()
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/health", timeout=PATIENCE_S) as answer:
        assert b"healthy" in answer.read()
    return time.monotonic() - started
