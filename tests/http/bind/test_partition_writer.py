"""Requests for MIG instances: only the newest is sent, only by the leader; refusals come back."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from scheduler.bind.partition_writer import PartitionWriter
from scheduler.model.actions import RequestPartitions, SetMigConfig
from scheduler.model.crd.mig_partition import PartitionRequest
from scheduler.model.gpu.device import MigPlacement
from scheduler.state.event import PartitionsWriteFailed
from scheduler.watch.client import Client
from tests.http.fakeapi import FakeApi, failure, reply
from tests.http.shells import Heard
from tests.unit.loop.loop_world import Leader

PATH = "/apis/gpu-scheduler.io/v1alpha1/namespaces/own/migpartitions"
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


class WriterWorld:
    """A running writer and its inbox."""

    def __init__(self, client: Client) -> None:
        self.inbox = Heard()
        self.leader = Leader(epoch=7)
        self.writer = PartitionWriter(client, "own", self.inbox, self.leader)


@pytest.fixture
async def world(client: Client) -> AsyncIterator[WriterWorld]:
    one = WriterWorld(client)
    task = asyncio.create_task(one.writer.run())
    yield one
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


async def test_the_whole_spec_is_patched_with_the_term(api: FakeApi, world: WriterWorld) -> None:
    api.script(PATCH, reply({}))

    world.writer.send(RequestPartitions("n1", (ORDER,)))

    assert (await api.next(PATCH)).json == {"spec": SPEC}


async def test_a_node_without_an_object_gets_one(api: FakeApi, world: WriterWorld) -> None:
    api.script(PATCH, failure(404, "NotFound"))
    api.script(POST, reply({}, 201))

    world.writer.send(RequestPartitions("n1", (ORDER,)))

    assert (await api.next(POST)).json == {
        "apiVersion": "gpu-scheduler.io/v1alpha1",
        "kind": "MigPartition",
        "metadata": {"name": "n1", "namespace": "own"},
        "spec": SPEC,
    }


async def test_refused_partition_write_is_reported(api: FakeApi, world: WriterWorld) -> None:
    api.script(PATCH, failure(403, "Forbidden", "another term"))

    world.writer.send(RequestPartitions("n1", (ORDER,)))

    assert await world.inbox.next() == PartitionsWriteFailed("n1", "another term")


async def test_superseded_request_is_never_sent(api: FakeApi, world: WriterWorld) -> None:
    api.script(PATCH, reply({}), reply({}))

    world.writer.send(RequestPartitions("n1", (ORDER,)))
    world.writer.send(RequestPartitions("n1", ()))

    assert (await api.next(PATCH)).json == {"spec": {"epoch": 7, "instances": []}}


async def test_former_leader_sends_nothing(api: FakeApi, world: WriterWorld) -> None:
    api.script(f"PATCH {PATH}/n2", reply({}))
    world.leader.is_leading = False
    world.writer.send(RequestPartitions("n1", (ORDER,)))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    world.leader.is_leading = True

    world.writer.send(RequestPartitions("n2", ()))

    await api.next(f"PATCH {PATH}/n2")
    assert api.count(PATCH) == 0


async def test_both_labels_of_mig_manager_are_set_at_once(api: FakeApi, world: WriterWorld) -> None:
    api.script("PATCH /api/v1/nodes/n1", reply({}))

    world.writer.send(SetMigConfig("n1", "all-2g.20gb"))

    assert (await api.next("PATCH /api/v1/nodes/n1")).json == {
        "metadata": {
            "labels": {
                "nvidia.com/mig.config": "all-2g.20gb",
                "nvidia.com/mig.config.state": "pending",
            }
        }
    }
