"""Sends events and conditions in the background, after the Bindings.

Several workers send from one bounded queue. While Bindings are in flight they wait, for at most
``HOLD_MAX_S``. Conditions go before events, because users and autoscalers wait for them; an event
is overtaken only by the conditions of the next ``OVERTAKEN_S``. An event is dropped and counted if
the queue is full or the request fails. Conditions are never dropped, because nothing would resend
them. Only the newest condition of a pod waits, so there are never more than pods; after a failed
request it is sent again. It waits for the answer to the pod's last one, because of two requests in
flight the older one may be carried out last, and the pod would keep an obsolete message.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable

import msgspec

from scheduler.model.pods.pod import Condition
from scheduler.report.metrics import Metrics
from scheduler.watch.client import ApiError, Client, Unreachable

EVENTS_MAX = 20_000
WORKERS = 16
HOLD_MAX_S = 10.0
OVERTAKEN_S = 30.0
TRIES = 12
RETRY_FIRST_S = 1.0
RETRY_MAX_S = 15.0


class Item(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """One request. A condition has the ``uid`` of its pod, and its content in ``condition``."""

    method: str
    path: str
    body: bytes
    content_type: str
    since: float
    uid: str = ""
    condition: Condition | None = None
    tries: int = 1

    @property
    def what(self) -> str:
        """The label of the metric."""
        return "condition" if self.uid else "event"


class SendQueue:
    """The requests of one recorder."""

    def __init__(
        self,
        client: Client,
        clock: Callable[[], float],
        metrics: Metrics,
        idle: asyncio.Event,
        retry_first_s: float = RETRY_FIRST_S,
    ) -> None:
        self._client = client
        self._clock = clock
        self._metrics = metrics
        self._idle = idle
        self._retry_first_s = retry_first_s
        #: By place and number: events, and for conditions the uid whose newest one is in
        #: ``_newest``.
        self._queue: asyncio.PriorityQueue[tuple[float, int, Item | str]] = asyncio.PriorityQueue()
        self._enqueued = 0
        self._newest: dict[str, Item] = {}
        #: The pods whose condition is being sent.
        self._sending: set[str] = set()
        #: By pod: its current condition, or the one that is being sent.
        self._conditions: dict[str, Condition] = {}
        self._events = 0

    async def run(self) -> None:
        """Send until cancelled."""
        async with asyncio.TaskGroup() as group:
            for number in range(WORKERS):
                group.create_task(self._work(), name=f"recorder {number}")

    async def drain(self, timeout_s: float) -> bool:
        """Wait until everything is sent, as long as the timeout allows; returns whether it is."""
        try:
            async with asyncio.timeout(timeout_s):
                await self._queue.join()
        except TimeoutError:
            return False
        return True

    def condition_of(self, uid: str) -> Condition | None:
        """The newest condition of a pod that was enqueued here."""
        return self._conditions.get(uid)

    def drop_condition(self, uid: str) -> None:
        """The pod's condition is obsolete: it is not sent, or not sent again."""
        self._conditions.pop(uid, None)

    def enqueue(self, item: Item) -> None:
        """Send an event, or the newest condition of a pod."""
        if item.condition is not None:
            self._conditions[item.uid] = item.condition
            if item.uid not in self._newest and item.uid not in self._sending:
                self._put(item.since, item.uid)
            self._newest[item.uid] = item
        elif self._events >= EVENTS_MAX:
            self._count(item.what, "dropped")
        else:
            self._events += 1
            self._put(item.since + OVERTAKEN_S, item)

    def _put(self, place: float, entry: Item | str) -> None:
        self._enqueued += 1
        self._queue.put_nowait((place, self._enqueued, entry))

    async def _work(self) -> None:
        while True:
            _, _, entry = await self._queue.get()
            try:
                await self._hold(self._newest[entry] if isinstance(entry, str) else entry)
                if isinstance(entry, str):
                    await self._send_newest(entry)
                else:
                    self._events -= 1
                    self._count(entry.what, await self._send(entry))
            finally:
                self._queue.task_done()

    async def _hold(self, item: Item) -> None:
        """Let Bindings go first: they start pods."""
        left_s = item.since + HOLD_MAX_S - self._clock()
        if not self._idle.is_set() and left_s > 0:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(left_s):
                    await self._idle.wait()

    async def _send_newest(self, uid: str) -> None:
        """Send the condition of a pod that waits, and then let the next one follow."""
        self._sending.add(uid)
        try:
            await self._send_condition(self._newest.pop(uid))
        finally:
            self._sending.discard(uid)
            if uid in self._newest:
                self._put(self._newest[uid].since, uid)

    async def _send_condition(self, item: Item) -> None:
        if not self._is_true(item):
            self._count(item.what, "stale")
            return
        result = await self._send(item)
        self._count(item.what, result)
        if result == "sent" or not self._is_true(item):
            return
        if result in ("busy", "unreachable") and item.tries < TRIES:
            pause_s = min(RETRY_MAX_S, self._retry_first_s * 2 ** (item.tries - 1))
            asyncio.get_running_loop().call_later(pause_s, self._again, item)
        else:
            self.drop_condition(item.uid)  # the next attempt of the pod sends it again

    def _again(self, item: Item) -> None:
        if self._is_true(item) and item.uid not in self._newest:
            self.enqueue(msgspec.structs.replace(item, tries=item.tries + 1))

    def _is_true(self, item: Item) -> bool:
        """Whether this is the pod's newest condition."""
        return self._conditions.get(item.uid) is item.condition

    def _count(self, what: str, result: str) -> None:
        self._metrics.reports.labels(what, result).inc()

    async def _send(self, item: Item) -> str:
        """Send one item; returns the label of the metric."""
        try:
            await self._client.request(
                item.method, item.path, item.body, content_type=item.content_type
            )
        except ApiError as error:
            if _is_gone(error):
                return "gone"
            return "busy" if error.is_busy else "refused"
        except Unreachable:
            return "unreachable"
        return "sent"


def _is_gone(error: ApiError) -> bool:
    """Whether the pod or its namespace was deleted."""
    return error.status in (404, 409) or (
        error.status == 403 and "being terminated" in error.message
    )
