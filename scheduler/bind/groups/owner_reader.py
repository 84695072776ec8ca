"""Reads the owners of gangs, whose objects say how many pods start together.

Only owners whose pods ask for it and wait are read: a watch on every such object of the cluster
would be expensive. An owner that cannot be read defines no gang; its pods wait and say so.
"""

from __future__ import annotations

import asyncio
from typing import Final

import structlog

from scheduler.model.actions import ReadGroupOwner
from scheduler.model.json_bounds import UNREADABLE
from scheduler.model.owners.owner_minimum import gang_of_owner
from scheduler.model.pods.gang import GangKey, GangSource
from scheduler.state.event import PodGroupDeleted, PodGroupUpdated
from scheduler.watch.client import ApiError, Client, Unreachable
from scheduler.watch.inbox import Inbox

WORKERS: Final = 4
NOT_FOUND: Final = 404
PATHS: Final = {
    GangSource.JOB_SET.value: "/apis/jobset.x-k8s.io/v1alpha2/namespaces/{}/jobsets/{}",
    GangSource.RAY_CLUSTER.value: "/apis/ray.io/v1/namespaces/{}/rayclusters/{}",
    GangSource.MPI_JOB.value: "/apis/kubeflow.org/v2beta1/namespaces/{}/mpijobs/{}",
}

log = structlog.get_logger("pod-groups")


class GroupOwnerReader:
    """Reads in the background; a request that gets no answer is repeated by its controller."""

    def __init__(self, client: Client, inbox: Inbox) -> None:
        self._client = client
        self._inbox = inbox
        self._queue: asyncio.Queue[ReadGroupOwner] = asyncio.Queue()

    def send(self, action: ReadGroupOwner) -> None:
        """Enqueue a request."""
        self._queue.put_nowait(action)

    async def run(self) -> None:
        """Run until cancelled."""
        async with asyncio.TaskGroup() as group:
            for number in range(WORKERS):
                group.create_task(self._work(), name=f"group owners {number}")

    async def _work(self) -> None:
        while True:
            key = (await self._queue.get()).key
            try:
                await self._read(key)
            except Unreachable as problem:
                log.warning("owner of a group not read", group=str(key), problem=str(problem))
            except ApiError as problem:
                if problem.status != NOT_FOUND:
                    log.warning("owner of a group not read", group=str(key), problem=str(problem))
                if not problem.is_busy:
                    self._inbox.enqueue(PodGroupDeleted(key.namespace, key.name, key.source))

    async def _read(self, key: GangKey) -> None:
        path = PATHS[key.source].format(key.namespace, key.name.partition("/")[0])
        content = await self._client.request("GET", path)
        try:
            group = gang_of_owner(key, content)
        except UNREADABLE as problem:
            log.warning("owner of a group not read", group=str(key), problem=str(problem))
            group = None
        gone = PodGroupDeleted(key.namespace, key.name, key.source)
        self._inbox.enqueue(gone if group is None else PodGroupUpdated(group))
