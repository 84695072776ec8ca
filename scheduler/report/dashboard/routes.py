"""The paths of the dashboard: its files, its data, and its events. All of them only read."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from typing import Final

from aiohttp import web

from scheduler.report.dashboard.assets import FOLDER, INDEX, Asset, read_assets
from scheduler.report.dashboard.contents import PAGES, POD, PageKey
from scheduler.report.dashboard.feed import DashboardFeed, OpenPage, Published, TooManyListeners
from scheduler.report.decisions.guard import refused
from scheduler.report.decisions.questions import RETRY_AFTER_S, Busy

ROOT: Final = "/dashboard"
#: A comment after this silence shows both sides that the connection is alive.
HEARTBEAT_S: Final = 15.0
#: The browser connects again after so long.
RECONNECT_MS: Final = 2_000
NAME_LENGTH_MAX: Final = 253

HEADERS: Final = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self';"
        " img-src 'self' data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
}


class DashboardRoutes:
    """Serves the dashboard of one process."""

    def __init__(
        self, feed: DashboardFeed, folder: Path = FOLDER, heartbeat_s: float = HEARTBEAT_S
    ) -> None:
        self._feed = feed
        self._folder = folder
        self._heartbeat_s = heartbeat_s

    def add_to(self, app: web.Application) -> None:
        """Add the routes; the last one takes every other path below the root."""
        router = app.router
        router.add_get(ROOT, _to_root)
        router.add_get(f"{ROOT}/data/{{page}}", self._data)
        router.add_get(f"{ROOT}/events", self._events)
        router.add_get(f"{ROOT}/assets/{{path:.+}}", self._asset)
        router.add_get(f"{ROOT}/{{path:.*}}", self._index)

    # --- files -------------------------------------------------------------------------------

    @cached_property
    def _assets(self) -> Mapping[str, Asset]:
        return read_assets(self._folder)

    async def _asset(self, request: web.Request) -> web.Response:
        return self._file(request, request.match_info["path"])

    async def _index(self, request: web.Request) -> web.Response:
        return self._file(request, INDEX)

    def _file(self, request: web.Request, path: str) -> web.Response:
        asset = self._assets.get(path)
        if asset is None:
            raise refused(web.HTTPNotFound, f"there is no file {path[:NAME_LENGTH_MAX]}")
        response = web.Response(headers={**HEADERS, "Cache-Control": "no-cache"})
        response.etag = asset.etag
        known = request.if_none_match or ()
        if any(tag.value in (asset.etag, "*") for tag in known):
            response.set_status(304)
            return response
        response.content_type = asset.content_type
        response.charset = "utf-8"
        response.body = asset.content
        return response

    # --- data --------------------------------------------------------------------------------

    async def _data(self, request: web.Request) -> web.Response:
        key = _key(request, request.match_info["page"])
        try:
            body = await self._feed.answer(key)
        except Busy as error:
            after = {"Retry-After": str(RETRY_AFTER_S)}
            raise refused(web.HTTPServiceUnavailable, str(error), after) from None
        headers = {**HEADERS, "Cache-Control": "no-store"}
        return web.Response(body=body, content_type="application/json", headers=headers)

    async def _events(self, request: web.Request) -> web.StreamResponse:
        key = _key(request, request.query.get("page", ""))
        try:
            async with self._feed.listening(key) as page:
                response = web.StreamResponse(headers={**HEADERS, "Cache-Control": "no-store"})
                response.content_type = "text/event-stream"
                await response.prepare(request)
                await response.write(f"retry: {RECONNECT_MS}\n\n".encode())
                await self._send(response, page)
                return response
        except TooManyListeners as error:
            raise refused(web.HTTPServiceUnavailable, str(error)) from None

    async def _send(self, response: web.StreamResponse, page: OpenPage) -> None:
        """Send the contents until the client goes; a slow client gets the newest one only."""
        seen: Published | None = None
        while True:
            try:
                async with asyncio.timeout(self._heartbeat_s):
                    seen = await page.after(seen)
            except TimeoutError:
                message = b": keep-alive\n\n"
            else:
                message = seen.event
            try:
                await response.write(message)
            except ConnectionError:  # the page was closed
                return


async def _to_root(request: web.Request) -> web.Response:
    return web.Response(status=302, headers={**HEADERS, "Location": f"{ROOT}/"})


def _key(request: web.Request, page: str) -> PageKey:
    if page not in PAGES:
        raise refused(web.HTTPNotFound, f"there is no such page; try {', '.join(PAGES)}")
    if page != POD:
        return PageKey(page)
    namespace, name = request.query.get("namespace", ""), request.query.get("name", "")
    if not namespace or not name or max(len(namespace), len(name)) > NAME_LENGTH_MAX:
        raise refused(
            web.HTTPBadRequest, "page pod: namespace=NAMESPACE and name=NAME are required"
        )
    return PageKey(page, namespace, name)
