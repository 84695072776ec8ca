"""A small API server that says what a test tells it to, over real HTTP.

Each path has a list of answers, used in order; the last one stays. What a real server does by
itself (410, half a line, silence, a reset) is hard to provoke there and one line here.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Any

import msgspec
from aiohttp import web

from tests.patience import PATIENCE_S

Answer = Callable[[web.Request], Awaitable[web.StreamResponse]]
Json = dict[str, Any]


class Seen(msgspec.Struct):
    """One request as it arrived."""

    method: str
    path: str
    query: dict[str, str]
    body: bytes
    content_type: str

    @property
    def json(self) -> Any:
        """The body, decoded."""
        return msgspec.json.decode(self.body)


class FakeApi:
    """Answers from scripts and remembers every request."""

    def __init__(self) -> None:
        self.url = ""
        self.seen: list[Seen] = []
        self._arrived: asyncio.Queue[Seen] = asyncio.Queue()
        self._scripts: dict[str, deque[Answer]] = {}
        self._runner: web.AppRunner | None = None

    def script(self, call: str, *answers: Answer) -> None:
        """Answers to ``METHOD path``, or to ``WATCH path``, from now on."""
        self._scripts[call] = deque(answers)

    async def next(self, call: str = "") -> Seen:
        """The next request, of a call if one is given; earlier ones are passed over."""
        while True:
            async with asyncio.timeout(PATIENCE_S):
                seen = await self._arrived.get()
            if not call or call == name_of(seen):
                return seen

    def count(self, call: str) -> int:
        """How many requests of a call arrived so far."""
        return sum(1 for seen in self.seen if name_of(seen) == call)

    async def start(self) -> None:
        """Listen on a free port of the loopback interface."""
        app = web.Application()
        app.router.add_route("*", "/{tail:.*}", self._answer)
        self._runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", 0)
        await site.start()
        port = self._runner.addresses[0][1]
        self.url = f"http://127.0.0.1:{port}"

    async def stop(self) -> None:
        """End every connection and stop listening."""
        if self._runner is not None:
            await self._runner.cleanup()

    async def _answer(self, request: web.Request) -> web.StreamResponse:
        seen = Seen(
            request.method,
            request.path,
            dict(request.query),
            await request.read(),
            request.content_type,
        )
        self.seen.append(seen)
        self._arrived.put_nowait(seen)
        script = self._scripts.get(name_of(seen))
        if not script:
            return web.json_response(status_body(404, "NotFound"), status=404)
        answer = script.popleft() if len(script) > 1 else script[0]
        return await answer(request)


def name_of(seen: Seen) -> str:
    """``WATCH path`` for a watch, else ``METHOD path``."""
    return f"{'WATCH' if seen.query.get('watch') else seen.method} {seen.path}"


def status_body(code: int, reason: str, message: str = "as the test says") -> Json:
    """The API server's error object."""
    return {
        "kind": "Status",
        "apiVersion": "v1",
        "status": "Failure",
        "code": code,
        "reason": reason,
        "message": message,
    }


def reply(body: Json, status: int = 200) -> Answer:
    """A JSON answer."""

    async def answer(_: web.Request) -> web.StreamResponse:
        return web.json_response(body, status=status)

    return answer


def failure(
    code: int, reason: str = "", message: str = "as the test says", retry_after: str = ""
) -> Answer:
    """An error Status."""
    headers = {"Retry-After": retry_after} if retry_after else {}

    async def answer(_: web.Request) -> web.StreamResponse:
        return web.json_response(status_body(code, reason, message), status=code, headers=headers)

    return answer


def text(body: str, status: int) -> Answer:
    """An answer that is no JSON, as a proxy in between writes it."""

    async def answer(_: web.Request) -> web.StreamResponse:
        return web.Response(text=body, status=status)

    return answer


async def reset(request: web.Request) -> web.StreamResponse:
    """The connection breaks without an answer, after the request was read."""
    assert request.transport is not None
    request.transport.abort()
    return web.Response()


class Stream:
    """A watch: writes its pieces, then ends, hangs or breaks."""

    def __init__(self, *pieces: bytes, end: str = "clean") -> None:
        self.pieces = pieces
        self.end = end

    async def __call__(self, request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": "application/json"})
        await response.prepare(request)
        for piece in self.pieces:
            await response.write(piece)
        if self.end == "hang":
            await asyncio.sleep(3600)
        if self.end == "break":
            assert request.transport is not None
            request.transport.abort()
        return response


def line(kind: str, body: Json) -> bytes:
    """One event of a watch."""
    return msgspec.json.encode({"type": kind, "object": body}) + b"\n"


def listed(version: str, *items: Json) -> Json:
    """A list at a version."""
    return {"metadata": {"resourceVersion": version}, "items": list(items)}


def at_version(body: Json, version: str) -> Json:
    """An object at a version."""
    return {**body, "metadata": {**body["metadata"], "resourceVersion": version}}
