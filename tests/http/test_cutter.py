"""Orders on their way to the API server: only the newest, only as leader, and a no is told."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from scheduler.bind.partition_writer import PartitionWriter
from scheduler.model.crd.mig_partition import PartitionRequest
from scheduler.model.device import MigPlacement
from scheduler.state.event import PartitionsWriteFailed
from scheduler.watch.client import Client
from tests.http.fakeapi import FakeApi, failure, reply

PATH = "/apis/gpu-scheduler.io/v1alpha1/namespaces/own/migcuts"
PATCH, POST = f"PATCH {PATH}/n1", f"POST {PATH}"
ORDER = PartitionRequest(MigPlacement(0, 4, "2g.20gb"), "u1", "2026-11-28T04:31:44Z")
WRITTEN = {
    "gpu": 0,
    "profile": "2g.20gb",
    "start": 4,
    "podUid": "u1",
    "deadline": "2026-11-28T04:31:44Z",
}
SPEC = {"epoch": 7, "instances": [WRITTEN]}


class Desk:
    """A cutter at work, and what it tells."""

    def __init__(self, client: Client) -> None:
        self.told: asyncio.Queue[PartitionsWriteFailed] = asyncio.Queue()
        self.is_leading = True
        self.cutter = PartitionWriter(
            client, "own", self.told.put_nowait, lambda: self.is_leading, lambda: 7
        )


@pytest.fixture
async def desk(client: Client) -> AsyncIterator[Desk]:
    one = Desk(client)
    task = asyncio.create_task(one.cutter.run())
    yield one
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


async def test_the_whole_spec_is_patched_with_the_term(api: FakeApi, desk: Desk) -> None:
    api.script(PATCH, reply({}))

    desk.cutter.send("n1", (ORDER,))

    assert (await api.next(PATCH)).json == {"spec": SPEC}


async def test_a_node_without_an_object_gets_one(api: FakeApi, desk: Desk) -> None:
    api.script(PATCH, failure(404, "NotFound"))
    api.script(POST, reply({}, 201))

    desk.cutter.send("n1", (ORDER,))

    assert (await api.next(POST)).json == {
        "apiVersion": "gpu-scheduler.io/v1alpha1",
        "kind": "MigCut",
        "metadata": {"name": "n1", "namespace": "own"},
        "spec": SPEC,
    }


async def test_a_no_is_told(api: FakeApi, desk: Desk) -> None:
    api.script(PATCH, failure(403, "Forbidden", "another term"))

    desk.cutter.send("n1", (ORDER,))

    async with asyncio.timeout(10):
        assert await desk.told.get() == PartitionsWriteFailed("n1", "another term")


async def test_what_is_overtaken_is_never_sent(api: FakeApi, desk: Desk) -> None:
    api.script(PATCH, reply({}), reply({}))

    desk.cutter.send("n1", (ORDER,))
    desk.cutter.send("n1", ())

    assert (await api.next(PATCH)).json == {"spec": {"epoch": 7, "instances": []}}


async def test_who_leads_no_more_sends_nothing(api: FakeApi, desk: Desk) -> None:
    api.script(f"PATCH {PATH}/n2", reply({}))
    desk.is_leading = False
    desk.cutter.send("n1", (ORDER,))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    desk.is_leading = True

    desk.cutter.send("n2", ())

    await api.next(f"PATCH {PATH}/n2")
    assert api.count(PATCH) == 0
