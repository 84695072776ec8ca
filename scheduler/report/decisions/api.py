"""The decisions API: explains decisions, and serves a snapshot of the state for replay.

It changes nothing: an answer comes from the journal, or from a decision that has no effect. The
long answers take turns, in parts (``questions``).
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import islice
from typing import Final

import msgspec
from aiohttp import web

from scheduler.model.gpu.gpu_map import shown
from scheduler.model.integer_text import whole
from scheduler.model.limits import DECISIONS_MAX, DECISIONS_OF_A_POD_MAX, SNAPSHOT_WAIT_S_MAX
from scheduler.report.decisions.api_types import API_VERSION, Latest, Leader
from scheduler.report.decisions.capacity import CapacityReport
from scheduler.report.decisions.cost import CostReport
from scheduler.report.decisions.guard import Handler, guarded, refused
from scheduler.report.decisions.journal import DecisionContext, Journal
from scheduler.report.decisions.pod_answers import PodAnswers, decided
from scheduler.report.decisions.questions import (
    RETRY_AFTER_S,
    Busy,
    QuestionQueue,
    encoded,
    paused,
)
from scheduler.report.decisions.renderer import DecisionRenderer
from scheduler.report.decisions.state_capture import StateCapture
from scheduler.report.decisions.waiters import TooManyWait

LATEST_DEFAULT: Final = 100
#: Maximum number of rejecting nodes of each decision in a list.
ROWS_IN_LIST_MAX: Final = 50
WAIT_DEFAULT_S: Final = 60


class DecisionsHandler:
    """Answers requests about one process's decisions; long answers wait for their turn."""

    def __init__(
        self,
        context: DecisionContext,
        journal: Journal,
        capture: StateCapture,
        capacity: CapacityReport,
        costs: CostReport,
        renderer: DecisionRenderer,
        leader: Callable[[], Leader],
        questions: QuestionQueue,
    ) -> None:
        self._questions = questions
        self._journal = journal
        self._capture = capture
        self._capacity = capacity
        self._costs = costs
        self._renderer = renderer
        self._leader = leader
        self._pods = PodAnswers(context, journal, renderer, lambda: leader().leads)

    def application(self) -> web.Application:
        """The server's routes behind their guard."""
        app = web.Application(middlewares=[guarded])
        app.router.add_get("/decisions", self._in_turn(self._latest))
        app.router.add_get("/decisions/{namespace}/{pod}", self._in_turn(self._about))
        app.router.add_get("/capacity", self._in_turn(self._devices))
        app.router.add_get("/cost", self._in_turn(self._cost))
        app.router.add_get("/snapshot", self._snapshot)
        app.router.add_get("/leader", self._leadership)
        return app

    def _in_turn(self, handler: Handler) -> Handler:
        async def taking_turns(request: web.Request) -> web.StreamResponse:
            try:
                async with self._questions.turn():
                    if request.transport is None:  # the client did not wait for its turn
                        return web.Response(status=400)
                    return await handler(request)
            except Busy as error:
                after = {"Retry-After": str(RETRY_AFTER_S)}
                raise refused(web.HTTPServiceUnavailable, str(error), after) from None

        return taking_turns

    async def _latest(self, request: web.Request) -> web.Response:
        limit = _number(request, "limit", LATEST_DEFAULT, DECISIONS_MAX)
        records = list(islice(self._journal.newest(), limit))
        latest = Latest(
            api_version=API_VERSION,
            leads=self._leader().leads,
            kept=len(self._journal),
            awaited=len(self._journal.awaited),
            decisions=await decided(self._renderer, records, ROWS_IN_LIST_MAX),
        )
        return _response(await encoded(latest, "decisions", part=1))

    async def _about(self, request: web.Request) -> web.Response:
        namespace, name = request.match_info["namespace"], request.match_info["pod"]
        most = DECISIONS_OF_A_POD_MAX
        limit = _number(request, "limit", most, most)
        about = await self._pods.about(namespace, name, limit)
        if about is None:
            raise refused(web.HTTPNotFound, self._nothing(f"{namespace}/{name}"))
        return _response(await encoded(about, "decisions", part=1))

    async def _devices(self, request: web.Request) -> web.Response:
        with_holders = request.query.get("holders") == "1"
        with_nodes = with_holders or request.query.get("nodes") == "1"
        parts = self._capacity.take(with_nodes=with_nodes, with_holders=with_holders)
        return _response(await encoded(await paused(parts), "nodes", "waiting"))

    async def _cost(self, request: web.Request) -> web.Response:
        parts = self._costs.take(
            with_nodes=request.query.get("nodes") == "1",
            with_pods=request.query.get("pods") == "1",
            label=request.query.get("label", ""),
        )
        return _response(await encoded(await paused(parts), "namespaces", "nodes", "pods"))

    async def _snapshot(self, request: web.Request) -> web.Response:
        key = request.query.get("next")
        if key is None:
            return _json(self._capture.take())
        wait_s = _number(request, "wait", WAIT_DEFAULT_S, SNAPSHOT_WAIT_S_MAX)
        try:
            caught = await self._journal.awaited.next(key, wait_s)
        except TooManyWait:
            text = "too many snapshots wait for a decision already"
            raise refused(web.HTTPTooManyRequests, text) from None
        except TimeoutError:
            text = f"no decision about {shown(key)} within {wait_s} s"
            raise refused(web.HTTPNotFound, text) from None
        return _json(self._capture.of(caught))

    async def _leadership(self, _: web.Request) -> web.Response:
        return _json(self._leader())

    def _nothing(self, key: str) -> str:
        kept = len(self._journal)
        leads = (
            "this process is the leader"
            if self._leader().leads
            else "this process is not the leader"
        )
        return (
            f"{key} is unknown: it is not pending here, and none of the {kept} stored"
            f" decisions is about it ({leads})"
        )


def _number(request: web.Request, name: str, default: int, most: int) -> int:
    text = request.query.get(name)
    if text is None:
        return default
    number = whole(text, most)
    if not number:
        raise refused(web.HTTPBadRequest, f"{name}: expected a number from 1 to {most}")
    return number


def _json(content: msgspec.Struct) -> web.Response:
    return _response(msgspec.json.encode(content))


def _response(body: bytes) -> web.Response:
    return web.Response(body=body, content_type="application/json")
