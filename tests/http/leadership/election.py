"""A lease as a real API server would keep it, and candidates for it."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from typing import Any

from aiohttp import web

from scheduler.controllers.leadership.elector import FIRST_TERM, LeaderElector, Timings
from scheduler.watch.client import Client
from tests.http.fakeapi import FakeApi, status_body
from tests.patience import PATIENCE_S

LEASES = "/apis/coordination.k8s.io/v1/namespaces/system/leases"
LEASE = f"{LEASES}/gpu-scheduler"
NOW = datetime(2026, 11, 27, tzinfo=UTC)
#: Nothing runs out, however slow the machine is; a test moves a candidate's clock instead.
TIMINGS = Timings(lease_duration_s=60.0, renew_deadline_s=40.0, retry_period_s=0.02)
#: What a candidate whose name has three letters calls the first term of a new lease.
FIRST = int((NOW + timedelta(seconds=3) - FIRST_TERM).total_seconds())


class Leases:
    """One lease, kept as the API server keeps it: a write needs the version that was read."""

    def __init__(self, api: FakeApi) -> None:
        self.lease: dict[str, Any] | None = None
        self.writes: list[dict[str, Any]] = []
        self._version = 0
        self._written = asyncio.Event()
        api.script(f"GET {LEASE}", self._get)
        api.script(f"POST {LEASES}", self.create)
        api.script(f"PUT {LEASE}", self.update)

    @property
    def spec(self) -> dict[str, Any]:
        assert self.lease is not None
        spec: dict[str, Any] = self.lease["spec"]
        return spec

    def recreate(self) -> None:
        """The lease is deleted and recreated empty, as the chart has it."""
        name = {"name": "gpu-scheduler", "namespace": "system", "resourceVersion": "0"}
        self._version = 0
        self.lease = {
            "apiVersion": "coordination.k8s.io/v1",
            "kind": "Lease",
            "metadata": name,
            "spec": {},
        }

    async def written(self) -> None:
        """Wait for the next write."""
        self._written.clear()
        async with asyncio.timeout(PATIENCE_S):
            await self._written.wait()

    def _store(self, lease: dict[str, Any]) -> web.Response:
        self._version += 1
        lease["metadata"]["resourceVersion"] = str(self._version)
        self.lease = lease
        self.writes.append(lease["spec"])
        self._written.set()
        return web.json_response(lease)

    async def _get(self, _: web.Request) -> web.StreamResponse:
        if self.lease is None:
            return web.json_response(status_body(404, "NotFound"), status=404)
        return web.json_response(self.lease)

    async def create(self, request: web.Request) -> web.StreamResponse:
        if self.lease is not None:
            return web.json_response(status_body(409, "AlreadyExists"), status=409)
        return self._store(await request.json())

    async def update(self, request: web.Request) -> web.StreamResponse:
        lease = await request.json()
        if lease["metadata"]["resourceVersion"] != str(self._version):
            return web.json_response(status_body(409, "Conflict"), status=409)
        return self._store(lease)


class Candidate:
    """An elector, its clock and what it announced."""

    def __init__(self, client: Client, name: str, later_s: float = 0.0, **more: Any) -> None:
        self.announced: list[bool] = []
        self.changed = asyncio.Event()
        self.shift_s = 0.0
        self.elector = LeaderElector(
            client,
            name="gpu-scheduler",
            namespace="system",
            identity=name,
            clock=lambda: asyncio.get_running_loop().time() + self.shift_s,
            wall=lambda: NOW + timedelta(seconds=len(name) + later_s),
            rng=random.Random(1),
            on_change=self._announce,
            timings=TIMINGS,
            **more,
        )

    def _announce(self, leads: bool) -> None:
        if not self.announced or self.announced[-1] is not leads:
            self.announced.append(leads)
            self.changed.set()

    async def says(self, leads: bool) -> None:
        """Wait until it announces this."""
        async with asyncio.timeout(PATIENCE_S):
            while not self.announced or self.announced[-1] is not leads:
                self.changed.clear()
                await self.changed.wait()

    async def outlasts(self) -> None:
        """Let the lease that it sees run out, by its own clock."""
        await self.elector.round_ended()
        self.shift_s += TIMINGS.lease_duration_s


@asynccontextmanager
async def running(*candidates: Candidate) -> AsyncIterator[None]:
    tasks = [asyncio.create_task(one.elector.run()) for one in candidates]
    try:
        yield
        assert not any(task.done() for task in tasks)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
