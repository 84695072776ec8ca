"""Writes what binds a pod's claims: a volume's claim, and the node of a claim to be provisioned.

Every write names the version that was decided on, so that a change by any other program makes it
fail instead of overwriting that change; the PV controller and the provisioner do the rest
(``bindAPIUpdate`` of kube-scheduler's volumebinding). Nothing is taken back: the next decision sees
what was written.
"""

from __future__ import annotations

import asyncio
from typing import Final

import msgspec
import structlog

from scheduler.bind.binder import BUSY, PAUSE_FIRST_S
from scheduler.model import well_known
from scheduler.model.actions import GiveVolume, SelectNode, WriteVolumes
from scheduler.model.json_bounds import UNREADABLE
from scheduler.model.lease import LeaderTerm
from scheduler.state.event import VolumesWritten
from scheduler.watch.client import MERGE_PATCH, ApiError, Client, Unreachable
from scheduler.watch.inbox import Inbox

WORKERS: Final = 16
TRIES: Final = 4

log = structlog.get_logger("volumes")


class _Metadata(msgspec.Struct, rename="camel"):
    resource_version: str


class _Written(msgspec.Struct):
    metadata: _Metadata


class _NotLeading(Exception):
    """This process does not lead any more."""


class VolumeBinder:
    """Writes in the background, one pod's volumes in order; results go to the inbox."""

    def __init__(
        self,
        client: Client,
        inbox: Inbox,
        term: LeaderTerm,
        pause_first_s: float = PAUSE_FIRST_S,
    ) -> None:
        self._client = client
        self._inbox = inbox
        self._term = term
        self._pause_first_s = pause_first_s
        self._queue: asyncio.Queue[WriteVolumes] = asyncio.Queue()

    def send(self, action: WriteVolumes) -> None:
        """Write soon; the result comes back as an event."""
        self._queue.put_nowait(action)

    async def run(self) -> None:
        """Work for ever; ends by cancellation."""
        async with asyncio.TaskGroup() as group:
            for number in range(WORKERS):
                group.create_task(self._work(), name=f"volumes {number}")

    async def _work(self) -> None:
        while True:
            action = await self._queue.get()
            self._inbox.enqueue(await self._write_all(action))

    async def _write_all(self, action: WriteVolumes) -> VolumesWritten:
        """Write one object after the other, until one fails."""
        written: tuple[tuple[str, str], ...] = ()
        for change in action.changes:
            try:
                written += ((change.key, await self._write(change)),)
            except _NotLeading:
                return VolumesWritten(action.uid, action.attempt, written, is_unsent=True)
            except (ApiError, Unreachable, *UNREADABLE) as error:
                said = error.message if isinstance(error, ApiError) else str(error)
                log.warning("volume not written", object=change.key, problem=said)
                problem = f"{change.key}: {said}"
                return VolumesWritten(action.uid, action.attempt, written, problem)
        return VolumesWritten(action.uid, action.attempt, written)

    async def _write(self, change: GiveVolume | SelectNode) -> str:
        """The version of the written object; a server that is busy is asked again."""
        path, body = encode(change)
        attempt = 0
        while True:
            if not self._term.leads():
                raise _NotLeading
            try:
                content = await self._client.request("PATCH", path, body, content_type=MERGE_PATCH)
                return msgspec.json.decode(content, type=_Written).metadata.resource_version
            except (ApiError, Unreachable) as error:
                attempt += 1
                is_busy = isinstance(error, Unreachable) or error.status in BUSY
                if not is_busy or attempt == TRIES:
                    raise
                await asyncio.sleep(self._pause_first_s * 2**attempt)


def encode(change: GiveVolume | SelectNode) -> tuple[str, bytes]:
    """Path and body of a merge patch; uid and version are preconditions."""
    if isinstance(change, GiveVolume):
        metadata: dict[str, object] = {"resourceVersion": change.version}
        if change.is_ours:
            metadata["annotations"] = {well_known.BOUND_BY_CONTROLLER: "yes"}
        reference = {
            "apiVersion": "v1",
            "kind": "PersistentVolumeClaim",
            "namespace": change.namespace,
            "name": change.claim,
            "uid": change.claim_uid,
            "resourceVersion": change.claim_version,
        }
        path = f"/api/v1/persistentvolumes/{change.volume}"
        return path, msgspec.json.encode({"metadata": metadata, "spec": {"claimRef": reference}})
    path = f"/api/v1/namespaces/{change.namespace}/persistentvolumeclaims/{change.claim}"
    metadata = {
        "uid": change.claim_uid,
        "resourceVersion": change.version,
        "annotations": {well_known.SELECTED_NODE: change.node_name},
    }
    return path, msgspec.json.encode({"metadata": metadata})
