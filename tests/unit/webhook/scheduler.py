"""A scheduler's end of the socket, for tests of the webhook alone.

It is a real HTTP server on a real Unix socket; only what it answers is the test's.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import msgspec
from aiohttp import web

from scheduler.model import admission
from scheduler.model.admission import AdmissionDecision

Json = dict[str, Any]
Reply = Callable[[Json], Awaitable[web.StreamResponse]]


def says(answer: AdmissionDecision) -> Reply:
    """Always this answer."""

    async def reply(_question: Json) -> web.Response:
        return web.Response(body=msgspec.json.encode(answer), content_type="application/json")

    return reply


class SchedulerEnd:
    """Listens on a socket, keeps the queries, and replies as scripted."""

    def __init__(self, socket: Path, reply: Reply) -> None:
        self.socket = socket
        self.reply = reply
        self.questions: list[Json] = []
        self._runner: web.AppRunner | None = None

    async def __aenter__(self) -> SchedulerEnd:
        app = web.Application()
        app.router.add_post(admission.PATH, self._place)
        self._runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
        await self._runner.setup()
        await web.UnixSite(self._runner, str(self.socket)).start()
        return self

    async def __aexit__(self, *_error: object) -> None:
        assert self._runner is not None, "started"
        await self._runner.cleanup()

    async def _place(self, request: web.Request) -> web.StreamResponse:
        question = await request.json()
        self.questions.append(question)
        return await self.reply(question)
