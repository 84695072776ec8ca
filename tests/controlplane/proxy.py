"""A proxy between a scheduler and the real API server that loses, holds back and breaks things.

It ends TLS with a certificate of the control plane's authority, passes the bearer token on, and
lets a test say what happens to a kind of call, by its name::

    bind          POST .../binding
    list KIND     GET of a whole collection
    watch KIND    the same with watch=true
    lease         any call about a Lease
    METHOD        everything else: get, post, patch, delete

It has a thread and an event loop of its own. Tests set and read plain attributes.
"""

from __future__ import annotations

import asyncio
import json
import ssl
import threading
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import NamedTuple

import aiohttp
from aiohttp import web

from tests.patience import PATIENCE_S
from tools.controlplane import ControlPlane, wait_until
from tools.controlplane.ports import LOOPBACK, free_ports
from tools.product import ACCOUNT

PASSED_ON = ("Authorization", "Content-Type", "Accept", "User-Agent")
#: The kinds whose lists have names of their own.
KINDS = ("pods", "nodes", "namespaces", "resourcequotas", "podmigrations", "migpartitions")
LOOK_S = 0.02
NO_LIMIT = aiohttp.ClientTimeout(total=None)


class Reply(NamedTuple):
    """The API server's response."""

    status: int
    content: bytes
    headers: dict[str, str]


class Call(NamedTuple):
    """One request that passed, and when (monotonic seconds)."""

    name: str
    path: str
    at: float


class Exchange:
    """One request on its way, as an action sees it."""

    def __init__(self, proxy: Proxy, request: web.Request, body: bytes) -> None:
        self._proxy = proxy
        self._request = request
        self._body = body

    @property
    def is_gone(self) -> bool:
        """Whether the scheduler's end of the connection is closed."""
        transport = self._request.transport
        return transport is None or transport.is_closing()

    async def forward(self) -> Reply:
        """Let the API server do it."""
        return await self._proxy.deliver(self._request, self._body)

    def abort(self) -> web.Response:
        """Break the connection without an answer."""
        if self._request.transport is not None:
            self._request.transport.abort()
        return web.Response()


async def until(check: Callable[[], bool]) -> None:
    """Wait for something that another thread, or the other end of a connection, brings about."""
    while not check():  # noqa: ASYNC110 - neither of them can set an event of this loop
        await asyncio.sleep(LOOK_S)


Action = Callable[[Exchange], Awaitable[web.StreamResponse]]


def answered(reply: Reply) -> web.Response:
    """The answer as it came."""
    return web.Response(status=reply.status, body=reply.content, headers=reply.headers)


async def lose_answer(exchange: Exchange) -> web.StreamResponse:
    """The request is executed and its response is lost."""
    await exchange.forward()
    return exchange.abort()


async def lose_request(exchange: Exchange) -> web.StreamResponse:
    """It never arrives."""
    return exchange.abort()


async def swallow(exchange: Exchange) -> web.StreamResponse:
    """The connection stays open and nothing ever comes back."""
    await until(lambda: exchange.is_gone)
    return exchange.abort()


def fail(status: int, *, retry_after: str = "") -> Action:
    """An answer of a server in trouble."""

    async def act(_: Exchange) -> web.StreamResponse:
        headers = {"Retry-After": retry_after} if retry_after else {}
        body = {"kind": "Status", "code": status, "message": "as the test says"}
        return web.json_response(body, status=status, headers=headers)

    return act


class HeldAnswers:
    """Executes the request and holds the response until it is released or the client is gone."""

    def __init__(self) -> None:
        self.held = 0
        self.is_released = False

    async def __call__(self, exchange: Exchange) -> web.StreamResponse:
        reply = await exchange.forward()
        self.held += 1
        await until(lambda: self.is_released or exchange.is_gone)
        return exchange.abort() if exchange.is_gone else answered(reply)


class HeldRequests:
    """Keeps requests back. Those of a process that died meanwhile are dropped, or come late."""

    def __init__(self) -> None:
        self.held = 0
        self.is_over = False
        self.is_late = False
        self.late: list[Reply] = []

    async def __call__(self, exchange: Exchange) -> web.StreamResponse:
        self.held += 1
        await until(lambda: self.is_over)
        if self.is_late:
            self.late.append(await exchange.forward())
        return exchange.abort()


