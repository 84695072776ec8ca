"""List, then watch: keeps the inbox in step with the API server.

The rules are those of ``client-go/tools/cache/reflector.go``: the first list reads the newest state
(never ``resourceVersion=0``); after a clean end a watch continues from the last version; a 410, as
a status or as an ERROR event, causes a new list; after any other error the watch continues after a
pause.

Bookmarks are no heartbeat: a kind without changes may have no events for hours. So a watch has a
timeout of less than a minute, and one without data beyond it is broken, whatever the cause.

Bytes that are no list, no event or no object of the API do not come from the API server: the
connection counts as broken, and everything is listed again after a pause.

Pauses start at the beginning of an attempt and stay short: a returning server is found within ten
seconds, and a missing one gets about ten requests in forty seconds.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from contextlib import aclosing
from typing import Generic, Literal, TypeVar

import msgspec

from scheduler.model.json_bounds import UNREADABLE
from scheduler.watch.client import ApiError, Client, Status, Unreachable
from scheduler.watch.decode.api_types import Versioned, WatchEvent
from scheduler.watch.decode.unreadable import NotAnObject, identity, problem_text
from scheduler.watch.paged_list import Paging, Unreadable, decoded, pages

TOO_MANY_REQUESTS = 429
#: A server that just started refuses that many requests of a kind in a row (client-go retries too).
START_REFUSALS_MAX = 5
#: Random variation of a pause, so that many clients do not reconnect at the same time.
JITTER = 0.2


class Limits(msgspec.Struct, frozen=True):
    """Seconds: pauses between attempts, and the silences after which a watch is broken.

    ``silence_max_s`` is for an open watch, ``answer_max_s`` for a requested one; a kind that the
    cluster lacks is requested again after ``absent_s``.
    """

    pause_first_s: float = 0.8
    pause_max_s: float = 7.0
    silence_max_s: float = 70.0
    answer_max_s: float = 8.0
    absent_s: float = 5.0

    @property
    def watch_s(self) -> tuple[int, int]:
        """The range of watch timeouts: a watch must end well before it counts as silent."""
        shortest, longest = int(self.silence_max_s * 4 / 7), int(self.silence_max_s * 11 / 14)
        return max(1, shortest), max(1, longest)


E = TypeVar("E")


class WatchSource(msgspec.Struct, Generic[E], frozen=True):
    """One kind of object: its path, and the decoders into events (of type E).

    ``older_paths`` are those of former versions of the API, the newest first: a cluster may serve
    one of them instead, if the kind is optional. ``decode`` takes an object's bytes and whether it
    was deleted; ``decode_list`` takes all items of a list, or of a page if ``paging`` is set. A
    cluster may lack an optional kind; so may the role of the account, if ``may_be_forbidden``.
    While the watch of a vital kind is broken, no replica decides. ``absent`` is the event of a
    cluster that lacks the kind, where that differs from one without objects.
    """

    kind: str
    path: str
    decode: Callable[[bytes, bool], E]
    decode_list: Callable[[list[msgspec.Raw]], E]
    selector: str = ""
    is_optional: bool = False
    is_vital: bool = True
    may_be_forbidden: bool = False
    paging: Paging[E] | None = None
    older_paths: tuple[str, ...] = ()
    absent: Callable[[], E] | None = None


class _Expired(Exception):
    """The version is too old: list again."""


#: The reason for a new list; the label of the metric.
Cause = Literal["expired", "unreadable", "lead"]
#: The event types of a watch; any other type does not come from an API server.
_KNOWN = ("ADDED", "MODIFIED", "DELETED", "BOOKMARK", "ERROR")

_EVENT = msgspec.json.Decoder(WatchEvent)
_VERSION = msgspec.json.Decoder(Versioned)
_STATUS = msgspec.json.Decoder(Status)


class Reflector(Generic[E]):
    """Mirrors one source into the inbox.

    ``is_synced`` once the first list was delivered; ``is_healthy`` while the watch is open.
    ``busy`` gets, instead of ``warn``, what a healthy server answers while its caches are filled:
    429 before the first watch was open.
    ``opened`` is called when it opens: a scheduler that waits for it decides at once.
    """

    def __init__(
        self,
        client: Client,
        source: WatchSource[E],
        emit: Callable[[E], None],
        warn: Callable[[str, str], None],
        rng: random.Random,
        limits: Limits = Limits(),  # noqa: B008 - frozen
        relists: Callable[[str, Cause], None] = lambda kind, cause: None,
        busy: Callable[[str, str], None] | None = None,
        opened: Callable[[], None] = lambda: None,
    ) -> None:
        self._client = client
        self._source = source
        self._path = source.path
        self._emit = emit
        self._warn = warn
        self._busy = busy or warn
        self._relists = relists
        self._opened = opened
        self._rng = rng
        self._limits = limits
        self._version = ""
        self._failures = self._expiries = 0
        self._listed_at = float("-inf")
        self._is_listing = False
        self._is_answered = self._is_served = self._was_open = False
        self._listed = asyncio.Event()
        self._work: asyncio.Task[None] | None = None
        self.is_synced = asyncio.Event()
        self.lists = 0
        self.kind = source.kind
        self.is_vital = source.is_vital
        self.is_healthy = False

    @property
    def is_listed(self) -> bool:
        """Whether the first list was delivered."""
        return self.is_synced.is_set()

    async def run(self) -> None:
        """Run until cancelled; never returns."""
        while True:
            self._work = asyncio.create_task(self._follow(), name=self._source.kind)
            try:
                await asyncio.wait({self._work})
            finally:
                self._work.cancel()
            if not self._work.cancelled():
                self._work.result()  # raises a bug in the work: it never ends by itself

    async def newer_than(self, moment: float) -> None:
        """Wait until the cache is based on a list that was requested after this moment.

        ``moment`` is on the event loop's clock. The watch is dropped and started again from the new
        list.
        """
        while self._listed_at < moment:
            if self._work is not None and not self._is_listing:
                self._version = ""
                self._relists(self._source.kind, "lead")
                self._work.cancel()
            await self._listed.wait()

    async def _follow(self) -> None:
        clock = asyncio.get_running_loop().time
        while True:
            started = clock()
            self._is_answered = False
            try:
                if not self._version:
                    await self._list()
                await (self._watch() if self._version else self._absent())
            except (_Expired, Unreadable, ApiError, Unreachable) as problem:
                self._failures += 1
                if isinstance(problem, Unreadable):
                    self._version = ""
                    self._relists(self._source.kind, "unreadable")
                elif _is_expired(problem) or self._is_version_gone(problem):
                    self._version = ""
                    self._relists(self._source.kind, "expired")
                    self._expiries += 1
                    if self._expiries == 1:  # the usual case: list at once
                        continue
                self.is_healthy = False
                (self._busy if self._is_starting(problem) else self._warn)(
                    self._source.kind, str(problem)
                )
                # An attempt without a response has paused long enough meanwhile.
                waited_s = 0.0 if self._is_answered else clock() - started
                await asyncio.sleep(self._pause(problem, waited_s))

    async def _list(self) -> None:
        asked_at = asyncio.get_running_loop().time()
        self._is_listing = True
        try:
            found, version = await self._newest_served()
        finally:
            self._is_listing = False
        self._emit(found)
        self._version = version
        self._is_served = self._is_served or bool(version)
        self.lists += 1
        self._listed_at = asked_at
        self.is_synced.set()
        self._listed.set()
        self._listed = asyncio.Event()

    async def _newest_served(self) -> tuple[E, str]:
        """The event of the list in the newest version of the API that is served, and the list's
        version; an empty list where none is served.
        """
        for path in (self._source.path, *self._source.older_paths):
            self._path = path
            try:
                return await self._pages(path)
            except ApiError as error:
                if not self._is_lacking(error.status):
                    raise
                if error.status == 403:  # rights do not depend on the version
                    if self.lists == 0:
                        self._warn(self._source.kind, error.message)
                    break
        absent = self._source.absent
        return (self._source.decode_list([]) if absent is None else absent()), ""

    async def _pages(self, path: str) -> tuple[E, str]:
        """The event of the whole list, and its version."""
        source = self._source
        params = {"fieldSelector": source.selector} if source.selector else {}
        size = source.paging.size if source.paging else 0
        found, version = list[E](), ""
        async with aclosing(pages(self._client, path, params, size)) as listed:
            async for page in listed:
                found.append(self._of_items(page.items or []))
                version = version or page.metadata.resource_version
        return (source.paging.join(found) if source.paging else found[0]), version

    def _is_starting(self, problem: Exception) -> bool:
        """Whether the server may only be filling its caches after its start."""
        is_busy = isinstance(problem, ApiError) and problem.status == TOO_MANY_REQUESTS
        return is_busy and not self._was_open and self._failures <= START_REFUSALS_MAX

    def _is_version_gone(self, problem: Exception) -> bool:
        """Whether an upgraded server may serve the watched kind in another version."""
        is_missing = isinstance(problem, ApiError) and problem.status == 404
        return is_missing and bool(self._version and self._source.older_paths)

    def _is_lacking(self, status: int) -> bool:
        """Whether the answer says that there is no such kind, or none for this account.

        A role that loses a right takes nothing away: what was listed before stays as it was.
        """
        if status == 403:
            return self._source.may_be_forbidden and not self._is_served
        return status == 404 and self._source.is_optional

    def _of_items(self, items: list[msgspec.Raw]) -> E:
        """The event of a list; an undecodable object is left out."""
        try:
            return self._source.decode_list(items)
        except UNREADABLE:
            try:
                readable = [item for item in items if self._object(bytes(item)) is not None]
                return self._source.decode_list(readable)
            except UNREADABLE as problem:
                raise Unreadable(f"no list: {problem_text(problem)}") from problem

    def _object(self, content: bytes, *, is_gone: bool = False) -> E | None:
        """The event of one object; None and a warning if it is undecodable."""
        try:
            return self._source.decode(content, is_gone)
        except NotAnObject:
            raise
        except UNREADABLE as problem:
            namespace, name, _ = identity(content)
            key = f"{namespace}/{name}" if namespace else name
            self._warn(
                self._source.kind, f"{key} cannot be read and is left out: {problem_text(problem)}"
            )
            return None

    async def _absent(self) -> None:
        """The cluster lacks the kind, so the cache is complete."""
        self._open()
        await asyncio.sleep(self._limits.absent_s)

    def _open(self) -> None:
        self.is_healthy = True
        self._opened()

    async def _watch(self) -> None:
        """One watch until it ends cleanly."""
        params = {
            "watch": "true",
            "resourceVersion": self._version,
            "allowWatchBookmarks": "true",
            "timeoutSeconds": str(self._rng.randint(*self._limits.watch_s)),
        }
        if self._source.selector:
            params["fieldSelector"] = self._source.selector
        clock = asyncio.get_running_loop().time
        started = clock()
        limits = self._limits
        async with self._client.stream(
            self._path,
            params,
            silence_s=limits.silence_max_s,
            answer_s=min(limits.answer_max_s, limits.silence_max_s),
        ) as lines:
            self._is_answered = self._was_open = True
            self._open()
            async for line in lines:
                self._take(line)
        if clock() - started < limits.pause_first_s:
            # limits the rate if a server hangs up at once
            await asyncio.sleep(limits.pause_first_s)
        self._failures = self._expiries = 0

    def _take(self, line: bytes) -> None:
        try:
            found, version = self._read(line)
        except UNREADABLE as problem:
            raise Unreadable(f"no event of a watch: {problem_text(problem)}") from problem
        if found is not None:
            self._emit(found)
        self._version = version
        self._failures = self._expiries = 0

    def _read(self, line: bytes) -> tuple[E | None, str]:
        """The event of a line, and its version."""
        event = decoded(_EVENT, line)
        if event.type not in _KNOWN:
            raise ValueError(f"type {event.type[:40]!r}")
        if event.type == "ERROR":
            status = _STATUS.decode(event.object)
            if status.code == 410 or status.reason in ("Expired", "Gone"):
                raise _Expired(status.message)
            raise ApiError(status.code, status.message, status.reason)
        version = _VERSION.decode(event.object).metadata.resource_version
        if not version:
            raise ValueError("an object without a version")
        if event.type == "BOOKMARK":
            return None, version
        return self._object(bytes(event.object), is_gone=event.type == "DELETED"), version

    def _pause(self, problem: Exception, waited_s: float) -> float:
        asked_s = problem.retry_after_s if isinstance(problem, ApiError) else 0.0
        return max(asked_s, backoff_s(self._limits, self._failures, self._rng) - waited_s, 0.0)


def backoff_s(limits: Limits, failures: int, rng: random.Random) -> float:
    """Seconds from one attempt to the next after this number of failures in a row."""
    grown_s = min(limits.pause_max_s, limits.pause_first_s * float(2 ** min(failures - 1, 10)))
    return grown_s * rng.uniform(1 - JITTER, 1 + JITTER)


def _is_expired(problem: Exception) -> bool:
    """Whether the version is too old, reported as an event or as a status."""
    return isinstance(problem, _Expired) or getattr(problem, "status", 0) == 410
