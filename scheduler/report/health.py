"""Port 8080: ``/health /ready /livez /readyz /healthz /metrics``.

``/health`` and ``/ready`` respond with the seed's bodies. Ready means that every cache was filled
and its watch is alive; a standby is ready too. The liveness checks fail after the loop stopped.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from typing import Final

from aiohttp import web
from prometheus_client import CONTENT_TYPE_LATEST, generate_latest

from scheduler.httpserver import web_app
from scheduler.httpserver.limits import HEALTH
from scheduler.httpserver.sockets import listen
from scheduler.report.metrics import Metrics
from scheduler.report.scraped_sums import ScrapedCollector

SHUTDOWN_S: Final = 1.0


def application(
    name: str,
    metrics: Metrics,
    is_alive: Callable[[], bool],
    not_ready: Callable[[], str | None],
    *scraped: ScrapedCollector,
) -> web.Application:
    """The health server; ``not_ready`` returns the reason, or None if the process is ready."""
    for one in scraped:
        metrics.registry.register(one)

    async def live(_: web.Request) -> web.Response:
        alive = is_alive()
        body = {"status": "healthy" if alive else "dead", "service": name}
        return web.json_response(body, status=200 if alive else 503)

    async def ready(_: web.Request) -> web.Response:
        problem = not_ready()
        if problem is None:
            return web.json_response({"status": "ready", "service": name})
        body = {"status": "not ready", "service": name, "reason": problem}
        return web.json_response(body, status=503)

    async def scrape(_: web.Request) -> web.Response:
        for one in scraped:
            await one.refresh()
        return web.Response(
            body=generate_latest(metrics.registry), headers={"Content-Type": CONTENT_TYPE_LATEST}
        )

    app = web.Application()
    for path in ("/health", "/livez", "/healthz"):
        app.router.add_get(path, live)
    for path in ("/ready", "/readyz"):
        app.router.add_get(path, ready)
    app.router.add_get("/metrics", scrape)
    return app


def serving(
    app: web.Application, address: str, metrics: Metrics
) -> AbstractAsyncContextManager[None]:
    """Serve on ``host:port`` for the duration of the block. OSError if the port is taken."""
    tally = metrics.connections.of("health")
    return web_app.serving(app, listen(address), HEALTH, tally, SHUTDOWN_S)