class Proxy:
    """Stands before one control plane's API server."""

    def __init__(self, plane: ControlPlane, directory: Path) -> None:
        self.calls: list[Call] = []
        #: Watches of these kinds deliver nothing any more; those that were open stay so for ever.
        self.silent: set[str] = set()
        #: The next piece of such a watch is cut in two, and its second half never comes.
        self.cut: set[str] = set()
        self._actions: dict[str, list[Action]] = {}
        self._plane = plane
        self._directory = directory
        self._pair = plane.serving_certificate("proxy")
        self.port = free_ports(1)[0]
        self._loop = asyncio.new_event_loop()
        self._stop = asyncio.Event()
        self._listens = threading.Event()
        self._thread = threading.Thread(target=self._run, name="proxy", daemon=True)
        self._session: aiohttp.ClientSession | None = None

    def __enter__(self) -> Proxy:
        self._thread.start()
        assert self._listens.wait(PATIENCE_S), "the proxy does not listen"
        return self

    def __exit__(self, *_: object) -> None:
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join(PATIENCE_S)

    def kubeconfig(self) -> Path:
        """The scheduler's kubeconfig, with the proxy in the API server's place."""
        document = json.loads(self._plane.kubeconfig_for(ACCOUNT).read_text())
        document["clusters"][0]["cluster"]["server"] = f"https://{LOOPBACK}:{self.port}"
        self._directory.mkdir(parents=True, exist_ok=True)
        path = self._directory / "proxied.kubeconfig"
        path.touch(mode=0o600)
        path.write_text(json.dumps(document))
        return path

    # --- what a test says ---------------------------------------------------------------------

    def always(self, name: str, action: Action) -> None:
        """From now on."""
        self._actions[name] = [action]

    def once(self, name: str, *actions: Action) -> None:
        """For the next calls of this name, one each; then as usual."""
        self._actions[name] = [*actions, passed_on]

    def heal(self) -> None:
        """From now on everything passes; what was swallowed stays lost."""
        self._actions.clear()
        self.silent.clear()
        self.cut.clear()

    def count(self, name: str, since: float = 0.0) -> int:
        """How many calls of this name came since a moment."""
        return sum(1 for call in self.calls if call.name == name and call.at >= since)

    def wait_for_call(self, name: str, more: int = 1, timeout_s: float = PATIENCE_S) -> None:
        """Wait until so many more calls of this name have come."""
        wanted = self.count(name) + more
        wait_until(
            lambda: self.count(name) >= wanted, what=f"{more} more of {name}", timeout_s=timeout_s
        )

    # --- what happens ---------------------------------------------------------------------------

    def _run(self) -> None:
        with asyncio.Runner(loop_factory=lambda: self._loop) as runner:
            runner.run(self._serve())

    async def _serve(self) -> None:
        inside = ssl.create_default_context(cafile=str(self._plane.ca_certificate))
        connector = aiohttp.TCPConnector(ssl=inside, limit=0)
        async with aiohttp.ClientSession(connector=connector, timeout=NO_LIMIT) as self._session:
            app = web.Application(client_max_size=16 * 1024 * 1024)
            app.router.add_route("*", "/{tail:.*}", self._handle)
            runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
            await runner.setup()
            outside = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
            outside.load_cert_chain(self._pair.certificate, self._pair.key)
            await web.TCPSite(runner, LOOPBACK, self.port, ssl_context=outside).start()
            self._listens.set()
            await self._stop.wait()
            await runner.cleanup()

    async def _handle(self, request: web.Request) -> web.StreamResponse:
        name = name_of(request)
        self.calls.append(Call(name, request.path, time.monotonic()))
        exchange = Exchange(self, request, await request.read())
        action = self._next_action(name)
        try:
            if action is not None:
                return await action(exchange)
            if name.startswith("watch "):
                return await self._watch(request, name.removeprefix("watch "))
            return answered(await exchange.forward())
        except (aiohttp.ClientError, OSError):
            return exchange.abort()  # the API server is away

    def _next_action(self, name: str) -> Action | None:
        script = self._actions.get(name) or self._actions.get("*")
        if not script:
            return None
        action = script.pop(0) if len(script) > 1 else script[0]
        return None if action is passed_on else action

    async def deliver(self, request: web.Request, body: bytes) -> Reply:
        """Send a request to the API server and read the whole answer."""
        assert self._session is not None
        async with self._session.request(
            request.method,
            self._plane.url + request.raw_path,
            data=body or None,
            headers=_headers(request),
        ) as answer:
            kept = ("Content-Type", "Retry-After")
            headers = {key: answer.headers[key] for key in kept if key in answer.headers}
            return Reply(answer.status, await answer.read(), headers)

    async def _watch(self, request: web.Request, kind: str) -> web.StreamResponse:
        assert self._session is not None
        async with self._session.get(
            self._plane.url + request.raw_path, headers=_headers(request)
        ) as answer:
            response = web.StreamResponse(
                status=answer.status, headers={"Content-Type": "application/json"}
            )
            if kind not in self.silent:
                await response.prepare(request)
            is_dead = kind in self.silent
            async for piece in answer.content.iter_any():
                is_dead = is_dead or kind in self.silent
                if is_dead:
                    continue
                if kind in self.cut:
                    self.cut.discard(kind)
                    await response.write(piece[: len(piece) // 2])
                    raise ConnectionResetError("cut in half")
                await response.write(piece)
            if is_dead:
                await until(lambda: request.transport is None)
            return response


async def passed_on(exchange: Exchange) -> web.StreamResponse:
    """The marker for a dropped response."""
    raise AssertionError(f"never called ({exchange})")


def _headers(request: web.Request) -> dict[str, str]:
    return {key: request.headers[key] for key in PASSED_ON if key in request.headers}


def name_of(request: web.Request) -> str:
    """The name of a call, as in this module's docstring."""
    *_, last = request.path.split("/")
    if last == "binding":
        return "bind"
    if "/leases" in request.path:
        return "lease"
    if request.method == "GET" and request.query.get("watch"):
        return f"watch {last}"
    if request.method == "GET" and last in KINDS:
        return f"list {last}"
    return request.method.lower()
