"""One whole scheduler process on a scripted API server: it lists, decides, binds and stops."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
from pathlib import Path
from typing import Any

import aiohttp
import msgspec
import pytest

from scheduler.app import App
from scheduler.config import Config, DashboardSettings
from scheduler.model import well_known
from scheduler.sources import Sources
from scheduler.watch.client import Client
from tests.builders import pod_json
from tests.http.fakeapi import FakeApi, Stream, listed, reply
from tests.http.leadership.election import Leases
from tests.patience import PATIENCE_S

NODE = {
    "metadata": {"name": "n1", "uid": "u-n1", "creationTimestamp": "2026-11-27T09:00:00Z"},
    "spec": {},
    "status": {
        "allocatable": {"cpu": "8", "memory": "32Gi", "pods": "110", "nvidia.com/gpu": "1"},
        "capacity": {"cpu": "8", "memory": "32Gi", "pods": "110", "nvidia.com/gpu": "1"},
    },
}
BINDING = "POST /api/v1/namespaces/team/pods/a/binding"
LISTS: dict[str, list[Any]] = {
    "nodes": [NODE],
    "pods": [pod_json("a", gpus=1)],
    "namespaces": [],
    "resourcequotas": [],
}


def free_address() -> str:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return f"127.0.0.1:{probe.getsockname()[1]}"


def configuration(*, elects: bool = False, socket: str = "") -> Config:
    """A configuration with free addresses."""
    config = Config(health_address=free_address(), decisions_address=free_address())
    election = msgspec.structs.replace(
        config.leader_election,
        leader_elect=elects,
        resource_namespace="system",
        lease_duration_s=60.0,
        renew_deadline_s=40.0,
        retry_period_s=0.05,
    )
    webhook = msgspec.structs.replace(config.webhook, socket=socket)
    return msgspec.structs.replace(config, leader_election=election, webhook=webhook)


@pytest.fixture
def served(api: FakeApi) -> FakeApi:
    """A cluster with one node and one pending pod."""
    for plural, items in LISTS.items():
        api.script(f"GET /api/v1/{plural}", reply(listed("1", *items)))
        api.script(f"WATCH /api/v1/{plural}", Stream(end="hang"))
    api.script("GET /apis/events.k8s.io/v1/events", reply({"items": []}))
    api.script(BINDING, reply({"kind": "Status"}, 201))
    return api


async def test_a_process_lists_binds_and_stops_on_a_signal(served: FakeApi, client: Client) -> None:
    process = asyncio.create_task(App(configuration(), client, None).run())
    sent = await served.next(BINDING)
    os.kill(os.getpid(), signal.SIGTERM)

    async with asyncio.timeout(PATIENCE_S):
        assert await process == 0
    assert sent.json["target"]["name"] == "n1"


async def test_watches_that_started_first_fill_the_program(served: FakeApi, client: Client) -> None:
    config = configuration()
    sources = Sources(config, client)
    sources.start()
    async with asyncio.timeout(PATIENCE_S):
        for reflector in sources.reflectors:
            await reflector.is_synced.wait()

    process = asyncio.create_task(App(config, client, None, sources).run())
    sent = await served.next(BINDING)
    os.kill(os.getpid(), signal.SIGTERM)

    async with asyncio.timeout(PATIENCE_S):
        assert await process == 0
    assert sent.json["target"]["name"] == "n1"
    assert len([one for one in served.seen if one.path == "/api/v1/pods"]) == 3


async def test_signal_before_the_program_is_built_stops_it(served: FakeApi, client: Client) -> None:
    config = configuration()
    sources = Sources(config, client)
    sources.start()
    os.kill(os.getpid(), signal.SIGTERM)

    async with asyncio.timeout(PATIENCE_S):
        await sources.stop.wait()
        assert await App(config, client, None, sources).run() == 0


async def test_failures_before_the_program_is_built_are_counted(client: Client) -> None:
    class Counted:
        def __init__(self) -> None:
            self.calls: list[tuple[object, ...]] = []

        def watch_failed(self, kind: str) -> None:
            self.calls.append(("failed", kind))

        def relisted(self, kind: str, reason: str) -> None:
            self.calls.append(("relisted", kind, reason))

        def led(self, leads: bool) -> None:
            self.calls.append(("leads", leads))

    sources, counted = Sources(configuration(), client), Counted()
    sources._watch_failed("pods", "a problem")
    sources._leadership_changed(True)

    sources.attach(counted)
    sources._relists("nodes", "expired")

    assert counted.calls == [("failed", "pods"), ("leads", True), ("relisted", "nodes", "expired")]


async def test_leader_binds_with_its_term_and_releases_its_lease(
    served: FakeApi, client: Client, leases: Leases, tmp_path: Path
) -> None:
    """The webhook's socket is served beside it."""
    file = tmp_path / "place.sock"
    config = configuration(elects=True, socket=str(file))
    process = asyncio.create_task(App(config, client, None).run())
    sent = await served.next(BINDING)
    epoch = leases.spec["leaseTransitions"]
    assert file.is_socket()
    os.kill(os.getpid(), signal.SIGTERM)

    async with asyncio.timeout(PATIENCE_S):
        assert await process == 0
    assert sent.json["metadata"]["annotations"][well_known.EPOCH] == str(epoch)
    assert leases.spec["holderIdentity"] == ""
    assert not file.exists()


@pytest.mark.parametrize("enabled", [True, False])
async def test_a_process_serves_its_dashboard(
    served: FakeApi, client: Client, enabled: bool
) -> None:
    config = configuration()
    config = msgspec.structs.replace(config, dashboard=DashboardSettings(enabled=enabled))
    process = asyncio.create_task(App(config, client, None).run())
    await served.next(BINDING)
    url = f"http://{config.decisions_address}/dashboard/data/health"
    async with aiohttp.ClientSession() as session, asyncio.timeout(PATIENCE_S):
        page: dict[str, Any] = {}
        while page.get("state") != "ok":
            async with session.get(url) as response:
                page = await response.json()
            if not enabled:
                break
    os.kill(os.getpid(), signal.SIGTERM)
    async with asyncio.timeout(PATIENCE_S):
        assert await process == 0

    assert response.status == (200 if enabled else 404)
    if enabled:
        checks = {one["name"]: one["state"] for one in page["data"]["checks"]}
        assert checks["leader"] == checks["decisions"] == "ok"
        assert {"nodes", "pods"} <= {one["kind"] for one in page["data"]["watches"]}
