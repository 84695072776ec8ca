"""Looks up how deleted pods ended: one GET each, and one list at the start.

The watch does not show terminated pods. Two cases matter nevertheless: a kubelet rejected a bound
pod, and a container failed permanently on a smaller tier than requested. The first one arrives as
``PodRejected``, the second one as the pod in its last state. If the owner has deleted the pod, the
kubelet's event remains.

It never blocks the loop and its queue is bounded: when too many pods are deleted at once, the rest
is not looked up.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import datetime

from scheduler.model.json_bounds import UNREADABLE
from scheduler.model.pods.pod import Pod
from scheduler.state.event import PastRejectionsRead, PodRejected, PodUpdated
from scheduler.watch.client import ApiError, Client, Unreachable
from scheduler.watch.decode import kubelet_events
from scheduler.watch.decode.ended_pod import ENDED, EndedPod, crashed
from scheduler.watch.inbox import Inbox
from scheduler.watch.past_rejections import PastRejections

WORKERS = 4
WAITING_MAX = 256
#: Number of tries if the API server does not respond, and seconds between them.
TRIES = 3
EVENT_TRIES = 2
RETRY_S = 1.0
GONE = 404

Result = PodRejected | PodUpdated | PastRejectionsRead


class TerminatedPodLookup:
    """Looks up deleted pods, and enqueues rejections and crashes."""

    def __init__(
        self,
        client: Client,
        scheduler_name: str,
        inbox: Inbox,
        wall: Callable[[], datetime],
    ) -> None:
        self._client = client
        self._inbox = inbox
        self.past = PastRejections(client, scheduler_name, inbox, wall)
        self._waiting: asyncio.Queue[Pod] = asyncio.Queue(WAITING_MAX)
        self._requested: set[str] = set()

    def look_up(self, pod: Pod) -> None:
        """Enqueue a pod; repeated requests for a queued pod are dropped."""
        if pod.uid not in self._requested and not self._waiting.full():
            self._requested.add(pod.uid)
            self._waiting.put_nowait(pod)

    async def run(self) -> None:
        """Run until cancelled."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self.past.read(), name="past rejections")
            for number in range(WORKERS):
                group.create_task(self._work(), name=f"terminated pods {number}")

    async def _work(self) -> None:
        while True:
            pod = await self._waiting.get()
            try:
                result = await self._result_of(pod)
            except (ApiError, Unreachable, *UNREADABLE):
                continue
            finally:
                self._requested.discard(pod.uid)
            if result is not None:
                self._inbox.enqueue(result)

    async def _result_of(self, pod: Pod) -> Result | None:
        path = f"/api/v1/namespaces/{pod.namespace}/pods/{pod.name}"
        try:
            ended = ENDED.decode(await self._answer(path))
        except ApiError as error:
            if error.status != GONE:
                raise
            return await self._rejection_of(pod)
        if ended.metadata.uid != pod.uid:
            return await self._rejection_of(pod)
        return _result(pod, ended)

    async def _rejection_of(self, pod: Pod) -> PodRejected | None:
        """The kubelet's event about a deleted pod; it may be written a moment later."""
        if pod.phase != "Pending" or pod.is_admitted:
            return None
        for attempt in range(EVENT_TRIES):
            if attempt:
                await asyncio.sleep(RETRY_S)
            event = await kubelet_events.about_pod(self._client, pod.namespace, pod.uid)
            if event is not None:
                return PodRejected(pod.uid, event.reason, event.note, is_unconfirmed=True)
        return None

    async def _answer(self, path: str) -> bytes:
        for _ in range(TRIES - 1):
            try:
                return await self._client.request("GET", path)
            except Unreachable:
                await asyncio.sleep(RETRY_S)
        return await self._client.request("GET", path)


def _result(pod: Pod, ended: EndedPod) -> Result | None:
    if ended.is_rejected:
        return PodRejected(pod.uid, ended.status.reason, ended.status.message)
    return PodUpdated(crashed(pod)) if ended.is_crash else None
