"""A pod that vanished is looked up once; what its kubelet said comes back as an event."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from scheduler.state.event import PodRejected
from scheduler.watch.client import Client
from scheduler.watch.inquest import WAITING_MAX, Inquest
from tests.builders import Json, pod
from tests.http.fakeapi import FakeApi, failure, reply, reset, text

CALL = "GET /api/v1/namespaces/team/pods/a"


def answer(uid: str = "team-a", phase: str = "Failed", reason: str = "OutOfcpu") -> Json:
    """The pod as the API server still has it."""
    status = {"phase": phase, "reason": reason, "message": "no room"}
    return {"metadata": {"name": "a", "uid": uid}, "status": status}


class Desk:
    """An inquest at work, and what it found."""

    def __init__(self, client: Client) -> None:
        self.found: asyncio.Queue[PodRejected] = asyncio.Queue()
        self.inquest = Inquest(client, self.found.put_nowait)


@pytest.fixture
async def desk(client: Client) -> AsyncIterator[Desk]:
    at_work = Desk(client)
    task = asyncio.create_task(at_work.inquest.run())
    yield at_work
    assert not task.done(), task
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


async def test_what_the_kubelet_said_comes_back(api: FakeApi, desk: Desk) -> None:
    api.script(CALL, reply(answer()))
    desk.inquest.look_up(pod("a"))

    async with asyncio.timeout(10):
        assert await desk.found.get() == PodRejected("team-a", "OutOfcpu", "no room")


@pytest.mark.parametrize(
    "script",
    [
        pytest.param(failure(404, "NotFound"), id="deleted-for-good"),
        pytest.param(reply(answer(uid="another")), id="another-pod-of-that-name"),
        pytest.param(reply(answer(phase="Running")), id="it-lives"),
        pytest.param(reply(answer(reason="")), id="a-container-failed"),
        pytest.param(reply(answer(reason="SysctlForbidden")), id="its-own-fault"),
        pytest.param(text("bad gateway", 502), id="no-json"),
        pytest.param(reset, id="no-answer"),
    ],
)
async def test_anything_else_is_nobodys_business(api: FakeApi, desk: Desk, script: object) -> None:
    """And the next pod is looked up all the same."""
    api.script(CALL, script)  # type: ignore[arg-type]
    api.script("GET /api/v1/namespaces/team/pods/b", reply(answer(uid="team-b")))
    desk.inquest.look_up(pod("a"))
    await api.next(CALL)
    desk.inquest.look_up(pod("b"))

    async with asyncio.timeout(10):
        assert (await desk.found.get()).uid == "team-b"
    assert desk.found.empty()


async def test_when_too_many_vanish_the_rest_stays_unexplained(client: Client) -> None:
    idle = Desk(client).inquest
    for number in range(2 * WAITING_MAX):
        idle.look_up(pod(f"p{number}"))

    assert idle._waiting.qsize() == WAITING_MAX
