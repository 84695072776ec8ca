"""Runs the errands of moves: asks about owners, writes, ends and deletes tickets, evicts.

Few at a time and each with its answer as an event. Nothing is sent once this process leads no
more: what it would have done is left in the ticket for whoever leads next.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import msgspec
import structlog

from scheduler.bind.evictor import evict
from scheduler.bind.owner_reader import PATHS, above_of, facts
from scheduler.bind.owner_types import Budget, Controller, PodNow
from scheduler.model.crd import migration_codec
from scheduler.model.crd.migration import Migration
from scheduler.model.crd.migration_actions import (
    CompleteMigration,
    CreateMigration,
    DeleteMigration,
    Errand,
    EvictPod,
    ReadOwner,
)
from scheduler.model.json_bounds import UNREADABLE
from scheduler.model.pod import Owner
from scheduler.state import event as ev
from scheduler.watch.client import MERGE_PATCH, ApiError, Client, Unreachable

WAITING_MAX = 256
WORKERS = 4

log = structlog.get_logger("moves")


class _Budgets(msgspec.Struct, frozen=True):
    items: tuple[Budget, ...] = ()


class MigrationWorker:
    """A bounded line of errands; ``namespace`` is our own, where tickets are."""

    def __init__(
        self,
        client: Client,
        namespace: str,
        emit: Callable[[ev.MoveNews], None],
        leads: Callable[[], bool],
    ) -> None:
        self._client = client
        self._namespace = namespace
        self._emit = emit
        self._leads = leads
        self._line: asyncio.Queue[Errand] = asyncio.Queue(WAITING_MAX)

    def send(self, errand: Errand) -> None:
        """Do it soon; what finds the line full is asked for again by whoever wants it."""
        if not self._line.full():
            self._line.put_nowait(errand)

    async def run(self) -> None:
        """Work for ever; ends by cancellation."""
        async with asyncio.TaskGroup() as group:
            for number in range(WORKERS):
                group.create_task(self._work(), name=f"errands {number}")

    async def _work(self) -> None:
        while True:
            errand = await self._line.get()
            if not self._leads():
                continue
            match errand:
                case ReadOwner():
                    self._emit(await self._asked(errand))
                case CreateMigration(ticket):
                    await self._write(ticket)
                case EvictPod():
                    self._emit(await evict(self._client, errand))
                case CompleteMigration():
                    await self._close(errand)
                case DeleteMigration(ticket):
                    await self._erase(ticket)

    async def _write(self, ticket: Migration) -> None:
        """No answer is no "no": the watch will tell."""
        path, body = (
            migration_codec.path(self._namespace),
            migration_codec.encode(ticket, self._namespace),
        )
        try:
            await self._client.request("POST", path, body)
        except ApiError as error:
            if error.status != 409:
                log.warning("a ticket could not be written", ticket=ticket.id, problem=str(error))
                self._emit(ev.MigrationWriteFailed(ticket.id, error.message))
        except Unreachable as error:
            log.warning("no answer about a ticket", ticket=ticket.id, problem=str(error))

    async def _close(self, close: CompleteMigration) -> None:
        """Where ends cannot be written down yet (an older kind or role), the ticket is deleted."""
        ticket = close.ticket
        path = f"{migration_codec.path(self._namespace, ticket.id)}/status"
        body = migration_codec.encode_end(close.end)
        try:
            await self._client.request("PATCH", path, body, content_type=MERGE_PATCH)
        except ApiError as error:
            log.warning("a move's end was not written", ticket=ticket.id, problem=str(error))
            if error.status in (403, 404):
                await self._erase(ticket)
        except Unreachable as error:
            log.warning("no answer about a ticket", ticket=ticket.id, problem=str(error))

    async def _erase(self, ticket: Migration) -> None:
        """A ticket that is left over is deleted by whoever finds it again."""
        path = migration_codec.path(self._namespace, ticket.id)
        body = {
            "apiVersion": "v1",
            "kind": "DeleteOptions",
            "preconditions": {"uid": ticket.uid},
        }
        try:
            await self._client.request("DELETE", path, msgspec.json.encode(body))
        except ApiError as error:
            if error.status not in (404, 409):
                log.warning("a ticket was not deleted", ticket=ticket.id, problem=str(error))
        except Unreachable as error:
            log.warning("no answer about a ticket", ticket=ticket.id, problem=str(error))

    async def _asked(self, ask: ReadOwner) -> ev.OwnerRead:
        try:
            owner = await self._controller(ask.namespace, ask.owner)
            above_owner = above_of(owner) if owner is not None else None
            above = await self._controller(ask.namespace, above_owner)
            pod = await self._read(
                f"/api/v1/namespaces/{ask.namespace}/pods/{ask.pod_name}", PodNow, PodNow()
            )
            budgets = await self._read(
                f"/apis/policy/v1/namespaces/{ask.namespace}/poddisruptionbudgets",
                _Budgets,
                _Budgets(),
            )
            found = facts(ask, owner, above, pod, budgets.items)
        except (ApiError, Unreachable, *UNREADABLE) as error:
            log.warning("an owner could not be read", pod=ask.pod_name, problem=str(error))
            return ev.OwnerRead(ask.pod_uid, ask.ticket_id, None)
        return ev.OwnerRead(ask.pod_uid, ask.ticket_id, found)

    async def _controller(self, namespace: str, owner: Owner | None) -> Controller | None:
        if owner is None or owner.word not in PATHS:
            return None
        path = PATHS[owner.kind].format(namespace, owner.name)
        found: Controller | None = await self._read(path, Controller, None)
        return found

    async def _read(self, path: str, kind: type[Any], missing: Any) -> Any:
        """One object, or what stands for one that is not there."""
        try:
            return msgspec.json.decode(await self._client.request("GET", path), type=kind)
        except ApiError as error:
            if error.status == 404:
                return missing
            raise
