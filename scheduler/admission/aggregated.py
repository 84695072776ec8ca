"""Answers the webhook's queries for the aggregated decisions API.

The API server has authorised the reader for the namespace of the query; the webhook checked that
the query came from the API server. The answer has what readers of that namespace may know, and
nothing else. A standby forwards a query to the leader once.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Final

import msgspec

from scheduler.admission.front_proxy import FrontProxyReader
from scheduler.admission.leader_proxy import NOT_LEADING, LeaderProxy
from scheduler.httpserver.messages import TEXT, Reply, Request
from scheduler.model.decisions.messages import FRONT_PROXY_PATH, PATH, DecisionsQuery
from scheduler.model.json_bounds import UNREADABLE
from scheduler.report.decisions.namespace_decisions import NamespaceDecisions

#: A decision on the current state of a large cluster takes longer than an admission.
FORWARD_BUDGET_S: Final = 2.0

_QUERY: Final = msgspec.json.Decoder(DecisionsQuery)

Page = Callable[[Request], Reply | Awaitable[Reply]]


class AggregatedDecisions:
    """Answers while ``leads``; else ``forward`` asks the leader."""

    def __init__(
        self,
        decisions: NamespaceDecisions,
        leads: Callable[[], bool],
        front_proxy: FrontProxyReader,
        forward: LeaderProxy | None = None,
    ) -> None:
        self._decisions = decisions
        self._leads = leads
        self.front_proxy = front_proxy
        self._forward = forward

    @property
    def pages(self) -> Mapping[tuple[str, str], Page]:
        """The handlers by method and path."""
        return {("POST", PATH): self._ask, ("GET", FRONT_PROXY_PATH): self._authority}

    async def forwarded(self, body: bytes) -> Reply:
        """Answer the query of another replica; 421 if this one does not lead."""
        return self._reply(body)

    def _ask(self, request: Request) -> Reply | Awaitable[Reply]:
        reply = self._reply(request.body)
        if reply.status == NOT_LEADING and self._forward is not None:
            return self._forward.ask(request.body, PATH, FORWARD_BUDGET_S)
        return reply

    def _authority(self, _: Request) -> Reply:
        current = self.front_proxy.current
        if current is None:
            return Reply(503, b"the front proxy is not known yet", TEXT)
        return Reply(200, msgspec.json.encode(current))

    def _reply(self, body: bytes) -> Reply:
        if not self._leads():
            return Reply(NOT_LEADING, b"this scheduler does not lead")
        try:
            query = _QUERY.decode(body)
        except UNREADABLE as error:
            return Reply(400, f"invalid decisions query: {error}".encode())
        if query.pod:
            answer = self._decisions.one(query.namespace, query.pod)
        else:
            answer = self._decisions.every(query.namespace)
        return Reply(200, msgspec.json.encode(answer))
