"""Writes what binds a pod's claims: a volume's claim, and the node of a claim to be provisioned.

Every write names the version that was decided on, so that a change by any other program makes it
fail instead of overwriting that change; the PV controller and the provisioner do the rest
(``bindAPIUpdate`` of kube-scheduler's volumebinding). Nothing is taken back: the next decision sees
what was written. What waits longer than the term of its decision is not sent: another leader may
have given the claim another volume, and a volume that it did not take has its version still.
"""

from __future__ import annotations

import asyncio
from typing import Final

import msgspec
import structlog

from scheduler.bind.binder import PAUSE_FIRST_S
from scheduler.bind.busy_server import NotLeading, repeat_while_busy
from scheduler.model import well_known
from scheduler.model.actions import GiveVolume, SelectNode, WriteVolumes
from scheduler.model.json_bounds import UNREADABLE
from scheduler.model.lease import DecisionTerm, LeaderTerm
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
        self._queue: asyncio.Queue[tuple[WriteVolumes, DecisionTerm]] = asyncio.Queue()

    def send(self, action: WriteVolumes) -> None:
        """Write soon, in the current term; the result comes back as an event."""
        self._queue.put_nowait((action, DecisionTerm(self._term)))

    async def run(self) -> None:
        """Work for ever; ends by cancellation."""
        async with asyncio.TaskGroup() as group:
            for number in range(WORKERS):
                group.create_task(self._work(), name=f"volumes {number}")

    async def _work(self) -> None:
        while True:
            self._inbox.enqueue(await self._write_all(*await self._queue.get()))

    async def _write_all(self, action: WriteVolumes, term: DecisionTerm) -> VolumesWritten:
        """Write one object after the other, until one fails."""
        written: tuple[tuple[str, str], ...] = ()
        for change in action.changes:
            try:
                written += ((change.key, await self._write(change, term)),)
            except NotLeading:
                return VolumesWritten(action.uid, action.attempt, written, is_unsent=True)
            except (ApiError, Unreachable, *UNREADABLE) as error:
                said = error.message if isinstance(error, ApiError) else str(error)
                log.warning("volume not written", object=change.key, problem=said)
                problem = f"{change.key}: {said}"
                return VolumesWritten(action.uid, action.attempt, written, problem)
        return VolumesWritten(action.uid, action.attempt, written)

    async def _write(self, change: GiveVolume | SelectNode, term: DecisionTerm) -> str:
        """The version of the written object; a server that is busy is asked again."""
        path, body = encode(change)
        content = await repeat_while_busy(
            lambda: self._client.request("PATCH", path, body, content_type=MERGE_PATCH),
            term.lasts,
            tries=TRIES,
            pause_first_s=self._pause_first_s,
        )
        return msgspec.json.decode(content, type=_Written).metadata.resource_version


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
