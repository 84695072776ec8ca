"""The decisions API: explains decisions, and serves a snapshot of the state for replay.

It listens on the loopback interface only and is reached through ``kubectl port-forward``, so RBAC
guards it. A foreign page in a browser on this machine must not reach it: other Host names (DNS
rebinding) and foreign Origins are refused.

It changes nothing: an answer comes from the journal, or from a decision that has no effect.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable
from itertools import islice
from typing import Final

import msgspec
from aiohttp import web

from scheduler.config import LOOPBACK
from scheduler.model.gpu.gpu_map import shown
from scheduler.model.integer_text import whole
from scheduler.model.limits import DECISIONS_MAX, DECISIONS_OF_A_POD_MAX, SNAPSHOT_WAIT_S_MAX
from scheduler.report.decisions.api_types import API_VERSION, Latest, Leader
from scheduler.report.decisions.capacity import CapacityReport
from scheduler.report.decisions.journal import DecisionContext, Journal
from scheduler.report.decisions.pod_answers import PodAnswers
from scheduler.report.decisions.renderer import DecisionRenderer
from scheduler.report.decisions.state_capture import StateCapture
from scheduler.report.decisions.waiters import TooManyWait

LATEST_DEFAULT: Final = 100
#: Maximum number of rejecting nodes of each decision in a list.
ROWS_IN_LIST_MAX: Final = 50
WAIT_DEFAULT_S: Final = 60
PATHS: Final = "/decisions /decisions/NAMESPACE/POD /capacity /snapshot /leader"

_OWN_HOST: Final = re.compile(rf"(?:{'|'.join(map(re.escape, LOOPBACK))})(?::[0-9]{{1,5}})?")

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


class DecisionsHandler:
    """Answers requests about one process's decisions."""

    def __init__(
        self,
        context: DecisionContext,
        journal: Journal,
        capture: StateCapture,
        capacity: CapacityReport,
        renderer: DecisionRenderer,
        leader: Callable[[], Leader],
    ) -> None:
        self._journal = journal
        self._capture = capture
        self._capacity = capacity
        self._renderer = renderer
        self._leader = leader
        self._pods = PodAnswers(context, journal, renderer, lambda: leader().leads)

    def application(self) -> web.Application:
        """The server's routes behind their guard."""
        app = web.Application(middlewares=[guarded])
        app.router.add_get("/decisions", self._latest)
        app.router.add_get("/decisions/{namespace}/{pod}", self._about)
        app.router.add_get("/capacity", self._devices)
        app.router.add_get("/snapshot", self._snapshot)
        app.router.add_get("/leader", self._leadership)
        return app

    async def _latest(self, request: web.Request) -> web.Response:
        limit = _number(request, "limit", LATEST_DEFAULT, DECISIONS_MAX)
        records = islice(self._journal.newest(), limit)
        return _json(
            Latest(
                api_version=API_VERSION,
                leads=self._leader().leads,
                kept=len(self._journal),
                awaited=len(self._journal.awaited),
                decisions=tuple(self._renderer.decided(r, ROWS_IN_LIST_MAX) for r in records),
            )
        )

    async def _about(self, request: web.Request) -> web.Response:
        namespace, name = request.match_info["namespace"], request.match_info["pod"]
        most = DECISIONS_OF_A_POD_MAX
        limit = _number(request, "limit", most, most)
        answer = self._pods.about(namespace, name, limit)
        if answer is None:
            raise _refused(web.HTTPNotFound, self._nothing(f"{namespace}/{name}"))
        return _json(answer)

    async def _devices(self, request: web.Request) -> web.Response:
        with_holders = request.query.get("holders") == "1"
        with_nodes = with_holders or request.query.get("nodes") == "1"
        return _json(await self._capacity.take(with_nodes=with_nodes, with_holders=with_holders))

    async def _snapshot(self, request: web.Request) -> web.Response:
        key = request.query.get("next")
        if key is None:
            return _json(self._capture.take())
        wait_s = _number(request, "wait", WAIT_DEFAULT_S, SNAPSHOT_WAIT_S_MAX)
        try:
            caught = await self._journal.awaited.next(key, wait_s)
        except TooManyWait:
            text = "too many snapshots wait for a decision already"
            raise _refused(web.HTTPTooManyRequests, text) from None
        except TimeoutError:
            text = f"no decision about {shown(key)} within {wait_s} s"
            raise _refused(web.HTTPNotFound, text) from None
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


@web.middleware
async def guarded(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Allow only local programs, and pages of this server."""
    host = request.headers.get("Host", "")
    if not _OWN_HOST.fullmatch(host):
        raise _refused(web.HTTPForbidden, "the Host is not localhost; use kubectl port-forward")
    origin = request.headers.get("Origin")
    if origin is not None and origin != f"http://{host}":
        raise _refused(web.HTTPForbidden, "cross-origin requests are refused")
    if request.headers.get("Sec-Fetch-Site", "none") not in ("none", "same-origin"):
        raise _refused(web.HTTPForbidden, "cross-origin requests are refused")
    try:
        response = await handler(request)
    except web.HTTPNotFound as error:
        if error.content_type == "application/json":
            raise
        raise _refused(web.HTTPNotFound, f"unknown path; try {PATHS}") from None
    response.headers["X-Content-Type-Options"] = "nosniff"
    response.headers["Cross-Origin-Resource-Policy"] = "same-origin"
    return response


def _number(request: web.Request, name: str, default: int, most: int) -> int:
    text = request.query.get(name)
    if text is None:
        return default
    number = whole(text, most)
    if not number:
        raise _refused(web.HTTPBadRequest, f"{name}: expected a number from 1 to {most}")
    return number


def _json(answer: msgspec.Struct) -> web.Response:
    return web.Response(body=msgspec.json.encode(answer), content_type="application/json")


def _refused(kind: type[web.HTTPError], text: str) -> web.HTTPError:
    """An error in the format of the API server's, so that one client reads both."""
    status = {"kind": "Status", "status": "Failure", "code": kind.status_code, "message": text}
    return kind(text=msgspec.json.encode(status).decode(), content_type="application/json")
