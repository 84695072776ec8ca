"""Actions of migrations over real HTTP: the requests, and the event of each answer."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, NamedTuple

import pytest

from scheduler.bind.migration_worker import WAITING_MAX, MigrationWorker
from scheduler.model.crd import migration_codec
from scheduler.model.crd.migration_actions import (
    CompleteMigration,
    CreateMigration,
    DeleteMigration,
    EvictPod,
    MigrationAction,
    read_owner_for,
)
from scheduler.model.crd.migration_result import MigrationEnd, MigrationResult
from scheduler.state import event as ev
from scheduler.state.event import Eviction
from scheduler.watch.client import Client
from tests.builders import restoring
from tests.http.fakeapi import FakeApi, Json, failure, reply
from tests.http.shells import Heard
from tests.unit.loop.loop_world import Leader

TICKET = restoring("restore-1-00000001", uid="u-t")
EVICTION = "POST /api/v1/namespaces/team/pods/web-x/eviction"
TICKETS = migration_codec.path("own")
DONE = MigrationEnd(MigrationResult.SUCCEEDED, 0.0)
BUDGET = "Cannot evict pod as it would violate the pod's disruption budget."


class Scene(NamedTuple):
    """A running worker, its inbox and its election."""

    worker: MigrationWorker
    inbox: Heard
    leader: Leader


@asynccontextmanager
async def running(client: Client) -> AsyncIterator[Scene]:
    inbox, leader = Heard(), Leader()
    worker = MigrationWorker(client, "own", inbox, leader)
    task = asyncio.create_task(worker.run())
    yield Scene(worker, inbox, leader)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


@pytest.mark.parametrize(
    ("code", "message", "result"),
    [
        pytest.param(201, "", Eviction.EVICTED, id="evicted"),
        pytest.param(404, "not found", Eviction.GONE, id="gone"),
        pytest.param(409, "the uid is another", Eviction.GONE, id="another-pod-by-now"),
        pytest.param(429, BUDGET, Eviction.FORBIDDEN, id="budget"),
        pytest.param(429, "too many requests", Eviction.FAILED, id="busy-server"),
        pytest.param(500, "several budgets", Eviction.FAILED, id="several-budgets"),
        pytest.param(403, "not now", Eviction.FAILED, id="denied"),
    ],
)
async def test_eviction_results(
    api: FakeApi, client: Client, code: int, message: str, result: Eviction
) -> None:
    api.script(EVICTION, failure(code, "", message) if code >= 400 else reply({}))
    async with running(client) as scene:
        scene.worker.send(EvictPod(TICKET))

        assert await scene.inbox.next() == ev.EvictionEnded(TICKET.id, result, message)

    sent = await api.next(EVICTION)
    assert sent.json["deleteOptions"]["preconditions"] == {"uid": "u-p"}


@pytest.mark.contract("S3-21")
async def test_eviction_keeps_the_grace_period_and_may_name_its_version(
    api: FakeApi, client: Client
) -> None:
    api.script(EVICTION, reply({}))
    async with running(client) as scene:
        scene.worker.send(EvictPod(TICKET, version="42"))
        await scene.inbox.next()

    options = (await api.next(EVICTION)).json["deleteOptions"]
    assert "gracePeriodSeconds" not in options
    assert options["preconditions"] == {"uid": "u-p", "resourceVersion": "42"}


async def test_refused_ticket_is_reported_and_a_timeout_is_not(
    api: FakeApi, client: Client
) -> None:
    api.script(f"POST {TICKETS}", failure(422, "", "spec.change is too long"))
    async with running(client) as scene:
        scene.worker.send(CreateMigration(TICKET))

        assert await scene.inbox.next() == ev.MigrationWriteFailed(
            TICKET.id, "spec.change is too long"
        )
    assert migration_codec.decode((await api.next(f"POST {TICKETS}")).body).id == TICKET.id


async def test_a_ticket_is_deleted_by_its_uid(api: FakeApi, client: Client) -> None:
    call = f"DELETE {TICKETS}/{TICKET.id}"
    api.script(call, reply({}))
    async with running(client) as scene:
        scene.worker.send(DeleteMigration(TICKET))

        assert (await api.next(call)).json["preconditions"] == {"uid": "u-t"}


@pytest.mark.parametrize(
    ("code", "is_deleted"),
    [
        pytest.param(200, False, id="written"),
        pytest.param(404, True, id="a-kind-without-status"),
        pytest.param(403, True, id="a-role-without-it"),
        pytest.param(409, False, id="another-ticket-by-now"),
        pytest.param(422, False, id="another-end-stands-there"),
        pytest.param(500, False, id="said-again-later"),
    ],
)
async def test_result_is_written_or_else_the_ticket_is_deleted(
    api: FakeApi, client: Client, code: int, is_deleted: bool
) -> None:
    call = f"PATCH {TICKETS}/{TICKET.id}/status"
    api.script(call, failure(code) if code >= 400 else reply({}))
    api.script(f"DELETE {TICKETS}/{TICKET.id}", reply({}))
    api.script(EVICTION, reply({}))
    async with running(client) as scene:
        scene.worker.send(CompleteMigration(TICKET, DONE))
        sent = await api.next(call)
        if is_deleted:
            await api.next(f"DELETE {TICKETS}/{TICKET.id}")
        scene.worker.send(EvictPod(TICKET))
        await scene.inbox.next()

    assert sent.json["status"] == {
        "result": "Succeeded",
        "completionTime": "1970-01-01T00:00:00Z",
        "message": "",
    }
    assert [seen.method for seen in api.seen].count("DELETE") == int(is_deleted)


def owners(**more: Any) -> dict[str, Json]:
    """What the API server has about a Deployment's pod."""
    above = {"kind": "Deployment", "name": "web", "uid": "Deployment-web", "controller": True}
    base = "/apis/apps/v1/namespaces/team"
    return {
        f"GET {base}/replicasets/web-r1": {
            "metadata": {"uid": "ReplicaSet-web-r1", "ownerReferences": [above]},
            "spec": {"replicas": 2},
            "status": {"replicas": 2, "readyReplicas": 2},
        },
        f"GET {base}/deployments/web": {
            "metadata": {"uid": "Deployment-web"},
            "spec": {"replicas": 2},
            "status": {"replicas": 2, "updatedReplicas": 2},
        },
        "GET /apis/policy/v1/namespaces/team/poddisruptionbudgets": {"items": []},
        **more,
    }


