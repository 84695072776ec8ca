"""Answers the webhook's queries for the aggregated decisions API.

The API server has authorised the reader for the namespace of the query; the webhook checked that
the query came from the API server. The answer has what readers of that namespace may know, and
nothing else. A standby forwards a query to the leader once.

An answer takes its turn among the questions of the decisions API, in parts: readers of namespaces
never delay the scheduling loop by more than one part.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Final

import msgspec

from scheduler.admission.front_proxy import FrontProxyReader
from scheduler.admission.leader_proxy import NOT_LEADING, LeaderProxy
from scheduler.httpserver.messages import TEXT, Reply, Request
from scheduler.model.decisions.messages import (
    BUSY,
    FRONT_PROXY_PATH,
    PATH,
    DecisionsQuery,
    NamespaceAnswer,
)
from scheduler.model.json_bounds import UNREADABLE
from scheduler.report.decisions.namespace_decisions import NamespaceDecisions
from scheduler.report.decisions.questions import RETRY_AFTER_S, Busy, QuestionQueue

#: A decision on the current state of a large cluster takes longer than an admission.
FORWARD_BUDGET_S: Final = 2.0
#: The longest wait for the turn: less than a standby waits for the whole answer.
TURN_WAIT_S: Final = 1.5

_NOT_LEADING: Final = Reply(NOT_LEADING, b"this scheduler does not lead")
_QUERY: Final = msgspec.json.Decoder(DecisionsQuery)

Page = Callable[[Request], Reply | Awaitable[Reply]]


class AggregatedDecisions:
    """Answers while ``leads``; else ``forward`` asks the leader."""

    def __init__(
        self,
        decisions: NamespaceDecisions,
        leads: Callable[[], bool],
        front_proxy: FrontProxyReader,
        questions: QuestionQueue,
        forward: LeaderProxy | None = None,
        turn_wait_s: float = TURN_WAIT_S,
    ) -> None:
        self._decisions = decisions
        self._leads = leads
        self.front_proxy = front_proxy
        self._questions = questions
        self._forward = forward
        self._turn_wait_s = turn_wait_s

    @property
    def pages(self) -> Mapping[tuple[str, str], Page]:
        """The handlers by method and path."""
        return {("POST", PATH): self._ask, ("GET", FRONT_PROXY_PATH): self._authority}

    async def forwarded(self, body: bytes) -> Reply:
        """Answer the query of another replica; 421 if this one does not lead."""
        return await self._reply(body)

    async def _ask(self, request: Request) -> Reply:
        reply = await self._reply(request.body)
        if reply.status == NOT_LEADING and self._forward is not None:
            return await self._forward.ask(request.body, PATH, FORWARD_BUDGET_S)
        return reply

    def _authority(self, _: Request) -> Reply:
        current = self.front_proxy.current
        if current is None:
            return Reply(503, b"the front proxy is not known yet", TEXT)
        return Reply(200, msgspec.json.encode(current))

    async def _reply(self, body: bytes) -> Reply:
        if not self._leads():
            return _NOT_LEADING
        try:
            query = _QUERY.decode(body)
        except UNREADABLE as error:
            return Reply(400, f"invalid decisions query: {error}".encode())
        try:
            async with self._questions.turn(self._turn_wait_s):
                if not self._leads():
                    return _NOT_LEADING
                return Reply(200, msgspec.json.encode(await self._answer(query)))
        except Busy:
            return Reply(BUSY, msgspec.json.encode(NamespaceAnswer(retry_after_s=RETRY_AFTER_S)))

    async def _answer(self, query: DecisionsQuery) -> NamespaceAnswer:
        if query.pod:
            return await self._decisions.one(query.namespace, query.pod)
        return await self._decisions.every(query.namespace)
