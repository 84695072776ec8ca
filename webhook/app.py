"""The webhook's TLS server around the pure decision.

    API server ── TLS ──> /mutate, /mutate/fallback ── Unix socket ──> the scheduler in the same pod

With ``decisions_port`` a second port serves the aggregated decisions API (``webhook/aggregated``).

Everything runs on one event loop, so a silent connection delays no other client.
"""

from __future__ import annotations

import asyncio
import contextlib
import datetime
import signal
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Final, NamedTuple

import structlog

from scheduler.httpserver.limits import AGGREGATED, REVIEWS
from scheduler.httpserver.messages import TEXT, Head, Reply, Request
from scheduler.httpserver.server import Server as HttpServer
from scheduler.httpserver.sockets import listen
from scheduler.model import admission
from webhook.aggregated.server import AggregatedApi
from webhook.certs import CERTIFICATE, KEY, LiveCertificate
from webhook.handler import PATHS, ReviewHandler
from webhook.metrics import Metrics
from webhook.mutate.pod_mutation import Config
from webhook.scheduler_client import BUDGET_S, SchedulerClient

_SHUTDOWN_S: Final = 10.0
_LOOK_S: Final = 0.2
_PAGE: Final = "text/plain; version=0.0.4; charset=utf-8"

_log = structlog.get_logger(__name__)


class Settings(NamedTuple):
    """The server's settings."""

    socket: Path
    cert_dir: Path
    port: int = 8443
    host: str = ""
    scheduler_name: str = Config().scheduler_name
    client_ca: Path | None = None
    #: After SIGTERM: seconds to keep serving, until no API server sends reviews to this server.
    drain_s: float = 0.0
    #: Seconds to wait for the certificate that the scheduler issues.
    wait_s: float = 0.0
    #: Seconds to wait for the scheduler's answer to a query.
    answer_s: float = BUDGET_S
    #: The port of the aggregated decisions API; None: off.
    decisions_port: int | None = None


_NOT_ALLOWED: Final = Reply(405, b"not with this method\n", TEXT)


class Server:
    """Serves reviews; one instance per process."""

    def __init__(self, settings: Settings) -> None:
        """Read the certificate; nothing is opened yet."""
        self._settings = settings
        self._certificate = LiveCertificate(settings.cert_dir, client_ca=settings.client_ca)
        self._metrics = Metrics(lambda: self._certificate.expires.timestamp())
        self._link = SchedulerClient(settings.socket, budget_s=settings.answer_s)
        self._stopping = asyncio.Event()
        self._pages: dict[str, Callable[[], Reply]] = {
            "/healthz": lambda: Reply(200, b"ok\n", TEXT),
            "/readyz": self._readyz,
            "/metrics": lambda: Reply(200, self._metrics.render(), _PAGE),
        }
        self._reviewer = ReviewHandler(
            self._link,
            self._metrics,
            Config(scheduler_name=settings.scheduler_name),
            needs_certificate=settings.client_ca is not None,
        )
        self._aggregated = AggregatedApi(self._link, self._certificate, _utc_now)
        self.port = 0
        self.decisions_port = 0

    def stop(self) -> None:
        """Start the shutdown: not ready, but still serving."""
        self._stopping.set()

    async def run(self, ready: asyncio.Event | None = None) -> None:
        """Serve until stopped."""
        listener = listen(f"{self._settings.host}:{self._settings.port}")
        self.port = listener.getsockname()[1]
        _log.info(f"Starting GPU allocation webhook server on port {self.port}")
        http = HttpServer(self._answer, REVIEWS, self._metrics.connections, self._gate)
        try:
            # At shutdown, running reviews are finished.
            async with (
                http.serving(listener, self._certificate.context, _SHUTDOWN_S),
                self._aggregated_served(),
            ):
                _log.info("Webhook server ready")
                if ready is not None:
                    ready.set()
                await self._until_stopped()
        finally:
            listener.close()
            await self._link.close()

    @contextlib.asynccontextmanager
    async def _aggregated_served(self) -> AsyncIterator[None]:
        """Serve the aggregated decisions API for the duration of the block, if it is enabled."""
        if self._settings.decisions_port is None:
            yield
            return
        api = self._aggregated
        listener = listen(f"{self._settings.host}:{self._settings.decisions_port}")
        self.decisions_port = listener.getsockname()[1]
        http = HttpServer(api.answer, AGGREGATED, self._metrics.aggregated, api.gate)
        async with http.serving(listener, api.context, _SHUTDOWN_S):
            yield

    def _gate(self, head: Head) -> Reply | int:
        """Reject reviews before their body is read, and limit the length of bodies."""
        if head.path in PATHS:
            if head.method != "POST":
                return _NOT_ALLOWED
            return self._reviewer.refusal(head) or REVIEWS.body
        if head.path not in self._pages:
            return Reply(404, b"there is nothing here\n", TEXT)
        return 0 if head.method in ("GET", "HEAD") else _NOT_ALLOWED

    def _answer(self, request: Request) -> Reply | Awaitable[Reply]:
        page = self._pages.get(request.head.path)
        return page() if page is not None else self._reviewer.answer(request)

    async def _until_stopped(self) -> None:
        # A failed task ends the server: without the task the served certificate would expire.
        async with asyncio.TaskGroup() as tasks:
            follow = tasks.create_task(self._certificate.follow(), name="certificate")
            endless = [follow]
            if self._settings.decisions_port is not None:
                endless.append(tasks.create_task(self._aggregated.follow(), name="front proxy"))
            alive = tasks.create_task(self._say_alive(), name="alive")
            await self._stopping.wait()
            alive.cancel()
            _log.info("Webhook server stopping")
            await asyncio.sleep(self._settings.drain_s)
            for task in endless:
                task.cancel()

    async def _say_alive(self) -> None:
        """Report to the scheduler that the webhook stops serving."""
        while True:
            if self._seconds_to_expiry() > 0:
                await self._link.say_alive()
            await asyncio.sleep(admission.ALIVE_S)

    def _readyz(self) -> Reply:
        if self._stopping.is_set():
            return Reply(503, b"stopping\n", TEXT)
        if self._seconds_to_expiry() <= 0:
            return Reply(503, b"the certificate has expired\n", TEXT)
        return Reply(200, b"ok\n", TEXT)

    def _seconds_to_expiry(self) -> float:
        return self._certificate.seconds_to_expiry(_utc_now())


def _utc_now() -> datetime.datetime:
    return datetime.datetime.now(datetime.UTC)


async def serve(settings: Settings) -> None:
    """Run the server until SIGTERM or SIGINT."""
    await _certificate_there(settings)
    server = Server(settings)
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, server.stop)
    await server.run()


async def _certificate_there(settings: Settings) -> None:
    """Wait for the certificate files; after the timeout the server reports the problem."""
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(settings.wait_s):
            while True:
                if all((settings.cert_dir / name).exists() for name in (CERTIFICATE, KEY)):
                    return
                await asyncio.sleep(_LOOK_S)