async def test_owner_chain_is_read_although_the_pod_is_gone(api: FakeApi, client: Client) -> None:
    for call, body in owners().items():
        api.script(call, reply(body))
    api.script("GET /api/v1/namespaces/team/pods/web-x", failure(404))
    async with running(client) as scene:
        scene.worker.send(read_owner_for(TICKET))
        told = await scene.inbox.next()

    assert isinstance(told, ev.OwnerRead)
    assert told.facts is not None
    assert (told.migration_id, told.facts.event_target.name, told.facts.replicas) == (
        TICKET.id,
        "web",
        2,
    )
    assert not told.facts.is_owner_gone


@pytest.mark.contract("S3-B20")
async def test_failed_read_is_not_a_deleted_owner(api: FakeApi, client: Client) -> None:
    for call, body in owners().items():
        api.script(call, reply(body))
    api.script("GET /api/v1/namespaces/team/pods/web-x", failure(500))
    async with running(client) as scene:
        scene.worker.send(read_owner_for(TICKET))

        assert await scene.inbox.next() == ev.OwnerRead("u-p", TICKET.id, None, is_busy=True)


async def test_refused_read_is_not_repeated_soon(api: FakeApi, client: Client) -> None:
    for call, body in owners().items():
        api.script(call, reply(body))
    api.script("GET /api/v1/namespaces/team/pods/web-x", failure(403))
    async with running(client) as scene:
        scene.worker.send(read_owner_for(TICKET))

        assert await scene.inbox.next() == ev.OwnerRead("u-p", TICKET.id, None)


async def test_read_that_was_not_sent_is_answered(api: FakeApi, client: Client) -> None:
    """The planner waits for an answer for half a minute."""
    async with running(client) as scene:
        scene.leader.is_leading = False
        scene.worker.send(read_owner_for(TICKET))

        assert await scene.inbox.next() == ev.OwnerRead("u-p", TICKET.id, None, is_sent=False)
    assert api.seen == []


@pytest.mark.parametrize(
    "action",
    [
        CreateMigration(TICKET),
        EvictPod(TICKET),
        CompleteMigration(TICKET, DONE),
        DeleteMigration(TICKET),
        read_owner_for(TICKET),
    ],
)
async def test_former_leader_sends_nothing(
    api: FakeApi, client: Client, action: MigrationAction
) -> None:
    api.script(EVICTION, reply({}))
    async with running(client) as scene:
        scene.leader.is_leading = False
        scene.worker.send(action)
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        scene.leader.is_leading = True
        scene.worker.send(EvictPod(TICKET))
        while not isinstance(await scene.inbox.next(), ev.EvictionEnded):
            pass

    assert [seen.path for seen in api.seen] == ["/api/v1/namespaces/team/pods/web-x/eviction"]


async def test_full_queue_drops_repeatable_actions(api: FakeApi, client: Client) -> None:
    api.script(EVICTION, reply({}))
    inbox = Heard()
    worker = MigrationWorker(client, "own", inbox, Leader())
    for _ in range(WAITING_MAX + 10):
        worker.send(EvictPod(TICKET))

    task = asyncio.create_task(worker.run())
    for _ in range(WAITING_MAX):
        await inbox.next()
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)

    assert len(api.seen) == WAITING_MAX
