"""Writes which MIG instances a node must have, and which MIG configuration mig-manager applies.

The instances are written into the node's object ``migpartitions.gpu-scheduler.io``. Only the newest
request for a node is sent. Each carries the term of the lease, and the API server refuses the
requests of another term (cluster/fencing-policy.yaml).

The configuration is a label of the node; it needs cluster/rbac-relabel.yaml. The node's version is
no precondition, because kubelets write to it all the time: the scheduler itself makes sure that no
pod has a GPU of the node.
"""

from __future__ import annotations

import asyncio

import msgspec
import structlog

from scheduler.model import well_known
from scheduler.model.actions import RequestPartitions, SetMigConfig
from scheduler.model.crd import mig_partition_codec
from scheduler.model.lease import LeaderTerm
from scheduler.state.event import PartitionsWriteFailed
from scheduler.watch.client import MERGE_PATCH, ApiError, Client, Unreachable
from scheduler.watch.inbox import Inbox

WORKERS = 4

log = structlog.get_logger("mig-partition")


class PartitionWriter:
    """Sends requests in the background; ``namespace`` is our own."""

    def __init__(self, client: Client, namespace: str, inbox: Inbox, term: LeaderTerm) -> None:
        self._client = client
        self._namespace = namespace
        self._inbox = inbox
        self._term = term
        self._newest: dict[str, RequestPartitions] = {}
        self._queue: asyncio.Queue[str | SetMigConfig] = asyncio.Queue()
        self._busy: set[str] = set()

    def send(self, action: RequestPartitions | SetMigConfig) -> None:
        """Enqueue a request; a request for instances replaces an unsent one for the same node."""
        if isinstance(action, SetMigConfig):
            self._queue.put_nowait(action)
            return
        name = action.node_name
        if name not in self._newest and name not in self._busy:
            self._queue.put_nowait(name)
        self._newest[name] = action

    async def run(self) -> None:
        """Run until cancelled."""
        async with asyncio.TaskGroup() as group:
            for number in range(WORKERS):
                group.create_task(self._work(), name=f"mig {number}")

    async def _work(self) -> None:
        while True:
            item = await self._queue.get()
            if isinstance(item, str):
                await self._request_all(item)
            elif self._term.leads():
                await self._set_label(item)

    async def _request_all(self, node_name: str) -> None:
        self._busy.add(node_name)
        while (request := self._newest.pop(node_name, None)) is not None:
            if self._term.leads():
                await self._request(request)
        self._busy.discard(node_name)

    async def _request(self, request: RequestPartitions) -> None:
        node_name = request.node_name
        try:
            await self._patch(request)
        except (ApiError, Unreachable) as error:
            message = error.message if isinstance(error, ApiError) else str(error)
            log.warning("MigPartition not written", node=node_name, problem=message)
            self._inbox.enqueue(PartitionsWriteFailed(node_name, message))

    async def _patch(self, request: RequestPartitions) -> None:
        epoch, namespace = self._term.epoch, self._namespace
        body = mig_partition_codec.encode_spec(request.requests, epoch)
        path = mig_partition_codec.path(namespace, request.node_name)
        try:
            await self._client.request("PATCH", path, body, content_type=MERGE_PATCH)
        except ApiError as error:
            if error.status != 404:
                raise
            body = mig_partition_codec.encode(request.node_name, request.requests, epoch, namespace)
            await self._client.request("POST", mig_partition_codec.path(namespace), body)

    async def _set_label(self, action: SetMigConfig) -> None:
        """Patch both labels at once; after a failure the controller uses the node again."""
        labels = {well_known.MIG_WANTED: action.config, well_known.MIG_STATE: "pending"}
        body = msgspec.json.encode({"metadata": {"labels": labels}})
        path = f"/api/v1/nodes/{action.node_name}"
        try:
            await self._client.request("PATCH", path, body, content_type=MERGE_PATCH)
        except (ApiError, Unreachable) as error:
            log.warning("node label not written", node=action.node_name, problem=str(error))
