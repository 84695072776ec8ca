"""The second TLS port of the webhook: the API server reads decisions for its users there.

    kubectl ──> API server: authenticates, authorises ──TLS, its proxy's certificate──> this port

A handshake without a certificate of the front proxy's authority fails, so a request that arrives
was authorised for its namespace. The user's name is in a header, and is used for the log only.

Must never: answer a client that is not the front proxy, or about another namespace than the path's.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Awaitable, Callable
from datetime import datetime
from typing import Final

import structlog

from scheduler.httpserver.messages import JSON, Head, Reply, Request
from scheduler.model.decisions.messages import GROUP, DecisionsQuery, FrontProxy
from webhook.aggregated import objects
from webhook.aggregated.requests import Refused, Wanted, discovery_path, negotiate, parse
from webhook.certs import CertificateFiles, LiveCertificate, context_for_clients_of
from webhook.scheduler_client import SchedulerClient

POLL_S: Final = 2.0
_SHOWN_MAX: Final = 253
_DISCOVERY: Final = {
    "groups": objects.groups,
    "group": objects.group_of,
    "resources": objects.resources,
}
_NO_PROXY: Final = FrontProxy(authority="")

_log = structlog.get_logger(__name__)


class AggregatedApi:
    """Answers the front proxy; one instance per process."""

    def __init__(
        self,
        link: SchedulerClient,
        certificate: LiveCertificate,
        wall: Callable[[], datetime],
    ) -> None:
        """No client is accepted until the scheduler has named the front proxy."""
        self._link = link
        self._certificate = certificate
        self._wall = wall
        self._proxy = _NO_PROXY
        self._built: tuple[CertificateFiles, str] | None = None
        self._context: ssl.SSLContext | None = None

    # --- who is served -------------------------------------------------------------------------

    async def follow(self, poll_s: float = POLL_S) -> None:
        """Ask the scheduler for the front proxy's authority, until cancelled."""
        while True:
            found = await self._link.front_proxy()
            if found is not None and found != self._proxy:
                self.trust(found)
            await asyncio.sleep(poll_s)

    def trust(self, found: FrontProxy) -> None:
        """Accept only this front proxy from now on; an invalid authority is not used."""
        try:
            context_for_clients_of(found.authority, self._certificate.served)
        except (ssl.SSLError, ValueError) as error:
            _log.warning("front proxy authority rejected", problem=str(error))
            return
        self._proxy = found
        _log.info("front proxy authority loaded", names=list(found.names))

    def context(self) -> ssl.SSLContext:
        """The TLS context of the next connection; another one after a change of its files."""
        wanted = (self._certificate.served, self._proxy.authority)
        if self._context is None or wanted != self._built:
            self._context = context_for_clients_of(wanted[1], wanted[0])
            self._built = wanted
        return self._context

    # --- requests ------------------------------------------------------------------------------

    def gate(self, head: Head) -> Reply | int:
        """Reject other clients and all requests that could change something; no body is read."""
        names = self._proxy.names
        if not head.is_known or (names and head.client_name not in names):
            return _failed(403, "Forbidden", "only the API server's front proxy is served here")
        if head.method != "GET":
            return _failed(405, "MethodNotAllowed", "decisions can only be read")
        return 0

    def answer(self, request: Request) -> Reply | Awaitable[Reply]:
        """Discovery at once; decisions when the scheduler has answered."""
        head = request.head
        accept = head.headers.get("Accept", "")
        try:
            document = discovery_path(head.path)
            if document is not None:
                negotiate(accept)
                return Reply(200, objects.encode(_DISCOVERY[document]()))
            wanted = parse(head.path, head.query, accept)
        except Refused as problem:
            return _failed(problem.code, problem.reason, str(problem))
        return self._decisions(wanted, head.headers.get("X-Remote-User", ""))

    async def _decisions(self, wanted: Wanted, user: str) -> Reply:
        reply = await self._ask(wanted)
        _log.info(
            "decisions read",
            user=user[:_SHOWN_MAX],
            namespace=wanted.namespace,
            pod=f"{wanted.namespace}/{wanted.pod}" if wanted.pod else "",
            status=reply.status,
        )
        return reply

    async def _ask(self, wanted: Wanted) -> Reply:
        query = DecisionsQuery(namespace=wanted.namespace, pod=wanted.pod)
        found = await self._link.decisions(query)
        if found is None:
            return _failed(503, "ServiceUnavailable", "the scheduler's leader does not answer")
        if found.retry_after_s:
            text = f"the scheduler answers others; ask again after {found.retry_after_s} s"
            return _failed(503, "ServiceUnavailable", text, found.retry_after_s)
        if wanted.pod and not found.decisions:
            text = f'decisions.{GROUP} "{wanted.pod}" not found: it is not pending, and'
            return _failed(404, "NotFound", f"{text} the leader did not place it since its start")
        if wanted.form == "table":
            body = objects.table(wanted.namespace, found, wanted.included, self._wall())
        elif wanted.pod:
            body = objects.decision(wanted.namespace, found.decisions[0])
        else:
            body = objects.decisions(wanted.namespace, found)
        return Reply(200, objects.encode(body), JSON)


def _failed(code: int, reason: str, message: str, retry_after_s: int = 0) -> Reply:
    body = objects.encode(objects.status(code, reason, message, retry_after_s))
    return Reply(code, body, JSON, retry_after_s)
