"""Writes the condition of PodGroups of the API server, in the API version that it serves.

The group's uid and version are preconditions: a group that was created again, or that a newer
leader has written, is not changed. A refused write is not repeated here, since the controller asks
again while the watch shows another condition.
"""

from __future__ import annotations

import asyncio
from typing import Final

import msgspec
import structlog

from scheduler.model import well_known
from scheduler.model.actions import WriteGroupState
from scheduler.model.lease import LeaderTerm
from scheduler.watch.client import STRATEGIC_PATCH, ApiError, Client, Unreachable

WORKERS: Final = 4
PATH: Final = "/apis/scheduling.k8s.io/{}/namespaces/{}/podgroups/{}/status"
NOT_FOUND, CONFLICT = 404, 409

log = structlog.get_logger("pod-groups")


class GroupWriter:
    """Sends conditions in the background; only while this process leads."""

    def __init__(self, client: Client, term: LeaderTerm) -> None:
        self._client = client
        self._term = term
        self._queue: asyncio.Queue[WriteGroupState] = asyncio.Queue()

    def send(self, action: WriteGroupState) -> None:
        """Enqueue a condition."""
        self._queue.put_nowait(action)

    async def run(self) -> None:
        """Run until cancelled."""
        async with asyncio.TaskGroup() as group:
            for number in range(WORKERS):
                group.create_task(self._work(), name=f"pod groups {number}")

    async def _work(self) -> None:
        while True:
            action = await self._queue.get()
            if not self._term.leads():
                continue
            try:
                await self._write(action)
            except (ApiError, Unreachable) as error:
                if not isinstance(error, ApiError) or error.status != CONFLICT:
                    key = f"{action.group.namespace}/{action.group.name}"
                    log.warning("PodGroup condition not written", group=key, problem=str(error))

    async def _write(self, action: WriteGroupState) -> None:
        group, body = action.group, encode(action)
        for version in well_known.API_GROUP_VERSIONS:
            path = PATH.format(version, group.namespace, group.name)
            try:
                await self._client.request("PATCH", path, body, content_type=STRATEGIC_PATCH)
            except ApiError as error:
                if error.status != NOT_FOUND:
                    raise
            else:
                return


def encode(action: WriteGroupState) -> bytes:
    """The patch of the group's status."""
    group, state = action.group, action.state
    entry = {
        "type": well_known.GROUP_SCHEDULED,
        "status": str(state.is_scheduled),
        "reason": state.reason,
        "message": state.message,
        "lastTransitionTime": state.since,
    }
    meta = {"uid": group.uid, "resourceVersion": group.version}
    return msgspec.json.encode({"metadata": meta, "status": {"conditions": [entry]}})
