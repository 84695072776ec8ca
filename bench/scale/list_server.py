"""An API server that lists a large cluster which never changes, and accepts every write."""

from __future__ import annotations

import asyncio
import contextlib
import json
import tempfile
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any

from aiohttp import web

from tools.controlplane.ports import LOOPBACK

#: A list as parts of encoded items.
Parts = Callable[[], Iterator[list[bytes]]]
VERSION = "1000000"
BOOKMARK_S = 20.0


class ListServer:
    """Serves the lists by path; a path without one has an empty list."""

    def __init__(self, lists: dict[str, Parts]) -> None:
        self._lists = lists
        self.bytes_sent = 0

    @contextlib.asynccontextmanager
    async def serving(self) -> AsyncIterator[Path]:
        """Serve on the loopback interface; yields a kubeconfig."""
        app = web.Application(client_max_size=2**24)
        app.router.add_route("*", "/{path:.*}", self._answer)
        runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
        await runner.setup()
        site = web.TCPSite(runner, LOOPBACK, 0)
        await site.start()
        _, port = runner.addresses[0][:2]
        with tempfile.TemporaryDirectory(prefix="scale-") as folder:
            file = Path(folder) / "kubeconfig"
            file.write_text(json.dumps(kubeconfig(f"http://{LOOPBACK}:{port}")), "utf-8")
            try:
                yield file
            finally:
                await runner.cleanup()

    async def _answer(self, request: web.Request) -> web.StreamResponse:
        if request.method != "GET":
            await request.read()
            return web.Response(body=b"{}", content_type="application/json")
        response = web.StreamResponse(headers={"Content-Type": "application/json"})
        await response.prepare(request)
        if request.query.get("watch"):
            await self._watch(response)
        else:
            # Other selectors than those of the watches ask for terminated pods, which are none.
            is_every = "!=" in request.query.get("fieldSelector", "!=")
            await self._list(response, self._lists.get(request.path) if is_every else None)
        return response

    async def _list(self, response: web.StreamResponse, parts: Parts | None) -> None:
        await response.write(b'{"metadata":{"resourceVersion":"%s"},"items":[' % VERSION.encode())
        is_first = True
        for part in parts() if parts else ():
            if part:
                body = (b"" if is_first else b",") + b",".join(part)
                is_first = False
                self.bytes_sent += len(body)
                await response.write(body)
        await response.write(b"]}")
        await response.write_eof()

    async def _watch(self, response: web.StreamResponse) -> None:
        event = {"type": "BOOKMARK", "object": {"metadata": {"resourceVersion": VERSION}}}
        with contextlib.suppress(ConnectionError):
            while True:
                await response.write(json.dumps(event).encode() + b"\n")
                await asyncio.sleep(BOOKMARK_S)


def kubeconfig(server: str) -> dict[str, Any]:
    """A kubeconfig with an address and nothing else."""
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "c",
        "clusters": [{"name": "c", "cluster": {"server": server}}],
        "users": [{"name": "u", "user": {}}],
        "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
    }
