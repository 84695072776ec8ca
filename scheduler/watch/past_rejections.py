"""What ended before this process began: one list of failed pods, and events about deleted ones.

Of failed pods two sorts matter: those that a kubelet refused, so that a node that rejects pods is
avoided as before, and degraded ones of which a container failed for good.

Must never: keep anybody waiting for long. Decisions begin after ``WAIT_MAX_S`` in any case; what is
read later is told later. Nor may it grow: so many pages are read, and no more.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import datetime

import msgspec
import structlog

from scheduler.model.json_bounds import UNREADABLE
from scheduler.model.original_request import is_degraded
from scheduler.state.event import DeletedPodEvent, PastRejection, PastRejectionsRead, PodUpdated
from scheduler.watch.client import ApiError, Client, Unreachable
from scheduler.watch.decode import kubelet_events
from scheduler.watch.decode.api_types import ListMeta
from scheduler.watch.decode.ended_pod import ENDED, EndedPod, crashed
from scheduler.watch.decode.objects import read_pod

#: Pods in one answer, answers at most (the API keeps 12,500 pods that ended), and seconds before
#: it is tried again.
PAGE = 500
PAGES_MAX = 25
RETRY_S = 5.0
#: How old a refusal may be to matter, in seconds: from it the length of pauses is told.
AGE_MAX_S = 4 * 3600.0
#: How long the first decision waits for all this, in seconds.
WAIT_MAX_S = 3.0

log = structlog.get_logger("scheduler")


class _Page(msgspec.Struct, frozen=True):
    metadata: ListMeta = ListMeta()
    items: tuple[msgspec.Raw, ...] | None = None


_PAGE = msgspec.json.Decoder(_Page)


class PastRejections:
    """Reads it once, and tells ``emit``: crashes as they are found, refusals all together."""

    def __init__(
        self,
        client: Client,
        scheduler_name: str,
        emit: Callable[[PastRejectionsRead | PodUpdated], None],
        wall: Callable[[], datetime],
    ) -> None:
        self._client = client
        self._scheduler_name = scheduler_name
        self._emit = emit
        self._wall = wall
        self._refusals: list[PastRejection] = []
        self._uids: set[str] = set()
        self._is_asked = asyncio.Event()
        self._is_told = asyncio.Event()

    async def tell(self, wait_max_s: float = WAIT_MAX_S) -> None:
        """The caches are filled: tell now, or as soon as it is known; wait, but not for long."""
        self._is_asked.set()
        try:
            async with asyncio.timeout(wait_max_s):
                await self._is_told.wait()
        except TimeoutError:
            log.warning("refusals of before are not read yet", waited_s=wait_max_s)

    async def read(self) -> None:
        """Read it all; ends when it is told."""
        await self._read_pods()
        hearsay = await self._read_events()
        await self._is_asked.wait()
        self._emit(PastRejectionsRead(tuple(self._refusals), hearsay))
        self._is_told.set()

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
                if error.status == 410:  # it took too long; what was seen has to do
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
                if is_degraded(pod):
                    self._emit(PodUpdated(crashed(pod)))
            elif ended.is_refused and ended.was_bound:
                self._refused(ended, item)
        except UNREADABLE:
            return

    def _refused(self, ended: EndedPod, item: msgspec.Raw) -> None:
        age_s = self._age(ended.at())
        pod = read_pod(item)
        if age_s < AGE_MAX_S and pod.node_name:
            status = ended.status
            self._refusals.append(
                PastRejection(pod, pod.node_name, status.reason, status.message, age_s)
            )

    async def _read_events(self) -> tuple[DeletedPodEvent, ...]:
        """Once, and not at any price: without them the pods have to do."""
        try:
            events = await kubelet_events.of_all(self._client)
        except (ApiError, Unreachable, *UNREADABLE) as error:
            log.warning("events of kubelets cannot be read", problem=str(error))
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
