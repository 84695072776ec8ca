"""A kind that a cluster may lack: without it everything else goes on, and it is found later."""

from __future__ import annotations

import asyncio
import random

import pytest

from scheduler.model.crd import migration_codec
from scheduler.model.dra.resource_slice import DeviceTaintRule
from scheduler.model.volumes.claim import Claim
from scheduler.state import event as ev
from scheduler.watch.client import Client
from scheduler.watch.informers import DRA, NODES, STORAGE, migration_objects
from scheduler.watch.reflector import Limits, Reflector, WatchSource
from tests.dra import rule_json, taint_rule
from tests.http.fakeapi import FakeApi, Stream, failure, listed, reply
from tests.patience import PATIENCE_S
from tests.storage import claim, claim_json

LIST, WATCH = (f"{verb} {migration_codec.path('own')}" for verb in ("GET", "WATCH"))
(RULES,) = [one for one in DRA if one.kind == "devicetaintrules"]
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
        async with asyncio.timeout(PATIENCE_S):
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
        async with asyncio.timeout(PATIENCE_S):
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
    async with asyncio.timeout(PATIENCE_S):
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
    async with asyncio.timeout(PATIENCE_S):
        await warned.wait()
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)

    assert not watching.is_synced.is_set()


@pytest.mark.parametrize("status", [404, 403], ids=["not-served", "no-right"])
@pytest.mark.parametrize("source", DRA, ids=lambda one: one.kind)
async def test_cluster_without_dra_has_no_objects_of_it(
    api: FakeApi, client: Client, source: WatchSource[ev.Event], status: int
) -> None:
    """Claims are vital, and a kind that is not there is complete."""
    api.script(f"GET {source.path}", failure(status))
    events: asyncio.Queue[ev.Event] = asyncio.Queue()
    watching = Reflector(
        client, source, events.put_nowait, lambda *_: None, random.Random(1), QUICK
    )
    task = asyncio.create_task(watching.run())
    async with asyncio.timeout(PATIENCE_S):
        first = await events.get()
        await events.get()  # it is asked for again
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)

    assert isinstance(first, ev.DraReplaced)
    assert first.items == ()
    assert watching.is_synced.is_set()
    assert watching.is_healthy
    assert watching.is_vital is (source.kind == "resourceclaims")


@pytest.mark.parametrize("at", [0, 1, 2], ids=["v1", "v1beta2", "v1alpha3"])
async def test_taint_rules_are_read_in_the_newest_served_version(
    api: FakeApi, client: Client, at: int
) -> None:
    paths = [RULES.path, *RULES.older_paths]
    for path in paths[at:]:
        api.script(f"GET {path}", reply(listed("7", rule_json(device="a"))))
        api.script(f"WATCH {path}", Stream(end="hang"))
    events: asyncio.Queue[ev.Event] = asyncio.Queue()
    watching = Reflector(client, RULES, events.put_nowait, lambda *_: None, random.Random(1), QUICK)
    task = asyncio.create_task(watching.run())
    try:
        assert await events.get() == ev.DraReplaced(DeviceTaintRule, (taint_rule(device="a"),))
        await api.next(f"WATCH {paths[at]}")
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def test_taint_rules_are_found_in_the_version_after_an_upgrade(
    api: FakeApi, client: Client
) -> None:
    """The server of before had them in v1beta2 only, and the new one does not serve that."""
    older = RULES.older_paths[0]
    api.script(f"GET {RULES.path}", failure(404), reply(listed("8", rule_json(device="b"))))
    api.script(f"GET {older}", reply(listed("7", rule_json(device="a"))))
    api.script(f"WATCH {older}", failure(404))
    api.script(f"WATCH {RULES.path}", Stream(end="hang"))
    events: asyncio.Queue[ev.Event] = asyncio.Queue()
    watching = Reflector(client, RULES, events.put_nowait, lambda *_: None, random.Random(1), QUICK)
    task = asyncio.create_task(watching.run())
    try:
        async with asyncio.timeout(PATIENCE_S):
            assert await events.get() == ev.DraReplaced(DeviceTaintRule, (taint_rule(device="a"),))
            assert await events.get() == ev.DraReplaced(DeviceTaintRule, (taint_rule(device="b"),))
            await api.next(f"WATCH {RULES.path}")
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def test_a_missing_right_on_taint_rules_is_asked_in_one_version(
    api: FakeApi, client: Client
) -> None:
    api.script(f"GET {RULES.path}", failure(403, "Forbidden"))
    events: asyncio.Queue[ev.Event] = asyncio.Queue()
    watching = Reflector(client, RULES, events.put_nowait, lambda *_: None, random.Random(1), QUICK)
    task = asyncio.create_task(watching.run())
    async with asyncio.timeout(PATIENCE_S):
        await events.get()
        await events.get()
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)

    assert {seen.path for seen in api.seen} == {RULES.path}
