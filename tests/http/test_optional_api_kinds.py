"""A kind that a cluster may lack: without it everything else goes on, and it is found later."""

from __future__ import annotations

import asyncio
import random

from scheduler.model.crd import migration_codec
from scheduler.model.volumes.claim import Claim
from scheduler.state import event as ev
from scheduler.watch.client import Client
from scheduler.watch.informers import NODES, STORAGE, migration_objects
from scheduler.watch.reflector import Limits, Reflector
from tests.http.fakeapi import FakeApi, Stream, failure, listed, reply
from tests.storage import claim, claim_json

LIST, WATCH = (f"{verb} {migration_codec.path('own')}" for verb in ("GET", "WATCH"))
QUICK = Limits(pause_first_s=0.01, pause_max_s=0.02, silence_max_s=5.0, absent_s=0.01)


async def test_cluster_without_the_crd_has_no_tickets_until_it_is_installed(
    api: FakeApi, client: Client
) -> None:
    api.script(LIST, failure(404), failure(404), reply(listed("7")))
    api.script(WATCH, Stream(end="hang"))
    events: asyncio.Queue[ev.Event] = asyncio.Queue()
    warnings: list[str] = []
    watching = Reflector(
        client,
        migration_objects("own"),
        events.put_nowait,
        lambda _, problem: warnings.append(problem),
        random.Random(1),
        QUICK,
    )
    task = asyncio.create_task(watching.run())
    try:
        async with asyncio.timeout(10):
            assert await events.get() == ev.MigrationsReplaced(())
            assert watching.is_synced.is_set()
            watch = await api.next(WATCH)
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    assert watch.query["resourceVersion"] == "7"
    assert warnings == []


async def test_role_without_volumes_leaves_the_scheduler_running(
    api: FakeApi, client: Client
) -> None:
    """Of a role from before; the kind is listed as soon as the right is there."""
    path = "/api/v1/persistentvolumeclaims"
    body = {**claim_json(), "kind": "PersistentVolumeClaim"}
    refusal = failure(403, "Forbidden")
    api.script(f"GET {path}", refusal, refusal, reply(listed("7", body)))
    api.script(f"WATCH {path}", Stream(end="hang"))
    events: asyncio.Queue[ev.Event] = asyncio.Queue()
    warnings: list[str] = []
    (source,) = [one for one in STORAGE if one.kind == "persistentvolumeclaims"]
    watching = Reflector(
        client,
        source,
        events.put_nowait,
        lambda _, problem: warnings.append(problem),
        random.Random(1),
        QUICK,
    )
    task = asyncio.create_task(watching.run())
    try:
        async with asyncio.timeout(10):
            assert await events.get() == ev.StorageReplaced(Claim, ())
            assert watching.is_synced.is_set()
            await api.next(f"WATCH {path}")
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    assert len(warnings) == 1
    assert await events.get() == ev.StorageReplaced(Claim, ())
    assert await events.get() == ev.StorageReplaced(Claim, (claim(),))


async def test_a_right_that_is_lost_takes_no_object_away(api: FakeApi, client: Client) -> None:
    """What was listed stays as it was, and the watch counts as broken."""
    path = "/api/v1/persistentvolumeclaims"
    body = {**claim_json(), "kind": "PersistentVolumeClaim"}
    api.script(f"GET {path}", reply(listed("7", body)), failure(403, "Forbidden"))
    api.script(f"WATCH {path}", failure(410, "Expired"))
    events: asyncio.Queue[ev.Event] = asyncio.Queue()
    warned = asyncio.Event()
    (source,) = [one for one in STORAGE if one.kind == "persistentvolumeclaims"]
    watching = Reflector(
        client, source, events.put_nowait, lambda *_: warned.set(), random.Random(1), QUICK
    )
    task = asyncio.create_task(watching.run())
    async with asyncio.timeout(10):
        await warned.wait()
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)

    assert await events.get() == ev.StorageReplaced(Claim, (claim(),))
    assert events.empty()
    assert not watching.is_healthy


async def test_other_api_kinds_are_required(api: FakeApi, client: Client) -> None:
    api.script("GET /api/v1/nodes", failure(404))
    warned = asyncio.Event()
    watching = Reflector(
        client, NODES, lambda _: None, lambda *_: warned.set(), random.Random(1), QUICK
    )
    task = asyncio.create_task(watching.run())
    async with asyncio.timeout(10):
        await warned.wait()
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)

    assert not watching.is_synced.is_set()
