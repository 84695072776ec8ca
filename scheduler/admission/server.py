"""Answers admission queries of the webhook over a Unix socket: ``POST /place/v1``.

``more`` has the pages of the aggregated decisions API, if it is enabled.

It runs in the loop's own process and thread, so an answer uses exactly the state of decisions. Only
this server creates the ids and times of reservations. A replica that does not lead forwards queries
to the leader if configured; the leader receives them through ``forwarded``.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Final

import msgspec
import structlog

from scheduler.admission import local_socket
from scheduler.admission.aggregated import Page
from scheduler.admission.leader_proxy import NOT_LEADING, LeaderProxy
from scheduler.decide.admission.admit import (
    Admission,
    Rules,
    as_requested,
    reserve,
    reserve_dry_run,
    with_migration,
    with_tier,
)
from scheduler.decide.admission.map_nodes import node_kinds
from scheduler.httpserver.messages import TEXT, Reply, Request
from scheduler.loop import Loop
from scheduler.model import well_known
from scheduler.model.admission import (
    ALIVE_PATH,
    PATH,
    RESERVATION_BYTES,
    VERSION,
    AdmissionDecision,
    AdmissionQuery,
    OtherVersions,
)
from scheduler.model.json_bounds import UNREADABLE
from scheduler.model.pods.pod import Pod
from scheduler.report.admission_metrics import count_tier_attempts
from scheduler.report.metrics import Metrics
from scheduler.state.breakers.recreate_budget import WebhookLiveness
from scheduler.watch.decode.pods import POD, to_pod
from scheduler.watch.decode.unreadable import problem_text

ROOM_WAIT_S = 0.4
#: For a query that a standby forwarded: less than the standby waits, or a reservation is lost.
ROOM_WAIT_FORWARDED_S = 0.15
ROOM_POLL_S = 0.02
#: The answer after an internal error: the pod is not changed, and nothing is reserved.
AS_ASKED = AdmissionDecision()
#: Queries that wait for room at once; others are answered without a reservation.
WAITING_MAX = 64

NO_PAGES: Final[Mapping[tuple[str, str], Page]] = {}

log = structlog.get_logger("admission")
_QUERY = msgspec.json.Decoder(AdmissionQuery)
_FORWARDED = {200: "answered", NOT_LEADING: "no_leader"}


class AdmissionServer:
    """Answers queries while this process is the leader; else ``forward`` asks the leader."""

    def __init__(
        self,
        loop: Loop,
        rules: Rules,
        metrics: Metrics,
        clock: Callable[[], float],
        forward: LeaderProxy | None = None,
        webhook: WebhookLiveness | None = None,
        more: Mapping[tuple[str, str], Page] = NO_PAGES,
    ) -> None:
        self._loop = loop
        self._contain = loop.contain
        self._webhook = webhook or WebhookLiveness()
        self._forward = forward
        self._more = more
        self._rules = rules
        self._metrics = metrics
        self._clock = clock
        self._waiting = 0
        self._webhook_versions = OtherVersions()

    async def serve(self, socket: Path) -> None:
        """Listen until cancelled."""
        try:
            await local_socket.serve(self._handle, socket, self._metrics.connections.of("socket"))
        finally:
            if self._forward is not None:
                await self._forward.close()

    def _handle(self, request: Request) -> Reply | Awaitable[Reply]:
        asked = (request.head.method, request.head.path)
        if asked == ("GET", ALIVE_PATH):
            self._webhook.beat(self._clock())
            return Reply(204)
        if asked in self._more:
            return self._more[asked](request)
        if asked != ("POST", PATH):
            return Reply(404, b"there is nothing here", TEXT)
        reply = self._reply(request.body, ROOM_WAIT_S)
        if isinstance(reply, Reply) and reply.status == NOT_LEADING and self._forward is not None:
            return self._ask_leader(self._forward, request.body)
        return reply

    async def _ask_leader(self, forward: LeaderProxy, body: bytes) -> Reply:
        reply = await forward.ask(body)
        self._metrics.forwarded.labels(_FORWARDED.get(reply.status, "unanswered")).inc()
        return reply

    async def forwarded(self, body: bytes) -> Reply:
        """Answer the query of another replica; 421 if this one does not lead."""
        reply = self._reply(body, ROOM_WAIT_FORWARDED_S)
        return reply if isinstance(reply, Reply) else await reply

    def _reply(self, body: bytes, room_wait_s: float) -> Reply | Awaitable[Reply]:
        """The reply: usually at once, else when there is room for one more reservation."""
        self._webhook.asked(self._clock())
        if not self._loop.gate.is_open():
            return Reply(NOT_LEADING, b"this scheduler does not lead")
        try:
            query = _QUERY.decode(body)
            pod = to_pod(POD.decode(query.pod), query.namespace)
        except UNREADABLE as error:
            return Reply(400, f"invalid admission query: {problem_text(error)}".encode())
        if self._webhook_versions.is_news(query.version):
            log.info("webhook of another version", version=query.version, own=VERSION)
        answer: AdmissionDecision | None = AS_ASKED
        with self._contain("admission", pod.key):
            answer = self._answer(query, pod)
        if answer is None:
            return self._reply_later(query, pod, room_wait_s)
        return _sent(answer)

    async def _reply_later(self, query: AdmissionQuery, pod: Pod, room_wait_s: float) -> Reply:
        answer = AS_ASKED
        with self._contain("admission", pod.key):
            answer = await self._answer_later(query, pod, room_wait_s)
        return _sent(answer)

    def _answer(self, query: AdmissionQuery, pod: Pod) -> AdmissionDecision | None:
        """The answer for the current state; None if too many reservations wait for their pods."""
        admission = self._admit(query, pod)
        if not admission.is_reserved:
            return admission.answer
        if query.dry_run:
            return reserve_dry_run(self._loop.reservations, admission, _new_id(), self._clock())
        if not self._may_reserve(pod):
            return None
        return self._reserve(pod, admission)

    def _may_reserve(self, pod: Pod) -> bool:
        """Whether there is room, and the namespace exists: reviews of others are not genuine."""
        is_known = pod.namespace in self._loop.cluster.namespaces.known
        return is_known and self._loop.reservations.has_room(pod)

    async def _answer_later(
        self, query: AdmissionQuery, pod: Pod, room_wait_s: float
    ) -> AdmissionDecision:
        if await self._room(pod, room_wait_s):
            admission = self._admit(query, pod)
            return self._reserve(pod, admission) if admission.is_reserved else admission.answer
        log.warning("reservation limit reached", namespace=pod.namespace)
        return AdmissionDecision(node_kinds=node_kinds(self._loop.cluster, pod))

    def _admit(self, query: AdmissionQuery, pod: Pod) -> Admission:
        loop, rules = self._loop, self._rules
        loop.cluster.track_label_keys(pod)
        untouched = as_requested(loop.cluster, loop.reservations, pod, query.scope, rules)
        migrations = loop.controllers.migrations
        migration = migrations.migration_for(pod)
        move = migration.id if migration is not None else None
        if untouched is not None:
            return with_migration(untouched, pod, move)
        admission = with_tier(
            loop.cluster,
            loop.reservations,
            loop.queue.lacking_one(),
            pod,
            rules,
            now=self._clock(),
            move=move,
            avoided_tiers=migrations.avoided_tiers(pod),
        )
        if not query.dry_run:
            self._metrics.tiers.labels(admission.result).inc()
            count_tier_attempts(self._metrics.tier_tries, admission)
            if not admission.is_reserved:
                loop.journal.admitted(pod, admission, "", self._clock())
        return admission

    def _reserve(self, pod: Pod, admission: Admission) -> AdmissionDecision:
        granted = admission.granted
        assert granted is not None
        reservation_id = _new_id()
        for old, new in granted.candidate.changes:
            log.info(
                "tier degraded",
                pod=granted.pod.key,
                change=f"{well_known.mig_profile(old)}->{well_known.mig_profile(new)}",
                reservation=reservation_id,
            )
        self._loop.journal.admitted(pod, admission, reservation_id, self._clock())
        return reserve(self._loop.reservations, admission, reservation_id, self._clock())

    async def _room(self, pod: Pod, wait_s: float) -> bool:
        """Wait until the pod may have a reservation; its namespace may be new to the watch."""
        if self._waiting >= WAITING_MAX:
            return False
        deadline = self._clock() + wait_s
        self._waiting += 1
        try:
            while self._clock() < deadline:
                await asyncio.sleep(ROOM_POLL_S)
                if self._may_reserve(pod):
                    return True
        finally:
            self._waiting -= 1
        return False


def _sent(answer: AdmissionDecision) -> Reply:
    return Reply(200, msgspec.json.encode(msgspec.structs.replace(answer, version=VERSION)))


def _new_id() -> str:
    """An id of a reservation that cannot be guessed."""
    return "r-" + secrets.token_hex(RESERVATION_BYTES)
