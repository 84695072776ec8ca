"""List, then watch, for ever: keeps the inbox as new as the API server.

Rules of ``client-go/tools/cache/reflector.go``: the first list asks for the newest state
(never ``resourceVersion=0``); a clean end of a watch goes on from the last version; a 410,
as a status or as an ERROR event, lists again; anything else pauses and goes on.

Bookmarks are no heartbeat: a kind without changes may be silent for hours. So watches are
asked to end within a minute, and one that is silent for longer than that is broken, whoever
swallows its bytes.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable

import msgspec

from scheduler.state.event import Event
from scheduler.watch.client import ApiError, Client, Status, Unreachable

WATCH_S = (40, 55)


class Limits(msgspec.Struct, frozen=True):
    """Seconds: the first pause after a failure, the longest one, and the longest silence."""

    pause_first_s: float = 0.8
    pause_max_s: float = 30.0
    silence_max_s: float = 70.0


class ListMeta(msgspec.Struct, rename="camel"):
    """A list's version."""

    resource_version: str = ""


class Listed(msgspec.Struct):
    """A list whose items are decoded by their source."""

    metadata: ListMeta
    items: list[msgspec.Raw] | None = None


class WatchEvent(msgspec.Struct):
    """One line of a watch."""

    type: str
    object: msgspec.Raw


class _Versioned(msgspec.Struct):
    metadata: ListMeta


class Source(msgspec.Struct, frozen=True):
    """One kind of object: where it is listed, and how its bytes become events.

    ``decode`` takes an object's bytes and whether it was deleted; ``decode_list`` takes
    all items of a list.
    """

    kind: str
    path: str
    decode: Callable[[bytes, bool], Event]
    decode_list: Callable[[list[msgspec.Raw]], Event]
    selector: str = ""


class _Expired(Exception):
    """List again."""


_LIST = msgspec.json.Decoder(Listed)
_EVENT = msgspec.json.Decoder(WatchEvent)
_VERSION = msgspec.json.Decoder(_Versioned)
_STATUS = msgspec.json.Decoder(Status)


class Reflector:
    """Mirrors one source into the inbox.

    ``is_synced`` once the first list was delivered; ``is_healthy`` while the watch is open.
    """

    def __init__(
        self,
        client: Client,
        source: Source,
        emit: Callable[[Event], None],
        warn: Callable[[str, str], None],
        rng: random.Random,
        limits: Limits = Limits(),  # noqa: B008 - frozen
    ) -> None:
        self._client = client
        self._source = source
        self._emit = emit
        self._warn = warn
        self._rng = rng
        self._limits = limits
        self._version = ""
        self._failures = 0
        self._listed_at = float("-inf")
        self._is_listing = False
        self._listed = asyncio.Event()
        self._work: asyncio.Task[None] | None = None
        self.is_synced = asyncio.Event()
        self.lists = 0
        self.is_healthy = False

    async def run(self) -> None:
        """Never returns; ends only by cancellation."""
        while True:
            self._work = asyncio.create_task(self._follow(), name=self._source.kind)
            try:
                await asyncio.wait({self._work})
            finally:
                self._work.cancel()
            if not self._work.cancelled():
                self._work.result()  # a bug: it never ends by itself

    async def newer_than(self, moment: float) -> None:
        """Wait until the cache rests on a list that was asked for after this moment.

        ``moment`` is on the event loop's clock. The watch is given up and taken again from
        the new list.
        """
        while self._listed_at < moment:
            if self._work is not None and not self._is_listing:
                self._version = ""
                self._work.cancel()
            await self._listed.wait()

    async def _follow(self) -> None:
        while True:
            try:
                if not self._version:
                    await self._list()
                await self._watch()
            except (_Expired, ApiError, Unreachable) as problem:
                self._failures += 1
                if _is_expired(problem):
                    self._version = ""
                    if self._failures == 1:  # the ordinary case: list at once
                        continue
                self.is_healthy = False
                self._warn(self._source.kind, str(problem))
                await asyncio.sleep(self._pause(problem))

    async def _list(self) -> None:
        params = {"fieldSelector": self._source.selector} if self._source.selector else None
        asked_at = asyncio.get_running_loop().time()
        self._is_listing = True
        try:
            content = await self._client.request(
                "GET", self._source.path, params=params, timeout_s=60.0
            )
        finally:
            self._is_listing = False
        listed = _LIST.decode(content)
        self._emit(self._source.decode_list(listed.items or []))
        self._version = listed.metadata.resource_version
        self.lists += 1
        self._listed_at = asked_at
        self.is_synced.set()
        self._listed.set()
        self._listed = asyncio.Event()

    async def _watch(self) -> None:
        """One watch until it ends cleanly."""
        params = {
            "watch": "true",
            "resourceVersion": self._version,
            "allowWatchBookmarks": "true",
            "timeoutSeconds": str(self._rng.randint(*WATCH_S)),
        }
        if self._source.selector:
            params["fieldSelector"] = self._source.selector
        clock = asyncio.get_running_loop().time
        started = clock()
        silence_s = self._limits.silence_max_s
        async with self._client.stream(self._source.path, params, silence_s) as lines:
            self.is_healthy = True
            async for line in lines:
                self._take(line)
        if clock() - started < self._limits.pause_first_s:
            await asyncio.sleep(self._limits.pause_first_s)  # or a server that hangs up spins us
        self._failures = 0

    def _take(self, line: bytes) -> None:
        event = _EVENT.decode(line)
        if event.type == "ERROR":
            status = _STATUS.decode(event.object)
            if status.code == 410 or status.reason in ("Expired", "Gone"):
                raise _Expired(status.message)
            raise ApiError(status.code, status.message, status.reason)
        if event.type != "BOOKMARK":
            self._emit(self._source.decode(bytes(event.object), event.type == "DELETED"))
        self._version = _VERSION.decode(event.object).metadata.resource_version
        self._failures = 0

    def _pause(self, problem: Exception) -> float:
        asked = problem.retry_after_s if isinstance(problem, ApiError) else 0.0
        doubled = self._limits.pause_first_s * float(2 ** min(self._failures - 1, 10))
        grown = min(self._limits.pause_max_s, doubled)
        return float(max(asked, grown * (0.5 + self._rng.random())))


def _is_expired(problem: Exception) -> bool:
    """Whether the version is too old, said as an event or as a status."""
    return isinstance(problem, _Expired) or getattr(problem, "status", 0) == 410
