"""Pods are deleted by uid, so that their controllers create them again."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from scheduler.bind.pod_recreator import PodRecreator
from scheduler.model.actions import RecreatePod
from scheduler.state.event import PodRecreated
from scheduler.watch.client import Client
from tests.builders import pod
from tests.http.fakeapi import Answer, FakeApi, failure, reply, reset
from tests.http.shells import Heard
from tests.unit.loop.loop_world import Leader

WEB = pod("web-a", owner="Deployment/web@r1", uid="u-1")
POD = "DELETE /api/v1/namespaces/team/pods/web-a"


class Scene:
    """A running recreator, its inbox and its election."""

    def __init__(self, client: Client) -> None:
        self.inbox = Heard()
        self.leader = Leader()
        self.recreator = PodRecreator(client, self.inbox, self.leader)


@pytest.fixture
async def scene(client: Client) -> AsyncIterator[Scene]:
    made = Scene(client)
    task = asyncio.create_task(made.recreator.run())
    yield made
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


async def test_the_pod_is_deleted_by_its_uid(api: FakeApi, scene: Scene) -> None:
    api.script(POD, reply({}))
    scene.recreator.send(RecreatePod(WEB, 2))

    assert await scene.inbox.next() == PodRecreated(WEB, 2, "replaced")
    [sent] = api.seen
    assert sent.json == {
        "apiVersion": "v1",
        "kind": "DeleteOptions",
        "preconditions": {"uid": "u-1"},
    }


@pytest.mark.parametrize(
    ("answer", "result", "sent"),
    [
        pytest.param(failure(404), "gone", 1, id="gone"),
        pytest.param(failure(409), "gone", 1, id="another-pod-by-now"),
        pytest.param(failure(403), "refused", 1, id="not-allowed"),
        # The HTTP client asks twice, which a uid as precondition makes harmless.
        pytest.param(reset, "unreachable", 2, id="no-answer"),
    ],
)
async def test_failed_deletion_is_an_event_and_is_not_repeated(
    api: FakeApi, scene: Scene, answer: Answer, result: str, sent: int
) -> None:
    api.script(POD, answer)
    scene.recreator.send(RecreatePod(WEB, 1))

    assert await scene.inbox.next() == PodRecreated(WEB, 1, result)
    assert api.count(POD) == sent


async def test_standby_deletes_nothing(api: FakeApi, scene: Scene) -> None:
    scene.leader.is_leading = False
    scene.recreator.send(RecreatePod(WEB, 1))
    await asyncio.sleep(0.01)
    assert api.seen == []

    scene.leader.is_leading = True
    api.script(POD, reply({}))
    scene.recreator.send(RecreatePod(WEB, 2))
    assert await scene.inbox.next() == PodRecreated(WEB, 2, "replaced")
