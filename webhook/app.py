"""The webhook's outermost shell: a TLS server around the pure decision.

    API server ── TLS ──> /mutate, /mutate/fallback ── Unix socket ──> the scheduler beside us

Everything runs on one event loop, so a client that connects and says nothing holds up nobody.
"""

from __future__ import annotations

import asyncio
import contextlib
import datetime
import signal
import socket
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final, NamedTuple

import structlog
from aiohttp import web

from scheduler.model import admission
from scheduler.model.admission import Answer, Scope
from webhook import review
from webhook.certs import CERTIFICATE, KEY, LiveCertificate
from webhook.link import Link
from webhook.metrics import Metrics, Result
from webhook.mutate import Config, Outcome, Request, needs_answer
from webhook.mutate import review as decide

BODY_BYTES_MAX: Final = 3 * 1024 * 1024
PATHS: Final[dict[str, Scope]] = {"/mutate": "ours", "/mutate/fallback": "any"}

_BACKLOG: Final = 1024
# The API server drops its idle connections after 90 s; if we were first, a review could be lost.
_KEEPALIVE_S: Final = 180.0
_SHUTDOWN_S: Final = 10.0
_LOOK_S: Final = 0.2
_JSON: Final = "application/json"

_log = structlog.get_logger(__name__)


class Settings(NamedTuple):
    """How the server was started."""

    socket: Path
    cert_dir: Path
    port: int = 8443
    host: str = ""
    scheduler_name: str = Config().scheduler_name
    client_ca: Path | None = None
    #: After SIGTERM: how long to answer on, until no API server sends reviews here any more.
    drain_s: float = 0.0
    #: How long a certificate may take to appear, where the scheduler beside us makes it.
    wait_s: float = 0.0


class Refusal(Exception):
    """A request that is no review: a status and one line."""

    def __init__(self, status: int, line: str) -> None:
        super().__init__(line)
        self.status = status
        self.line = line


