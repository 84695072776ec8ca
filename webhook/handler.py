"""Handles one review: decode, query the scheduler if needed, decide, encode, count.

A review without a query is answered synchronously. The others wait for the scheduler without
delaying other reviews.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable
from typing import Final

import structlog

from scheduler.httpserver.messages import JSON, TEXT, Head, Reply, Request
from scheduler.model import admission
from scheduler.model.admission import AdmissionDecision, Scope
from webhook import admission_review
from webhook.admission_review import Review
from webhook.metrics import Metrics, Result
from webhook.mutate import pod_mutation
from webhook.mutate.pod_mutation import Config, Outcome, PodMutation
from webhook.scheduler_client import SchedulerClient

PATHS: Final[dict[str, Scope]] = {"/mutate": "ours", "/mutate/fallback": "any"}

_log = structlog.get_logger(__name__)


class ReviewHandler:
    """Handles reviews; with ``needs_certificate`` only clients with a certificate are served."""

    def __init__(
        self, link: SchedulerClient, metrics: Metrics, config: Config, *, needs_certificate: bool
    ) -> None:
        self._link = link
        self._metrics = metrics
        self._config = config
        self._needs_certificate = needs_certificate

    def refusal(self, head: Head) -> Reply | None:
        """The rejection before the body is read; None to read it."""
        # Every pod of the cluster can connect; a client CA restricts that to the API server.
        if self._needs_certificate and not head.is_known:
            problem = Reply(403, b"a client certificate is required\n", TEXT)
        elif head.headers.get("Content-Type", "").partition(";")[0].strip() != JSON:
            problem = Reply(415, f"expected Content-Type: {JSON}\n".encode(), TEXT)
        else:
            return None
        self._count(head.path, "malformed", time.perf_counter())
        return problem

    def answer(self, request: Request) -> Reply | Awaitable[Reply]:
        """One review: its response, or an awaitable where the scheduler is queried."""
        started = time.perf_counter()
        path = request.head.path
        try:
            review = admission_review.decode(request.body)
            mutation = self._mutation_of(review, path)
            if mutation is not None and mutation.needs_answer:
                return self._reply_with_answer(review, mutation, path, started)
            return self._reply(review, mutation, None, path, started)
        except admission_review.Malformed as problem:
            self._count(path, "malformed", started)
            return Reply(400, f"{problem}\n".encode(), TEXT)
        except Exception:  # counted here, logged by the server
            self._count(path, "error", started)
            raise

    async def _reply_with_answer(
        self, review: Review, mutation: PodMutation, path: str, started: float
    ) -> Reply:
        try:
            answer = await self._link.ask(_query(review, PATHS[path]))
            if answer is None:
                self._metrics.unanswered()
            return self._reply(review, mutation, answer, path, started)
        except BaseException:  # a disconnected client is counted too
            self._count(path, "error", started)
            raise

    def _mutation_of(self, review: Review, path: str) -> PodMutation | None:
        """The pod under review; None for other requests."""
        pod = admission_review.new_pod(review)
        if pod is None:
            return None
        about = pod_mutation.Request(
            namespace=review.request.namespace,
            scope=PATHS[path],
            dry_run=bool(review.request.dry_run),
        )
        return PodMutation(pod, about, self._config)

    def _reply(
        self,
        review: Review,
        mutation: PodMutation | None,
        answer: AdmissionDecision | None,
        path: str,
        started: float,
    ) -> Reply:
        if mutation is None:
            result: Result = "ignored"
            content = admission_review.encode(review)
        else:
            outcome = mutation.outcome(answer)
            result = _result(outcome)
            content = admission_review.encode(review, outcome)
            # After the response, because the pod's creation waits for the response.
            asyncio.get_running_loop().call_soon(_log_lines, outcome, result)
        self._count(path, result, started)
        return Reply(200, content)

    def _count(self, path: str, result: Result, started: float) -> None:
        self._metrics.reviewed(path, result, time.perf_counter() - started)


def _query(review: Review, scope: Scope) -> admission.AdmissionQuery:
    return admission.AdmissionQuery(
        uid=review.request.uid,
        dry_run=bool(review.request.dry_run),
        namespace=review.request.namespace,
        scope=scope,
        pod=review.request.object,
    )


def _log_lines(outcome: Outcome, result: Result) -> None:
    """One info line, and the steps with the level detail."""
    for number, line in enumerate(outcome.log):
        if number == 0:
            _log.info(line, **_facts(outcome, result))
        else:
            _log.debug(line, detail=True, pod=outcome.pod)


def _facts(outcome: Outcome, result: Result) -> dict[str, str]:
    """The keys of the line of an admission; docs/logs.md explains them."""
    facts = {"pod": outcome.pod, "result": result}
    if reservation := outcome.audit.get("reservation"):
        facts["reservation"] = reservation
    if outcome.denial is not None:
        facts["reason"] = outcome.denial.message
    return facts


def _result(outcome: Outcome) -> Result:
    if outcome.denial is not None:
        return "denied"
    return "patched" if outcome.patch else "unchanged"
