"""The open pages: each is computed once for all its listeners, and sent after a change.

Without listeners nothing is computed. Pages take turns with the questions of the decisions API, one
after the other, and after each one the feed rests for a multiple of the time that it took: however
large the cluster and however many pages are open, they take a small, fixed share of the processor.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import datetime
from typing import Final

import msgspec
import structlog

from scheduler.model.limits import DASHBOARD_LISTENERS_MAX
from scheduler.model.timestamps import micro_time
from scheduler.report.dashboard.contents import Content, PageContents, PageKey
from scheduler.report.dashboard.pages.health import Listeners
from scheduler.report.dashboard.pages.page import KIND, Envelope
from scheduler.report.dashboard.stopwatch import Stopwatch
from scheduler.report.decisions.api_types import API_VERSION
from scheduler.report.decisions.questions import Busy, QuestionQueue

#: The shortest time between two computations of one page.
INTERVAL_S: Final = 1.0
#: After a computation the feed rests for this multiple of its time, but not longer than this. The
#: time is that of the wall: a process that is short of processor rests longer.
REST: Final = 30.0
REST_MAX_S: Final = 60.0
#: A page is computed again after so long, although the state has not changed: times pass.
STALE_S: Final = 5.0
#: After an error the page is not computed for so long.
FAILED_S: Final = 10.0

#: Around the JSON of an event.
_BEFORE: Final = b"event: page\ndata: "
_AFTER: Final = b"\n\n"

log = structlog.get_logger("dashboard")


class TooManyListeners(Exception):
    """So many pages are open already."""

    def __init__(self, most: int) -> None:
        super().__init__(f"{most} pages are open already; close one")


class Published(msgspec.Struct, frozen=True):
    """A content of a page, and the event with its whole JSON that all listeners get."""

    content: Content
    event: bytes

    @property
    def body(self) -> bytes:
        """The JSON alone."""
        return self.event[len(_BEFORE) : -len(_AFTER)]


class OpenPage:
    """One page and its listeners; times are of the loop's clock."""

    def __init__(self) -> None:
        self.listeners = 0
        self.last: Published | None = None
        self.generation = -1
        self.computed_at = self.next_at = float("-inf")
        self._changed = asyncio.Event()

    async def after(self, seen: Published | None) -> Published:
        """Wait for a content other than the one that was seen."""
        while self.last is None or self.last is seen:
            await self._changed.wait()
        return self.last

    def publish(self, published: Published) -> None:
        """Wake the listeners, unless they have the content already."""
        if self.last is None or self.last.content != published.content:
            self.last = published
            self._changed.set()
            self._changed = asyncio.Event()


class DashboardFeed:
    """The open pages of one process; ``clock`` is the loop's, ``wall`` the wall clock."""

    def __init__(
        self,
        contents: PageContents,
        questions: QuestionQueue,
        scheduler: str,
        clock: Callable[[], float],
        wall: Callable[[], datetime],
        interval_s: float = INTERVAL_S,
        listeners_max: int = DASHBOARD_LISTENERS_MAX,
    ) -> None:
        self._contents = contents
        self._questions = questions
        self._scheduler = scheduler
        self._clock = clock
        self._wall = wall
        self._interval_s = interval_s
        self._listeners_max = listeners_max
        self._pages: dict[PageKey, OpenPage] = {}
        self._opened = asyncio.Event()
        self._rest_until = float("-inf")
        self._refresh_s = interval_s
        #: Pages that were computed, and the time that all of them took.
        self.computed = 0
        self.spent_s = 0.0

    @property
    def listeners(self) -> Listeners:
        """The pages that are open."""
        count = sum(one.listeners for one in self._pages.values())
        return Listeners(open=count, max=self._listeners_max)

    @asynccontextmanager
    async def listening(self, key: PageKey) -> AsyncIterator[OpenPage]:
        """The page is kept up to date for the duration of the block."""
        if self.listeners.open >= self._listeners_max:
            raise TooManyListeners(self._listeners_max)
        page = self._pages.setdefault(key, OpenPage())
        page.listeners += 1
        self._opened.set()
        try:
            yield page
        finally:
            page.listeners -= 1
            if not page.listeners:
                del self._pages[key]

    async def answer(self, key: PageKey) -> bytes:
        """The page once; ``Busy`` if too many questions wait."""
        page = self._pages.get(key)
        is_fresh = page is not None and self._clock() - page.computed_at < self._refresh_s
        if page is not None and page.last is not None and is_fresh:
            return page.last.body
        return (await self._compute(key)).body

    async def run(self) -> None:
        """Compute the open pages, the one that is due first; ends by cancellation."""
        while True:
            due = self.due()
            if due is None:
                self._opened.clear()
                await self._opened.wait()
                continue
            key, page, at = due
            left_s = at - self._clock()
            if left_s > 0:
                # A page that is opened meanwhile is due at once.
                self._opened.clear()
                try:
                    async with asyncio.timeout(left_s):
                        await self._opened.wait()
                except TimeoutError:
                    pass
                continue
            await self._refresh(key, page)

    def due(self) -> tuple[PageKey, OpenPage, float] | None:
        """The page that is due first, and when; of those that wait for the end of a rest, the one
        that was computed longest ago.
        """

        def at(page: OpenPage) -> float:
            return page.next_at if page.last is None else max(page.next_at, self._rest_until)

        found = [(key, page, at(page)) for key, page in self._pages.items()]
        return min(found, key=lambda one: (one[2], one[1].next_at), default=None)

    def rest(self, seconds: float) -> None:
        """Rest for longer: what other pages cost is not forgotten."""
        now = self._clock()
        self._rest_until = min(max(now, self._rest_until) + seconds, now + REST_MAX_S)
        self._refresh_s = max(self._interval_s, round(self._rest_until - now, 1))

    async def _refresh(self, key: PageKey, page: OpenPage) -> None:
        now = self._clock()
        page.next_at = now + self._interval_s
        is_recent = now - page.computed_at < STALE_S
        if page.last is not None and is_recent and page.last.content.state == "ok":
            is_same = page.generation == self._contents.generation
            if is_same and self._contents.obstacle() is None:
                return
        try:
            page.generation = self._contents.generation
            published = await self._compute(key)
        except Busy:
            return
        except Exception:  # one page must not end the others, nor the scheduler
            page.next_at = self._clock() + FAILED_S
            log.error("page failed", page=key.page, exc_info=True)
            return
        page.computed_at = self._clock()
        page.publish(published)

    async def _compute(self, key: PageKey) -> Published:
        content = self._contents.obstacle()
        if content is None:
            watch = Stopwatch(self._clock)
            async with self._questions.turn():
                content = await self._contents.compute(key, watch, self.listeners)
            self.computed += 1
            self.spent_s += watch.spent_s
            self.rest(REST * watch.spent_s)
        envelope = Envelope(
            api_version=API_VERSION,
            kind=KIND,
            page=key.page,
            state=content.state,
            message=content.message,
            leader=content.leader,
            scheduler=self._scheduler,
            time=micro_time(self._wall()),
            refresh_s=self._refresh_s,
        )
        head = msgspec.json.encode(envelope).removesuffix(b"}")
        await asyncio.sleep(0)  # large data was just joined
        event = (_BEFORE, head, b',"data":', content.data, b"}", _AFTER)
        return Published(content, b"".join(event))
