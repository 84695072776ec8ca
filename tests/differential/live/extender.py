"""The HTTP server that kube-scheduler asks as its extender (``pkg/scheduler/extender.go``).

The filter verb brings a pod with the names of its feasible nodes. The answer is one of them, so
that the pod goes where our side puts it, or an error, after which the pod is not placed.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any, Final

import msgspec
from aiohttp import web

LOOPBACK: Final = "127.0.0.1"
GIVEN_UP: Final = "the pod is given up"


class _Meta(msgspec.Struct, frozen=True):
    uid: str


class _Pod(msgspec.Struct, frozen=True):
    metadata: _Meta


class _Arguments(msgspec.Struct, frozen=True, rename={"pod": "Pod", "node_names": "NodeNames"}):
    """ExtenderArgs, as far as it is read."""

    pod: _Pod
    node_names: tuple[str, ...]


_ARGUMENTS: Final = msgspec.json.Decoder(_Arguments)


class _MetaPod(msgspec.Struct, frozen=True, rename={"uid": "UID"}):
    uid: str


class MetaVictims(
    msgspec.Struct, frozen=True, rename={"pods": "Pods", "violations": "NumPDBViolations"}
):
    """The victims on one node."""

    pods: tuple[_MetaPod, ...]
    violations: int


class _PreemptionArguments(
    msgspec.Struct, frozen=True, rename={"pod": "Pod", "victims": "NodeNameToMetaVictims"}
):
    pod: _Pod
    victims: dict[str, MetaVictims]


_PREEMPTION: Final = msgspec.json.Decoder(_PreemptionArguments)


class Question:
    """One call of a verb; answer it once. The preempt verb brings ``victims``."""

    def __init__(
        self, nodes: tuple[str, ...], victims: dict[str, MetaVictims] | None = None
    ) -> None:
        self.nodes = nodes
        self.victims = victims
        self._answer: asyncio.Future[dict[str, Any]] = asyncio.get_running_loop().create_future()

    @property
    def pods(self) -> frozenset[str]:
        """The uids of all victims."""
        return frozenset(pod.uid for one in (self.victims or {}).values() for pod in one.pods)

    def choose(self, node_name: str) -> None:
        """The pod goes to this node."""
        self._answer.set_result({"NodeNames": [node_name]})

    def agree(self) -> None:
        """kube-scheduler chooses among the victims that it found."""
        self._answer.set_result({"NodeNameToMetaVictims": msgspec.to_builtins(self.victims)})

    def refuse(self, why: str) -> None:
        """The pod goes nowhere, and there is no preemption."""
        if not self._answer.done():
            # The answer about victims has no error; without victims there is no preemption.
            self._answer.set_result({"Error": why} if self.victims is None else {})

    async def answer(self) -> dict[str, Any]:
        """ExtenderFilterResult."""
        return await self._answer


class Extender:
    """Keeps the open question of each pod; ``wake`` is called when one comes in.

    kube-scheduler decides one pod at a time, so an unanswered question stops it.
    """

    def __init__(self, wake: Callable[[], None]) -> None:
        self.questions: dict[str, Question] = {}
        self._given_up: set[str] = set()
        self._wake = wake

    @asynccontextmanager
    async def serving(self) -> AsyncIterator[str]:
        """Serve on a free port; the value is the URL prefix of the verbs."""
        application = web.Application(client_max_size=2**24)
        application.router.add_post("/filter", self._filter)
        application.router.add_post("/preempt", self._preempt)
        runner = web.AppRunner(application, access_log=None)
        await runner.setup()
        site = web.TCPSite(runner, LOOPBACK, 0)
        await site.start()
        try:
            port = runner.addresses[0][1]
            yield f"http://{LOOPBACK}:{port}"
        finally:
            self.refuse_all()
            await runner.cleanup()

    def refuse_all(self) -> None:
        """Answer what is open, so that kube-scheduler goes on."""
        for question in self.questions.values():
            question.refuse("the sequence has ended")

    def give_up(self, uid: str) -> None:
        """Refuse what is asked about a pod, and what comes later.

        kube-scheduler may try a rejected pod once more before it sees that the pod is gone: its
        informers store an object before its handlers have read it, so an event can follow.
        """
        self._given_up.add(uid)
        if uid in self.questions:
            self.questions[uid].refuse(GIVEN_UP)

    async def _filter(self, request: web.Request) -> web.Response:
        arguments = _ARGUMENTS.decode(await request.read())
        return await self._ask(arguments.pod.metadata.uid, Question(arguments.node_names))

    async def _preempt(self, request: web.Request) -> web.Response:
        arguments = _PREEMPTION.decode(await request.read())
        return await self._ask(arguments.pod.metadata.uid, Question((), arguments.victims))

    async def _ask(self, uid: str, question: Question) -> web.Response:
        if uid in self._given_up:
            question.refuse(GIVEN_UP)
            return web.json_response(await question.answer())
        self.questions[uid] = question
        self._wake()
        answer = await question.answer()
        if self.questions.get(uid) is question:
            del self.questions[uid]
        return web.json_response(answer)
