"""Port 9400: ``/metrics`` for Prometheus, ``/health`` for the kubelet."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from aiohttp import web
from aiohttp.typedefs import Handler

from fakegpu.exporter.metrics import Exported, render

TEXT = "text/plain; version=0.0.4; charset=utf-8"


def application(
    gpus: Callable[[], Iterable[Exported]] | None, not_ready: Callable[[], str | None]
) -> web.Application:
    """The server; each scrape reads the current GPUs."""

    async def live(_: web.Request) -> web.Response:
        return web.json_response({"status": "healthy"})

    async def ready(_: web.Request) -> web.Response:
        problem = not_ready()
        if problem is None:
            return web.json_response({"status": "ready"})
        return web.json_response({"status": "not ready", "reason": problem}, status=503)

    app = web.Application()
    if gpus is not None:
        app.router.add_get("/metrics", _metrics(gpus))
    for path in ("/health", "/healthz", "/livez"):
        app.router.add_get(path, live)
    app.router.add_get("/readyz", ready)
    return app


def _metrics(gpus: Callable[[], Iterable[Exported]]) -> Handler:
    async def metrics(_: web.Request) -> web.Response:
        return web.Response(body=render(gpus()).encode(), headers={"Content-Type": TEXT})

    return metrics
