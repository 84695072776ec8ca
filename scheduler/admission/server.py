"""Answers the webhook's questions over a Unix socket: ``POST /place/v1``.

It runs in the loop's own process and thread, so an answer sees exactly the state that
decisions see. Only here do promises get their ids and their time. Who does not lead asks the
leader, if it is told how; what the leader is asked comes in through ``forwarded``.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Awaitable, Callable
from pathlib import Path

import msgspec
import structlog

from scheduler.admission import local_socket
from scheduler.admission.leader_proxy import NOT_LEADING, LeaderProxy
from scheduler.containment import Containment
from scheduler.decide.admission.admit import Admission, Rules, admit, echo, keep, node_kinds
from scheduler.httpserver.messages import TEXT, Reply, Request
from scheduler.loop import Loop
from scheduler.model import well_known
from scheduler.model.admission import (
    ALIVE_PATH,
    PATH,
    RESERVATION_BYTES,
    AdmissionDecision,
    AdmissionQuery,
)
from scheduler.model.json_bounds import UNREADABLE
from scheduler.model.pod import Pod
from scheduler.report.admission_metrics import tell_tiers
from scheduler.report.metrics import Metrics
from scheduler.state.breakers.recreate_budget import WebhookLiveness
from scheduler.watch.decode.pods import POD, to_pod
from scheduler.watch.decode.unreadable import said

ROOM_WAIT_S = 0.4
#: For a standby's question: less than it waits, or a promise would be made to nobody.
ROOM_WAIT_FORWARDED_S = 0.15
ROOM_POLL_S = 0.02
#: What a pod gets at which we failed: nothing of it is changed, and nothing promised.
AS_ASKED = AdmissionDecision()
#: Questions that wait for room at once; any more are answered as they are.
WAITING_MAX = 64

log = structlog.get_logger("answer")
_QUESTION = msgspec.json.Decoder(AdmissionQuery)
_FORWARDED = {200: "answered", NOT_LEADING: "no_leader"}


class AdmissionServer:
    """Serves questions while this process leads; without the lead, ``forward`` asks who has it."""

    def __init__(
        self,
        loop: Loop,
        rules: Rules,
        metrics: Metrics,
        clock: Callable[[], float],
        forward: LeaderProxy | None = None,
        pulse: WebhookLiveness | None = None,
    ) -> None:
        self._loop = loop
        self._contain = Containment(metrics.count_internal_error)
        self._pulse = pulse or WebhookLiveness()
        self._forward = forward
        self._rules = rules
        self._metrics = metrics
        self._clock = clock
        self._waiting = 0

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
            self._pulse.beat(self._clock())
            return Reply(204)
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
        """Answer another replica's question here; 421 without the lead."""
        reply = self._reply(body, ROOM_WAIT_FORWARDED_S)
        return reply if isinstance(reply, Reply) else await reply

    def _reply(self, body: bytes, room_wait_s: float) -> Reply | Awaitable[Reply]:
        """The reply at once, as nearly always, or once there is room for one more promise."""
        self._pulse.asked(self._clock())
        if not self._loop.is_active_leader():
            return Reply(NOT_LEADING, b"this scheduler does not lead")
        try:
            question = _QUESTION.decode(body)
            pod = to_pod(POD.decode(question.pod), question.namespace)
        except UNREADABLE as error:
            return Reply(400, f"question cannot be read: {said(error)}".encode())
        answer: AdmissionDecision | None = AS_ASKED
        with self._contain("admission", pod.key):
            answer = self._answer(question, pod)
        if answer is None:
            return self._reply_later(question, pod, room_wait_s)
        return Reply(200, msgspec.json.encode(answer))

    async def _reply_later(self, question: AdmissionQuery, pod: Pod, room_wait_s: float) -> Reply:
        answer = AS_ASKED
        with self._contain("admission", pod.key):
            answer = await self._answer_later(question, pod, room_wait_s)
        return Reply(200, msgspec.json.encode(answer))

    def _answer(self, question: AdmissionQuery, pod: Pod) -> AdmissionDecision | None:
        """The answer as things are now; None where too many promises wait for their pods."""
        admission = self._admit(question, pod)
        if not admission.is_promised:
            return admission.answer
        if question.dry_run:
            return echo(self._loop.promises, admission, _fresh(), self._clock())
        if not self._may_promise(pod):
            return None
        return self._promise(pod, admission)

    def _may_promise(self, pod: Pod) -> bool:
        """Whether there is room, and a namespace: for others the API server asks nothing."""
        is_known = pod.namespace in self._loop.cluster.namespaces
        return is_known and self._loop.promises.has_room(pod)

    async def _answer_later(
        self, question: AdmissionQuery, pod: Pod, room_wait_s: float
    ) -> AdmissionDecision:
        if await self._room(pod, room_wait_s):
            admission = self._admit(question, pod)
            return self._promise(pod, admission) if admission.is_promised else admission.answer
        log.warning("too many promises wait for their pods", namespace=pod.namespace)
        return AdmissionDecision(node_kinds=node_kinds(self._loop.cluster, pod))

    def _admit(self, question: AdmissionQuery, pod: Pod) -> Admission:
        self._loop.cluster.track_label_keys(pod)
        ticket = self._loop.moves.ticket_for(pod)
        admission = admit(
            self._loop.cluster,
            self._loop.promises,
            self._loop.queue.lacking_one(),
            pod,
            question.scope,
            self._rules,
            now=self._clock(),
            move=ticket.id if ticket is not None else None,
            shunned=self._loop.moves.shunned(pod),
        )
        if not question.dry_run and admission.result != "untouched":
            self._metrics.tiers.labels(admission.result).inc()
            tell_tiers(self._metrics.tier_tries, admission)
            if not admission.is_promised:
                self._loop.journal.admitted(pod, admission, "", self._clock())
        return admission

    def _promise(self, pod: Pod, admission: Admission) -> AdmissionDecision:
        granted = admission.granted
        assert granted is not None
        promise_id = _fresh()
        for old, new in granted.option.changes:
            log.info(
                "tier degraded",
                pod=granted.pod.key,
                change=f"{well_known.mig_profile(old)}->{well_known.mig_profile(new)}",
                reservation=promise_id,
            )
        self._loop.journal.admitted(pod, admission, promise_id, self._clock())
        return keep(self._loop.promises, admission, promise_id, self._clock())

    async def _room(self, pod: Pod, wait_s: float) -> bool:
        """Wait until the pod may be promised something; its namespace may be new to the watch."""
        if self._waiting >= WAITING_MAX:
            return False
        deadline = self._clock() + wait_s
        self._waiting += 1
        try:
            while self._clock() < deadline:
                await asyncio.sleep(ROOM_POLL_S)
                if self._may_promise(pod):
                    return True
        finally:
            self._waiting -= 1
        return False


def _fresh() -> str:
    """A reservation's id that nobody can guess."""
    return "r-" + secrets.token_hex(RESERVATION_BYTES)
