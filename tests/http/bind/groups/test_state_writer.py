"""The condition of a PodGroup is written in the served version, only by the leader."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest
import structlog

from scheduler.bind.groups.state_writer import GroupWriter
from scheduler.model.actions import WriteGroupState
from scheduler.model.pods.gang import GroupState
from scheduler.watch.client import Client
from tests.gangs import pod_group
from tests.http.fakeapi import FakeApi, failure, reply
from tests.unit.loop.loop_world import Leader

NEW, OLD = (
    f"PATCH /apis/scheduling.k8s.io/{version}/namespaces/team/podgroups/train/status"
    for version in ("v1beta1", "v1alpha3")
)
SINCE = "2026-11-30T10:00:00Z"
WRITE = WriteGroupState(
    pod_group(2, uid="u", version="7"), GroupState(False, "Unschedulable", "no room", SINCE)
)
BODY = {
    "metadata": {"uid": "u", "resourceVersion": "7"},
    "status": {
        "conditions": [
            {
                "type": "PodGroupInitiallyScheduled",
                "status": "False",
                "reason": "Unschedulable",
                "message": "no room",
                "lastTransitionTime": SINCE,
            }
        ]
    },
}


class WriterWorld:
    """A running writer."""

    def __init__(self, client: Client) -> None:
        self.leader = Leader()
        self.writer = GroupWriter(client, self.leader)


@pytest.fixture
async def world(client: Client) -> AsyncIterator[WriterWorld]:
    one = WriterWorld(client)
    task = asyncio.create_task(one.writer.run())
    yield one
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


async def test_the_condition_names_the_seen_version(api: FakeApi, world: WriterWorld) -> None:
    api.script(NEW, reply({}))

    world.writer.send(WRITE)

    request = await api.next(NEW)
    assert request.json == BODY


async def test_an_older_api_is_written_where_it_is_served(api: FakeApi, world: WriterWorld) -> None:
    api.script(NEW, failure(404, "NotFound"))
    api.script(OLD, reply({}))

    world.writer.send(WRITE)

    assert (await api.next(OLD)).json == BODY


async def test_a_refused_condition_is_logged(api: FakeApi, world: WriterWorld) -> None:
    api.script(NEW, failure(409, "Conflict"), failure(403, "Forbidden", "no right"), reply({}))
    with structlog.testing.capture_logs() as lines:
        for _ in range(3):
            world.writer.send(WRITE)
            await api.next(NEW)

    assert [(one["event"], one["group"]) for one in lines] == [
        ("PodGroup condition not written", "team/train")
    ]


async def test_a_follower_writes_no_condition(api: FakeApi, world: WriterWorld) -> None:
    api.script(NEW, reply({}))
    world.leader.is_leading = False
    world.writer.send(WRITE)
    for _ in range(20):
        await asyncio.sleep(0)
    world.leader.is_leading = True

    world.writer.send(WRITE)
    await api.next(NEW)

    assert api.count(NEW) == 1
