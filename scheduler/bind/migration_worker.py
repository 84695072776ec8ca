"""Runs the actions of migrations: reads owners, writes PodMigrations, evicts pods.

A few actions run at a time, and the result of each is an event. Nothing is sent after this process
lost the lease: the next leader resumes every migration from its PodMigration.
"""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec
import structlog

from scheduler.bind.evictor import evict
from scheduler.bind.owner_reader import PATHS, Budget, Controller, PodNow, above_of, facts
from scheduler.model.crd import migration_codec
from scheduler.model.crd.migration import Migration
from scheduler.model.crd.migration_actions import (
    CompleteMigration,
    CreateMigration,
    DeleteMigration,
    EvictPod,
    MigrationAction,
    ReadOwner,
)
from scheduler.model.json_bounds import UNREADABLE
from scheduler.model.lease import LeaderTerm
from scheduler.model.pods.pod import Owner
from scheduler.state import event as ev
from scheduler.watch.client import MERGE_PATCH, ApiError, Client, Unreachable
from scheduler.watch.inbox import Inbox

WAITING_MAX = 256
WORKERS = 4

log = structlog.get_logger("migration")


class _Budgets(msgspec.Struct, frozen=True):
    items: tuple[Budget, ...] = ()


class MigrationWorker:
    """A bounded queue of actions; ``namespace`` is our own, which has the migration objects."""

    def __init__(self, client: Client, namespace: str, inbox: Inbox, term: LeaderTerm) -> None:
        self._client = client
        self._namespace = namespace
        self._inbox = inbox
        self._term = term
        self._queue: asyncio.Queue[MigrationAction] = asyncio.Queue(WAITING_MAX)

    def send(self, action: MigrationAction) -> None:
        """Enqueue an action; if the queue is full it is dropped, and its controller repeats it."""
        if not self._queue.full():
            self._queue.put_nowait(action)

    async def run(self) -> None:
        """Run until cancelled."""
        async with asyncio.TaskGroup() as group:
            for number in range(WORKERS):
                group.create_task(self._work(), name=f"migration {number}")

    async def _work(self) -> None:
        while True:
            action = await self._queue.get()
            if not self._term.leads():
                self._answer_unsent(action)
                continue
            match action:
                case ReadOwner():
                    self._inbox.enqueue(await self._read_owner(action))
                case CreateMigration(migration):
                    await self._create(migration)
                case EvictPod():
                    self._inbox.enqueue(await evict(self._client, action))
                case CompleteMigration():
                    await self._complete(action)
                case DeleteMigration(migration):
                    await self._delete(migration)

    def _answer_unsent(self, action: MigrationAction) -> None:
        """The planner waits for the answer to a read; controllers repeat the other requests."""
        if isinstance(action, ReadOwner):
            unsent = ev.OwnerRead(action.pod_uid, action.migration_id, None, is_sent=False)
            self._inbox.enqueue(unsent)

    async def _create(self, migration: Migration) -> None:
        """Without a response the object may exist: the watch will show it."""
        path = migration_codec.path(self._namespace)
        body = migration_codec.encode(migration, self._namespace)
        try:
            await self._client.request("POST", path, body)
        except ApiError as error:
            if error.status != 409:
                log.warning("PodMigration not created", migration=migration.id, problem=str(error))
                self._inbox.enqueue(ev.MigrationWriteFailed(migration.id, error.message))
        except Unreachable as error:
            _no_answer(migration, error)

    async def _complete(self, action: CompleteMigration) -> None:
        """An object without a status (an older kind or role) is deleted instead."""
        migration = action.migration
        path = f"{migration_codec.path(self._namespace, migration.id)}/status"
        body = migration_codec.encode_end(action.end)
        try:
            await self._client.request("PATCH", path, body, content_type=MERGE_PATCH)
        except ApiError as error:
            log.warning(
                "PodMigration status not written", migration=migration.id, problem=str(error)
            )
            if error.status in (403, 404):
                await self._delete(migration)
        except Unreachable as error:
            _no_answer(migration, error)

    async def _delete(self, migration: Migration) -> None:
        """The controller deletes an object again if it still exists."""
        path = migration_codec.path(self._namespace, migration.id)
        body = {
            "apiVersion": "v1",
            "kind": "DeleteOptions",
            "preconditions": {"uid": migration.uid},
        }
        try:
            await self._client.request("DELETE", path, msgspec.json.encode(body))
        except ApiError as error:
            if error.status not in (404, 409):
                log.warning("PodMigration not deleted", migration=migration.id, problem=str(error))
        except Unreachable as error:
            _no_answer(migration, error)

    async def _read_owner(self, action: ReadOwner) -> ev.OwnerRead:
        try:
            owner = await self._controller(action.namespace, action.owner)
            above_owner = above_of(owner) if owner is not None else None
            above = await self._controller(action.namespace, above_owner)
            pod = await self._read(
                f"/api/v1/namespaces/{action.namespace}/pods/{action.pod_name}", PodNow, PodNow()
            )
            budgets = await self._read(
                f"/apis/policy/v1/namespaces/{action.namespace}/poddisruptionbudgets",
                _Budgets,
                _Budgets(),
            )
            read = facts(action, owner, above, pod, budgets.items)
        except (ApiError, Unreachable, *UNREADABLE) as error:
            log.warning("owner not read", pod=action.pod_name, problem=str(error))
            is_busy = (
                error.is_busy if isinstance(error, ApiError) else isinstance(error, Unreachable)
            )
            return ev.OwnerRead(action.pod_uid, action.migration_id, None, is_busy=is_busy)
        return ev.OwnerRead(action.pod_uid, action.migration_id, read)

    async def _controller(self, namespace: str, owner: Owner | None) -> Controller | None:
        if owner is None or owner.word not in PATHS:
            return None
        path = PATHS[owner.kind].format(namespace, owner.name)
        controller: Controller | None = await self._read(path, Controller, None)
        return controller

    async def _read(self, path: str, kind: type[Any], missing: Any) -> Any:
        """One object, or a substitute if it does not exist."""
        try:
            return msgspec.json.decode(await self._client.request("GET", path), type=kind)
        except ApiError as error:
            if error.status == 404:
                return missing
            raise


def _no_answer(migration: Migration, error: Unreachable) -> None:
    log.warning("no answer to PodMigration request", migration=migration.id, problem=str(error))
