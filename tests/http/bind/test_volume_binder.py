"""Volumes and claims are written in the version that was decided on; the result comes back."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import msgspec
import pytest
from aiohttp import web

from scheduler.bind.volume_binder import WORKERS, VolumeBinder
from scheduler.model.actions import GiveVolume, SelectNode, WriteVolumes
from scheduler.state.event import VolumesWritten
from scheduler.watch.client import Client
from tests.http.fakeapi import FakeApi, failure, reply
from tests.http.shells import Heard
from tests.patience import PATIENCE_S
from tests.unit.loop.loop_world import Leader

GIVE = GiveVolume("pv", "7", "team", "data", "uid-data", "3", is_ours=True)
SELECT = SelectNode("team", "more", "uid-more", "4", "n1")
PV = "PATCH /api/v1/persistentvolumes/pv"
PVC = "PATCH /api/v1/namespaces/team/persistentvolumeclaims/more"


def at(version: str) -> Any:
    """An answer with the written object's version."""
    return reply({"metadata": {"resourceVersion": version}})


class BinderWorld:
    """A running binder and its inbox."""

    def __init__(self, client: Client) -> None:
        self.heard = Heard()
        self.leader = Leader(epoch=7)
        self.binder = VolumeBinder(client, self.heard, self.leader, pause_first_s=0.001)


@pytest.fixture
async def world(client: Client) -> AsyncIterator[BinderWorld]:
    one = BinderWorld(client)
    task = asyncio.create_task(one.binder.run())
    yield one
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


async def test_a_volume_is_given_and_a_node_is_selected(api: FakeApi, world: BinderWorld) -> None:
    api.script(PV, at("8"))
    api.script(PVC, at("9"))

    world.binder.send(WriteVolumes("u", 1, (GIVE, SELECT)))

    assert (await api.next(PV)).json == {
        "metadata": {
            "resourceVersion": "7",
            "annotations": {"pv.kubernetes.io/bound-by-controller": "yes"},
        },
        "spec": {
            "claimRef": {
                "apiVersion": "v1",
                "kind": "PersistentVolumeClaim",
                "namespace": "team",
                "name": "data",
                "uid": "uid-data",
                "resourceVersion": "3",
            }
        },
    }
    assert (await api.next(PVC)).json == {
        "metadata": {
            "uid": "uid-more",
            "resourceVersion": "4",
            "annotations": {"volume.kubernetes.io/selected-node": "n1"},
        }
    }
    written = (("pv", "8"), ("team/more", "9"))
    assert await world.heard.next() == VolumesWritten("u", 1, written)


async def test_a_conflict_ends_the_writes_and_names_the_object(
    api: FakeApi, world: BinderWorld
) -> None:
    """The second object is not written: the decision that it belongs to is void."""
    api.script(PV, failure(409, "Conflict", "the object has been modified"))

    world.binder.send(WriteVolumes("u", 2, (GIVE, SELECT)))

    problem = "pv: the object has been modified"
    assert await world.heard.next() == VolumesWritten("u", 2, (), problem)
    assert api.count(PVC) == 0


async def test_what_was_written_before_a_failure_is_told(api: FakeApi, world: BinderWorld) -> None:
    api.script(PV, at("8"))
    api.script(PVC, failure(403, "Forbidden", "no"))

    world.binder.send(WriteVolumes("u", 1, (GIVE, SELECT)))

    told = VolumesWritten("u", 1, (("pv", "8"),), "team/more: no")
    assert await world.heard.next() == told


async def test_a_busy_server_is_asked_again(api: FakeApi, world: BinderWorld) -> None:
    busy = failure(429, "TooManyRequests")
    api.script(PV, busy, busy, at("8"))

    world.binder.send(WriteVolumes("u", 1, (GIVE,)))

    assert await world.heard.next() == VolumesWritten("u", 1, (("pv", "8"),))
    assert api.count(PV) == 3


async def test_a_former_leader_writes_no_volume(api: FakeApi, world: BinderWorld) -> None:
    world.leader.is_leading = False

    world.binder.send(WriteVolumes("u", 1, (GIVE,)))

    assert await world.heard.next() == VolumesWritten("u", 1, is_unsent=True)
    assert api.count(PV) == 0


async def test_write_that_was_decided_in_an_earlier_term_is_not_sent(
    api: FakeApi, world: BinderWorld
) -> None:
    """Another leader may have given the claim another volume: this one has the version that was
    decided on, and would have the same claim.
    """
    arrived = [asyncio.Event() for _ in range(WORKERS)]
    regained = asyncio.Event()
    for number, one in enumerate(arrived):
        api.script(f"{PV}-{number}", _late(one, regained))
    for number in range(WORKERS):
        volume = msgspec.structs.replace(GIVE, volume=f"pv-{number}")
        world.binder.send(WriteVolumes(f"u-{number}", 1, (volume,)))
    world.binder.send(WriteVolumes("u", 1, (GIVE,)))
    async with asyncio.timeout(PATIENCE_S):
        await asyncio.gather(*(one.wait() for one in arrived))

    world.leader.epoch = 9
    regained.set()

    answers = [await world.heard.next() for _ in range(WORKERS + 1)]
    assert VolumesWritten("u", 1, is_unsent=True) in answers
    assert api.count(PV) == 0


async def test_writes_of_a_pod_do_not_go_on_in_another_term(
    api: FakeApi, world: BinderWorld
) -> None:
    async def regained(request: web.Request) -> web.StreamResponse:
        world.leader.epoch = 9
        answered: web.StreamResponse = await at("8")(request)
        return answered

    api.script(PV, regained)

    world.binder.send(WriteVolumes("u", 1, (GIVE, SELECT)))

    told = VolumesWritten("u", 1, (("pv", "8"),), is_unsent=True)
    assert await world.heard.next() == told
    assert api.count(PVC) == 0


def _late(arrived: asyncio.Event, answer: asyncio.Event) -> Any:
    """An answer that takes until the term has changed."""

    async def respond(request: web.Request) -> web.StreamResponse:
        arrived.set()
        await answer.wait()
        answered: web.StreamResponse = await at("8")(request)
        return answered

    return respond
