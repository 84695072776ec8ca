"""Writes which MIG instances a node must have, into its object ``migcuts.gpu-scheduler.io``.

Only the newest word for a node counts, so one that is overtaken is never sent. Each carries the
term of the lease, and the API server refuses another term's (cluster/fencing-policy.yaml).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import structlog

from scheduler.bind.mig_config_writer import set_label
from scheduler.decide.mig.config_change import Relabel
from scheduler.model.crd import mig_partition_codec
from scheduler.model.crd.mig_partition import PartitionRequest
from scheduler.state.event import PartitionsWriteFailed
from scheduler.watch.client import MERGE_PATCH, ApiError, Client, Unreachable

WORKERS = 4

log = structlog.get_logger("cuts")

Orders = tuple[PartitionRequest, ...]


class PartitionWriter:
    """Sends orders in the background; ``namespace`` is our own."""

    def __init__(
        self,
        client: Client,
        namespace: str,
        emit: Callable[[PartitionsWriteFailed], None],
        leads: Callable[[], bool],
        epoch: Callable[[], int | None],
    ) -> None:
        self._client = client
        self._namespace = namespace
        self._emit = emit
        self._leads = leads
        self._epoch = epoch
        self._newest: dict[str, Orders] = {}
        self._line: asyncio.Queue[str | Relabel] = asyncio.Queue()
        self._busy: set[str] = set()

    def send(self, node_name: str, orders: Orders) -> None:
        """From now on these instances must exist on the node."""
        if node_name not in self._newest and node_name not in self._busy:
            self._line.put_nowait(node_name)
        self._newest[node_name] = orders

    def relabel(self, relabel: Relabel) -> None:
        """Let mig-manager cut a node anew."""
        self._line.put_nowait(relabel)

    async def run(self) -> None:
        """Work for ever; ends by cancellation."""
        async with asyncio.TaskGroup() as group:
            for number in range(WORKERS):
                group.create_task(self._work(), name=f"cutter {number}")

    async def _work(self) -> None:
        while True:
            item = await self._line.get()
            if isinstance(item, str):
                await self._send_all(item)
            elif self._leads():
                await set_label(self._client, item)

    async def _send_all(self, node_name: str) -> None:
        self._busy.add(node_name)
        while (orders := self._newest.pop(node_name, None)) is not None:
            if self._leads():
                await self._send(node_name, orders)
        self._busy.discard(node_name)

    async def _send(self, node_name: str, orders: Orders) -> None:
        try:
            await self._patch(node_name, orders)
        except (ApiError, Unreachable) as error:
            message = error.message if isinstance(error, ApiError) else str(error)
            log.warning("instances were not asked for", node=node_name, problem=message)
            self._emit(PartitionsWriteFailed(node_name, message))

    async def _patch(self, node_name: str, orders: Orders) -> None:
        body = mig_partition_codec.encode_spec(orders, self._epoch())
        path = mig_partition_codec.path(self._namespace, node_name)
        try:
            await self._client.request("PATCH", path, body, content_type=MERGE_PATCH)
        except ApiError as error:
            if error.status != 404:
                raise
            body = mig_partition_codec.encode(node_name, orders, self._epoch(), self._namespace)
            await self._client.request("POST", mig_partition_codec.path(self._namespace), body)
