"""Reads the pods that ended before this process began: one list, and events about deleted pods.

Two kinds of failed pods matter: those that a kubelet rejected, so that a node that rejects pods is
avoided as before, and degraded ones with a container that failed for good.

The first decision waits at most ``WAIT_MAX_S`` for it; later results are enqueued later. The number
of pages is bounded.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import datetime

import msgspec
import structlog

from scheduler.model.json_bounds import UNREADABLE
from scheduler.state.event import DeletedPodEvent, PastRejection, PastRejectionsRead, PodUpdated
from scheduler.watch.client import ApiError, Client, Unreachable
from scheduler.watch.decode import kubelet_events
from scheduler.watch.decode.api_types import ListMeta
from scheduler.watch.decode.ended_pod import ENDED, EndedPod, crashed
from scheduler.watch.decode.objects import read_pod
from scheduler.watch.inbox import Inbox

#: Pods per page, pages at most (the API keeps 12,500 pods that ended), seconds between attempts.
PAGE = 500
PAGES_MAX = 25
RETRY_S = 5.0
#: Maximum age of a rejection in seconds: the length of the backoff depends on older ones.
AGE_MAX_S = 4 * 3600.0
#: The first decision waits at most this time for the rejections, in seconds.
WAIT_MAX_S = 3.0

log = structlog.get_logger("scheduler")


class _Page(msgspec.Struct, frozen=True):
    metadata: ListMeta = ListMeta()
    items: tuple[msgspec.Raw, ...] | None = None


_PAGE = msgspec.json.Decoder(_Page)


class PastRejections:
    """Reads the rejections once: crashes are enqueued one by one, rejections all together."""

    def __init__(
        self,
        client: Client,
        scheduler_name: str,
        inbox: Inbox,
        wall: Callable[[], datetime],
    ) -> None:
        self._client = client
        self._scheduler_name = scheduler_name
        self._inbox = inbox
        self._wall = wall
        self._rejections: list[PastRejection] = []
        self._uids: set[str] = set()
        self._is_requested = asyncio.Event()
        self._is_published = asyncio.Event()

    async def publish(self, wait_max_s: float = WAIT_MAX_S) -> None:
        """After the caches are filled: enqueue the rejections once they are read; waits for a
        limited time.
        """
        self._is_requested.set()
        try:
            async with asyncio.timeout(wait_max_s):
                await self._is_published.wait()
        except TimeoutError:
            log.warning("past kubelet rejections not read yet", waited_s=wait_max_s)

    async def read(self) -> None:
        """Read everything; ends when all events are enqueued."""
        await self._read_pods()
        deleted_pod_events = await self._read_events()
        await self._is_requested.wait()
        self._inbox.enqueue(PastRejectionsRead(tuple(self._rejections), deleted_pod_events))
        self._is_published.set()

    async def _read_pods(self) -> None:
        token = ""
        for _ in range(PAGES_MAX):
            page = await self._page(token)
            for item in page.items or ():
                self._look_at(item)
            token = page.metadata.token
            if not token:
                return

    async def _page(self, token: str) -> _Page:
        selector = f"status.phase=Failed,spec.schedulerName={self._scheduler_name}"
        params = {"fieldSelector": selector, "limit": str(PAGE)}
        if token:
            params["continue"] = token
        while True:
            try:
                content = await self._client.request("GET", "/api/v1/pods", params=params)
                return _PAGE.decode(content)
            except ApiError as error:
                if error.status == 410:  # the list expired; only the pages so far are used
                    return _Page()
            except (Unreachable, *UNREADABLE):
                pass
            await asyncio.sleep(RETRY_S)

    def _look_at(self, item: msgspec.Raw) -> None:
        try:
            ended = ENDED.decode(item)
            self._uids.add(ended.metadata.uid)
            if ended.is_crash:
                pod = read_pod(item)
                if pod.is_degraded:
                    self._inbox.enqueue(PodUpdated(crashed(pod)))
            elif ended.is_rejected and ended.was_bound:
                self._refused(ended, item)
        except UNREADABLE:
            return

    def _refused(self, ended: EndedPod, item: msgspec.Raw) -> None:
        age_s = self._age(ended.at())
        pod = read_pod(item)
        if age_s < AGE_MAX_S and pod.node_name:
            status = ended.status
            self._rejections.append(
                PastRejection(pod, pod.node_name, status.reason, status.message, age_s)
            )

    async def _read_events(self) -> tuple[DeletedPodEvent, ...]:
        """One attempt: if it fails, only the pods are used."""
        try:
            events = await kubelet_events.of_all(self._client)
        except (ApiError, Unreachable, *UNREADABLE) as error:
            log.warning("kubelet events unreadable", problem=str(error))
            return ()
        found: dict[str, DeletedPodEvent] = {}
        for one in events:
            pod, age_s = one.regarding, self._age(one.at())
            if pod.uid not in self._uids and age_s < AGE_MAX_S:
                found[pod.uid] = DeletedPodEvent(
                    pod.uid, pod.namespace, pod.name, one.node_name, one.reason, one.note, age_s
                )
        return tuple(found.values())

    def _age(self, at: float | None) -> float:
        return AGE_MAX_S if at is None else max(0.0, self._wall().timestamp() - at)
