"""A fake API server with a client, and a fake kubelet, new for each test."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import AsyncIterator
from pathlib import Path

import aiohttp
import pytest

from scheduler.watch.client import Client
from scheduler.watch.credentials.authorization import Constant
from tests.http.fakeapi import FakeApi
from tests.http.fakegpu.madeupkubelet import MadeUpKubelet
from tests.http.leadership.election import Leases
from tests.http.recording import Recording


@pytest.fixture
async def api() -> AsyncIterator[FakeApi]:
    server = FakeApi()
    await server.start()
    yield server
    await server.stop()


@pytest.fixture
async def client(api: FakeApi) -> AsyncIterator[Client]:
    async with aiohttp.ClientSession() as session:
        yield Client(api.url + "/", Constant("Bearer test"), session)


@pytest.fixture
def leases(api: FakeApi) -> Leases:
    return Leases(api)


@pytest.fixture
async def kubelet() -> AsyncIterator[MadeUpKubelet]:
    # A socket's path has at most 107 characters, and a test's own folder may be longer.
    with tempfile.TemporaryDirectory() as folder:
        running = MadeUpKubelet(Path(folder))
        await running.start()
        yield running
        await running.stop()


@pytest.fixture
async def recording(api: FakeApi, client: Client) -> AsyncIterator[Recording]:
    made = Recording(api, client)
    task = asyncio.create_task(made.recorder.run())
    yield made
    assert not task.done()
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
