"""Copies the objects of a former version when this process becomes the leader.

A leader of a build up to commit 8db2d48 leaves MigRules and MigCuts (``model/crd/former_version``).
Before its caches are listed, the new leader creates a PodMigration for each MigRule and deletes
the MigRule, and a MigPartition for each MigCut whose node has none. A MigCut is kept: an operator
of that version may still read it. Most clusters have neither kind: two requests with the response
404.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import msgspec
import structlog

from scheduler.model.crd import former_version, mig_partition_codec, migration_codec
from scheduler.model.json_bounds import UNREADABLE
from scheduler.model.lease import LeaderTerm
from scheduler.watch.client import JSON, MERGE_PATCH, ApiError, Client, Unreachable

TIMEOUT_S = 5.0

log = structlog.get_logger("former objects")


class FormerObjects:
    """``namespace`` is our own; ``clock`` is monotonic. Without ``has_migrations`` this process has
    no right to read MigRules, and they stay as they are.
    """

    def __init__(
        self,
        client: Client,
        namespace: str,
        term: LeaderTerm,
        clock: Callable[[], float],
        *,
        has_migrations: bool = True,
    ) -> None:
        self._client = client
        self._namespace = namespace
        self._term = term
        self._clock = clock
        self._has_migrations = has_migrations

    async def adopt(self, since: float) -> float:
        """Copy them; returns the moment after which lists contain the copies, at least
        ``since``.
        """
        copied = 0
        if self._has_migrations:
            copied += await self._each(former_version.MIGRATIONS, self._adopt_migration)
        copied += await self._each(former_version.PARTITIONS, self._adopt_partitions)
        if not copied:
            return since
        log.info("objects of a former version copied", objects=copied)
        return self._clock()

    async def _each(self, plural: str, adopt: Callable[[bytes], Awaitable[bool]]) -> int:
        """Copy the objects of one kind; a failure ends the kind: nothing depends on the copies."""
        copied = 0
        try:
            listed = await self._send("GET", former_version.path(plural, self._namespace))
            for content in former_version.items(listed):
                copied += await self._adopt_one(plural, content, adopt)
        except ApiError as error:
            if error.status != 404:
                log.warning("objects of a former version not read", kind=plural, problem=str(error))
        except (Unreachable, *UNREADABLE) as error:
            log.warning("objects of a former version not read", kind=plural, problem=str(error))
        return copied

    async def _adopt_one(
        self, plural: str, content: bytes, adopt: Callable[[bytes], Awaitable[bool]]
    ) -> bool:
        try:
            return await adopt(content)
        except UNREADABLE as error:
            log.warning("object of a former version unreadable", kind=plural, problem=str(error))
            return False

    async def _adopt_migration(self, content: bytes) -> bool:
        migration = former_version.migration_of(content)
        body = migration_codec.encode(migration, self._namespace)
        await self._create(migration_codec.path(self._namespace), body)
        if migration.end is not None:
            place = migration_codec.path(self._namespace, migration.id)
            body = migration_codec.encode_end(migration.end)
            await self._send("PATCH", f"{place}/status", body, content_type=MERGE_PATCH)
        path = former_version.path(former_version.MIGRATIONS, self._namespace, migration.id)
        options = {"preconditions": {"uid": migration.uid}}
        await self._send("DELETE", path, msgspec.json.encode(options))
        return True

    async def _adopt_partitions(self, content: bytes) -> bool:
        found = former_version.partitions_of(content)
        body = mig_partition_codec.encode(
            found.node_name, found.orders, self._term.epoch, self._namespace
        )
        return await self._create(mig_partition_codec.path(self._namespace), body)

    async def _create(self, path: str, body: bytes) -> bool:
        """Whether the object is new."""
        try:
            await self._send("POST", path, body)
        except ApiError as error:
            if error.status != 409:
                raise
            return False
        return True

    async def _send(
        self, method: str, path: str, body: bytes | None = None, content_type: str = JSON
    ) -> bytes:
        return await self._client.request(
            method, path, body, content_type=content_type, timeout_s=TIMEOUT_S
        )
