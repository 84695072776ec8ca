"""A standby forwards the queries of its webhook to the leader.

Only the leader reserves (design 5.13), and the API server calls any replica. The leader's address
comes from its Lease, and its certificate must have the name of the Service. The leader requires a
token that only our pods have, because any pod of the cluster can connect.

A query is forwarded once (a replica that does not lead answers 421), and it waits no longer than
its budget.

Certificate, authority and token are files that change at run time; each is read again after a
change. A file that cannot be read counts as no leader: the pod is admitted unchanged.
"""

from __future__ import annotations

import asyncio
import hmac
import ssl
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Final

import aiohttp
import msgspec
import structlog

from scheduler import config
from scheduler.httpserver.connection_metrics import ConnectionMetrics
from scheduler.httpserver.limits import REPLICAS
from scheduler.httpserver.messages import TEXT, Head, Reply
from scheduler.httpserver.post_request import ask
from scheduler.httpserver.server import Server
from scheduler.httpserver.sockets import listen
from scheduler.model.admission import PATH

BUDGET_S: Final = 0.3
BODY_MAX: Final = REPLICAS.body
CONNECTIONS_MAX: Final = 64
RELOAD_S: Final = 10.0
WARN_AFTER_S: Final = 60.0
NOT_LEADING: Final = 421
UNANSWERED: Final = 503

#: Answers the body of a query.
Answer = Callable[[bytes], Awaitable[Reply]]

log = structlog.get_logger("admission")


class LeaderProxySettings(msgspec.Struct, frozen=True, kw_only=True):
    """``host`` and ``port`` of this replica, and the files that it needs."""

    host: str
    port: int
    certificate: Path
    key: Path
    authority: Path
    server_name: str
    token: Path

    @property
    def address(self) -> str:
        """``host:port``, as written in the Lease."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{host}:{self.port}"


def settings_from(section: config.Forward, pod_ip: str) -> LeaderProxySettings | None:
    """The configuration's section; None when it is off. No file is read (``check_files``)."""
    if not section.address:
        return None
    host, _, port = section.address.rpartition(":")
    settings = LeaderProxySettings(
        host=host.strip("[]") or pod_ip,
        port=int(port),
        certificate=Path(section.cert_dir) / "tls.crt",
        key=Path(section.cert_dir) / "tls.key",
        authority=Path(section.ca_file),
        server_name=section.server_name,
        token=Path(section.token_file),
    )
    if not settings.host:
        raise config.ConfigError("$.forward.address: it has no host, and POD_IP is not set")
    return settings


def check_files(settings: LeaderProxySettings) -> None:
    """Read the files once; raises ConfigError for a bad one."""
    try:
        _server_context(settings)
        _client_context(settings.authority.read_bytes())
        _token(settings)
    except (OSError, ValueError) as error:
        raise config.ConfigError(f"$.forward: {error}") from error


async def serve(
    settings: LeaderProxySettings,
    answers: Mapping[str, Answer],
    tally: ConnectionMetrics,
) -> None:
    """Answer other replicas until cancelled; the ``answers``, by path, must not forward queries."""

    def gate(head: Head) -> Reply | int:
        if head.method != "POST" or head.path not in answers:
            return Reply(404, b"there is nothing here", TEXT)
        if not _is_known(settings, head.headers.get("Authorization", "")):
            return Reply(401, b"a replica's token is required", TEXT)
        return BODY_MAX

    context = _server_context(settings)
    server = Server(lambda request: answers[request.head.path](request.body), REPLICAS, tally, gate)
    listener = listen(settings.address)
    async with server.serving(listener, context, BUDGET_S):
        await _follow(settings, context)


async def _follow(settings: LeaderProxySettings, context: ssl.SSLContext) -> None:
    """Serve a renewed certificate; a broken pair leaves the old one in use."""
    seen = settings.certificate.read_bytes()
    while True:
        await asyncio.sleep(RELOAD_S)
        try:
            found = settings.certificate.read_bytes()
            if found != seen:
                context.load_cert_chain(settings.certificate, settings.key)
                seen = found
        except (OSError, ssl.SSLError) as error:
            log.warning("new certificate rejected", problem=str(error))


class LeaderProxy:
    """Queries the leader; ``leader`` returns its address, empty if there is none."""

    def __init__(
        self,
        settings: LeaderProxySettings,
        leader: Callable[[], str],
        clock: Callable[[], float],
        budget_s: float = BUDGET_S,
    ) -> None:
        self._settings = settings
        self._leader = leader
        self._clock = clock
        self._budget_s = budget_s
        self._authority = b""
        self._session: aiohttp.ClientSession | None = None
        self._silent_until = float("-inf")

    async def ask(self, body: bytes, path: str = PATH, budget_s: float | None = None) -> Reply:
        """The leader's answer; 421 without a leader, 503 without an answer in time."""
        budget_s = self._budget_s if budget_s is None else budget_s
        address = self._leader()
        if not address:
            return Reply(NOT_LEADING, b"no scheduler leads")
        try:
            async with asyncio.timeout(budget_s):
                return await self._exchange(address, path, body)
        except TimeoutError:
            problem = f"no answer within {budget_s:g} s"
        except (aiohttp.ClientError, OSError, ValueError) as error:
            problem = str(error) or type(error).__name__
        self._warn(address, problem)
        return Reply(UNANSWERED, f"the leader at {address}: {problem}".encode())

    async def close(self) -> None:
        """Close the connections."""
        if self._session is not None:
            await self._session.close()

    async def _exchange(self, address: str, path: str, body: bytes) -> Reply:
        session = await self._fresh_session()
        headers = {"Authorization": f"Bearer {_token(self._settings)}"}
        url = f"https://{address}{path}"
        return await ask(session, url, body, headers, server_name=self._settings.server_name)

    async def _fresh_session(self) -> aiohttp.ClientSession:
        """The session; a new one after a change of the authority's file."""
        authority = self._settings.authority.read_bytes()
        if self._session is None or authority != self._authority:
            context = _client_context(authority)
            connector = aiohttp.TCPConnector(ssl=context, limit=CONNECTIONS_MAX)
            former, self._session = self._session, aiohttp.ClientSession(connector=connector)
            self._authority = authority
            if former is not None:
                await former.close()
        return self._session

    def _warn(self, address: str, problem: str) -> None:
        """Logs at most once a minute: without a response of the leader every query fails."""
        if self._clock() >= self._silent_until:
            self._silent_until = self._clock() + WARN_AFTER_S
            log.warning("leader does not answer", address=address, problem=problem)


def _server_context(settings: LeaderProxySettings) -> ssl.SSLContext:
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(settings.certificate, settings.key)
    return context


def _client_context(authority: bytes) -> ssl.SSLContext:
    """Trusts only this authority: with an empty file, no public one is trusted either."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.load_verify_locations(cadata=authority.decode("ascii"))
    return context


def _token(settings: LeaderProxySettings) -> str:
    token = settings.token.read_text(encoding="ascii").strip()
    if not token:
        raise ValueError(f"{settings.token} holds no token")
    return token


def _is_known(settings: LeaderProxySettings, sent: str) -> bool:
    try:
        expected = f"Bearer {_token(settings)}"
    except (OSError, ValueError) as error:
        log.warning("token file unreadable", problem=str(error))
        return False
    return hmac.compare_digest(sent.encode("utf-8", "surrogateescape"), expected.encode())
