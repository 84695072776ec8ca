"""The owner of a gang is read, and what cannot be read defines no gang."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from scheduler.bind.groups.owner_reader import GroupOwnerReader
from scheduler.model.actions import ReadGroupOwner
from scheduler.model.pods.gang import GangKey, GangSource, PodGroup
from scheduler.state.event import PodGroupDeleted, PodGroupUpdated
from scheduler.watch.client import Client
from tests.http.fakeapi import FakeApi, failure, reply
from tests.http.shells import Heard

RAY = GangSource.RAY_CLUSTER.value
GET = "GET /apis/ray.io/v1/namespaces/team/rayclusters/tune"
CLUSTER = {"spec": {"workerGroupSpecs": [{"groupName": "gpu", "replicas": 2}]}}
WHOLE, ROLE = GangKey("team", RAY, "tune"), GangKey("team", RAY, "tune/gpu")


class ReaderWorld:
    """A running reader and its inbox."""

    def __init__(self, client: Client) -> None:
        self.inbox = Heard()
        self.reader = GroupOwnerReader(client, self.inbox)


@pytest.fixture
async def world(client: Client) -> AsyncIterator[ReaderWorld]:
    one = ReaderWorld(client)
    task = asyncio.create_task(one.reader.run())
    yield one
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


@pytest.mark.parametrize(
    ("key", "group"),
    [
        pytest.param(
            WHOLE, PodGroup("team", "tune", 3, RAY, {"headgroup": 1, "gpu": 2}), id="owner"
        ),
        pytest.param(ROLE, PodGroup("team", "tune/gpu", 2, RAY), id="role"),
    ],
)
async def test_the_object_defines_the_gang(
    api: FakeApi, world: ReaderWorld, key: GangKey, group: PodGroup
) -> None:
    api.script(GET, reply(CLUSTER))

    world.reader.send(ReadGroupOwner(key))

    assert await world.inbox.next() == PodGroupUpdated(group)


@pytest.mark.parametrize(
    "answer",
    [
        pytest.param(failure(404, "NotFound"), id="gone"),
        pytest.param(failure(403, "Forbidden"), id="no right"),
        pytest.param(reply({"spec": {"workerGroupSpecs": "none"}}), id="unreadable"),
    ],
)
async def test_an_owner_that_is_not_read_defines_nothing(
    api: FakeApi, world: ReaderWorld, answer: object
) -> None:
    api.script(GET, answer)  # type: ignore[arg-type] # an answer of either kind

    world.reader.send(ReadGroupOwner(WHOLE))

    assert await world.inbox.next() == PodGroupDeleted("team", "tune", RAY)


async def test_a_busy_server_changes_nothing(api: FakeApi, world: ReaderWorld) -> None:
    api.script(GET, failure(429, "TooManyRequests"), reply(CLUSTER))
    for _ in range(2):
        world.reader.send(ReadGroupOwner(ROLE))

    assert await world.inbox.next() == PodGroupUpdated(PodGroup("team", "tune/gpu", 2, RAY))
    assert world.inbox.is_empty()