class Server:
    """Answers reviews; made once per process."""

    def __init__(self, settings: Settings) -> None:
        """Read the certificate; nothing is opened yet."""
        self._settings = settings
        self._config = Config(scheduler_name=settings.scheduler_name)
        self._certificate = LiveCertificate(settings.cert_dir, client_ca=settings.client_ca)
        self._metrics = Metrics(self._seconds_to_expiry)
        self._link = Link(settings.socket)
        self._stopping = asyncio.Event()
        self.port = 0

    def stop(self) -> None:
        """Begin the end: not ready any more, still answering."""
        self._stopping.set()

    async def run(self, ready: asyncio.Event | None = None) -> None:
        """Serve until stopped."""
        with _listen(self._settings.host, self._settings.port) as listener:
            self.port = listener.getsockname()[1]
            _log.info(f"Starting GPU allocation webhook server on port {self.port}")
            runner = web.AppRunner(
                self._app(),
                access_log=None,
                keepalive_timeout=_KEEPALIVE_S,
                shutdown_timeout=_SHUTDOWN_S,
            )
            await runner.setup()
            try:
                context = self._certificate.context
                await web.SockSite(runner, listener, ssl_context=context, backlog=_BACKLOG).start()
                _log.info("Webhook server ready")
                if ready is not None:
                    ready.set()
                await self._until_stopped()
            finally:
                await runner.cleanup()
                await self._link.close()

    async def _until_stopped(self) -> None:
        # A task that fails takes the server with it: a certificate that nobody follows expires.
        async with asyncio.TaskGroup() as tasks:
            follow = tasks.create_task(self._certificate.follow(), name="certificate")
            alive = tasks.create_task(self._say_alive(), name="alive")
            await self._stopping.wait()
            alive.cancel()
            _log.info("Webhook server stopping")
            await asyncio.sleep(self._settings.drain_s)
            follow.cancel()

    async def _say_alive(self) -> None:
        """Tell the scheduler that pods need not come past us any more."""
        while True:
            if self._seconds_to_expiry() > 0:
                await self._link.say_alive()
            await asyncio.sleep(admission.ALIVE_S)

    def _app(self) -> web.Application:
        app = web.Application(client_max_size=BODY_BYTES_MAX)
        for path in PATHS:
            app.router.add_post(path, self._reviewed)
        app.router.add_get("/healthz", self._healthz)
        app.router.add_get("/readyz", self._readyz)
        app.router.add_get("/metrics", self._metrics_page)
        return app

    async def _healthz(self, _request: web.Request) -> web.Response:
        return web.Response(text="ok\n")

    async def _readyz(self, _request: web.Request) -> web.Response:
        if self._stopping.is_set():
            return web.Response(status=503, text="stopping\n")
        if self._seconds_to_expiry() <= 0:
            return web.Response(status=503, text="the certificate has expired\n")
        return web.Response(text="ok\n")

    async def _metrics_page(self, _request: web.Request) -> web.Response:
        headers = {"Content-Type": "text/plain; version=0.0.4; charset=utf-8"}
        return web.Response(body=self._metrics.render(), headers=headers)

    async def _reviewed(self, request: web.Request) -> web.Response:
        started = time.perf_counter()
        result: Result = "error"
        try:
            result, body = await self._answer(request)
            return web.Response(body=body, content_type=_JSON)
        except Refusal as refusal:
            result = "malformed"
            return web.Response(status=refusal.status, text=refusal.line + "\n")
        except web.HTTPException:
            result = "malformed"
            raise
        finally:
            self._metrics.reviewed(request.path, result, time.perf_counter() - started)

    async def _answer(self, http: web.Request) -> tuple[Result, bytes]:
        self._check_client(http)
        if http.content_type != _JSON:
            raise Refusal(415, f"expected Content-Type: {_JSON}")
        body = await http.read()
        try:
            asked = review.decode(body)
            pod = review.new_pod(asked)
        except review.Malformed as error:
            raise Refusal(400, str(error)) from error
        if pod is None:
            return "ignored", review.encode(asked)
        request = Request(
            namespace=asked.request.namespace,
            scope=PATHS[http.path],
            dry_run=bool(asked.request.dry_run),
        )
        answer = None
        if needs_answer(pod, request, self._config):
            answer = await self._ask(asked, request)
        outcome = decide(pod, request, answer, self._config)
        # Right after the answer, and not before it: the pod's creation waits for that.
        asyncio.get_running_loop().call_soon(_say, outcome.log)
        return _result(outcome), review.encode(asked, outcome)

    def _check_client(self, http: web.Request) -> None:
        """Anybody in the cluster can reach us; the installer may let in the API server only."""
        if self._settings.client_ca is None:
            return
        if http.transport is None or not http.transport.get_extra_info("peercert"):
            raise Refusal(403, "a client certificate is required")

    async def _ask(self, asked: review.Review, request: Request) -> Answer | None:
        answer = await self._link.ask(
            admission.Question(
                uid=asked.request.uid,
                dry_run=request.dry_run,
                namespace=request.namespace,
                scope=request.scope,
                pod=asked.request.object,
            )
        )
        if answer is None:
            self._metrics.unanswered()
        return answer

    def _seconds_to_expiry(self) -> float:
        return self._certificate.seconds_to_expiry(datetime.datetime.now(datetime.UTC))


def _say(lines: Sequence[str]) -> None:
    for line in lines:
        _log.info(line)


def _result(outcome: Outcome) -> Result:
    if outcome.denial is not None:
        return "denied"
    return "patched" if outcome.patch else "unchanged"


def _listen(host: str, port: int) -> socket.socket:
    """A listening socket; without a host on every address, of both families where there are two."""
    if not host and socket.has_dualstack_ipv6():
        return socket.create_server(("", port), family=socket.AF_INET6, dualstack_ipv6=True)
    return socket.create_server((host, port))


async def serve(settings: Settings) -> None:
    """Run a server until the process is told to end."""
    await _certificate_there(settings)
    server = Server(settings)
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, server.stop)
    await server.run()


async def _certificate_there(settings: Settings) -> None:
    """Wait for the files; without them in time the server says itself what is wrong."""
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(settings.wait_s):
            while True:
                if all((settings.cert_dir / name).exists() for name in (CERTIFICATE, KEY)):
                    return
                await asyncio.sleep(_LOOK_S)
