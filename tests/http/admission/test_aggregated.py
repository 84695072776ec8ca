"""The decisions of a namespace over the socket, through a standby, and the front proxy."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from pathlib import Path

import msgspec
import pytest
from structlog.testing import capture_logs

from scheduler.admission import leader_proxy
from scheduler.admission.aggregated import TURN_WAIT_S, AggregatedDecisions
from scheduler.admission.front_proxy import PATH as CONFIG_MAP
from scheduler.admission.front_proxy import FrontProxyReader, front_proxy_of
from scheduler.admission.leader_proxy import NOT_LEADING, LeaderProxy
from scheduler.admission.server import AdmissionServer
from scheduler.httpserver.connection_metrics import uncounted
from scheduler.httpserver.messages import Head, Reply, Request
from scheduler.model.decisions.messages import (
    BUSY,
    FRONT_PROXY_PATH,
    PATH,
    FrontProxy,
    NamespaceAnswer,
)
from scheduler.model.limits import QUESTIONS_WAITING_MAX
from scheduler.report.decisions.api_types import PodAnswer
from scheduler.report.decisions.namespace_decisions import NamespaceDecisions
from scheduler.report.decisions.pod_answers import PodAnswers
from scheduler.report.decisions.questions import QuestionQueue
from scheduler.report.decisions.renderer import DecisionRenderer
from scheduler.state import event as ev
from scheduler.watch.client import Client
from tests.builders import node, pod
from tests.http.admission.test_admission_server import RULES
from tests.http.admission.test_leader_proxy import OURS, listening, write
from tests.http.fakeapi import FakeApi, failure, reply
from tests.unit.loop.loop_world import NO_CLIENT, Stage, playing

NOON = datetime(2026, 11, 27, 12, tzinfo=UTC)
CA = "-----BEGIN CERTIFICATE-----"
PUBLISHED = {
    "data": {
        "client-ca-file": "another one",
        "requestheader-client-ca-file": CA,
        "requestheader-allowed-names": '["front-proxy-client"]',
    }
}


def aggregated(
    stage: Stage,
    client: Client = NO_CLIENT,
    forward: LeaderProxy | None = None,
    questions: QuestionQueue | None = None,
    turn_wait_s: float = TURN_WAIT_S,
) -> AggregatedDecisions:
    """The handlers of one replica."""
    renderer = DecisionRenderer(stage.clock, lambda: NOON)
    pods = PodAnswers(stage.loop, stage.journal, renderer, stage.leader.leads)
    decisions = NamespaceDecisions(stage.loop, stage.journal, pods, stage.clock)
    reader = FrontProxyReader(client)
    return AggregatedDecisions(
        *(decisions, stage.loop.gate.is_open, reader, questions or QuestionQueue(), forward),
        turn_wait_s=turn_wait_s,
    )


class Replica:
    """One replica's socket, asked as its webhook does."""

    def __init__(self, stage: Stage, handlers: AggregatedDecisions) -> None:
        self.stage = stage
        self._server = AdmissionServer(
            stage.loop, RULES, stage.metrics, stage.clock, more=handlers.pages
        )

    async def reply(self, method: str, path: str, body: bytes = b"") -> Reply:
        """The answer to one request."""
        reply = self._server._handle(Request(Head(method, path, {}), body))
        return reply if isinstance(reply, Reply) else await reply

    async def ask(self, **query: str) -> NamespaceAnswer:
        """The answer to a query, which must be given."""
        reply = await self.reply("POST", PATH, msgspec.json.encode(query))
        assert reply.status == 200, reply
        return msgspec.json.decode(reply.content, type=NamespaceAnswer)


async def with_pods(stage: Stage) -> None:
    """A full node: one GPU of team/own, three of rival/secret; team/late waits behind a rival."""
    stage.see(ev.NodeUpdated(node("a", gpus=4)))
    stage.see(ev.PodUpdated(pod("own", gpus=1, node="a")))
    stage.see(ev.PodUpdated(pod("secret", gpus=3, node="a", namespace="rival")))
    stage.sync()
    stage.see(ev.PodUpdated(pod("first", gpus=2, namespace="rival")))
    stage.see(ev.PodUpdated(pod("late", gpus=2, created=1)))
    await stage.quiet()


@pytest.fixture
async def leader() -> AsyncIterator[Replica]:
    async with playing(Stage()) as stage:
        await with_pods(stage)
        yield Replica(stage, aggregated(stage))


async def test_answer_is_about_one_namespace_only(leader: Replica) -> None:
    listed = await leader.ask(namespace="team")
    theirs = await leader.ask(namespace="rival")
    [late] = (await leader.ask(namespace="team", pod="late")).decisions

    assert [one.pod for one in listed.decisions] == ["late"]
    assert [one.pod for one in theirs.decisions] == ["first"]
    text = bytes(late.answer).decode()
    assert "secret" not in text
    assert "first" not in text
    answer = msgspec.json.decode(text, type=PodAnswer)
    assert answer.outlook is not None
    assert answer.outlook.closest is not None
    assert [one.pod for one in answer.outlook.closest.holders] == ["own"]
    assert answer.outlook.closest.elsewhere == 1
    assert answer.waiting is not None
    assert (answer.waiting.position, answer.waiting.of, answer.waiting.before) == (2, 2, ())


async def test_pod_of_another_namespace_is_unknown(leader: Replica) -> None:
    assert (await leader.ask(namespace="team", pod="first")).decisions == ()


async def test_invalid_query_is_rejected(leader: Replica) -> None:
    reply = await leader.reply("POST", PATH, b"{}")

    assert reply.status == 400
    assert b"namespace" in reply.content


QUERY = msgspec.json.encode({"namespace": "team"})


async def test_query_takes_its_turn_among_the_questions() -> None:
    questions = QuestionQueue()
    async with playing(Stage()) as stage:
        await with_pods(stage)
        replica = Replica(stage, aggregated(stage, questions=questions))
        async with questions.turn():
            asked = [
                asyncio.create_task(replica.reply("POST", PATH, QUERY))
                for _ in range(QUESTIONS_WAITING_MAX)
            ]
            await asyncio.sleep(0)
            assert questions.waiting == QUESTIONS_WAITING_MAX
            busy = await replica.reply("POST", PATH, QUERY)
        answers = await asyncio.gather(*asked)

    assert busy.status == BUSY
    found = msgspec.json.decode(busy.content, type=NamespaceAnswer)
    assert found == NamespaceAnswer(retry_after_s=2)
    assert {reply.status for reply in answers} == {200}


async def test_query_gives_its_turn_up_before_its_client_does() -> None:
    """The standby or the webhook does not tell that it stopped waiting."""
    questions = QuestionQueue()
    async with playing(Stage()) as stage:
        await with_pods(stage)
        replica = Replica(stage, aggregated(stage, questions=questions, turn_wait_s=0.0))
        async with questions.turn():
            busy = await replica.reply("POST", PATH, QUERY)

    assert (busy.status, questions.waiting) == (BUSY, 0)


async def test_leader_that_lost_the_lease_meanwhile_does_not_answer() -> None:
    questions = QuestionQueue()
    async with playing(Stage()) as stage:
        await with_pods(stage)
        replica = Replica(stage, aggregated(stage, questions=questions))
        async with questions.turn():
            asked = asyncio.create_task(replica.reply("POST", PATH, QUERY))
            await asyncio.sleep(0)
            stage.leader.is_leading = False

        assert (await asked).status == NOT_LEADING


async def test_socket_has_these_pages_only_if_enabled(leader: Replica) -> None:
    stage = leader.stage
    without = AdmissionServer(stage.loop, RULES, stage.metrics, stage.clock)

    reply = without._handle(Request(Head("POST", PATH, {}), b"{}"))

    assert isinstance(reply, Reply)
    assert reply.status == 404


async def test_standby_forwards_the_query_to_the_leader(tmp_path: Path) -> None:
    settings = write(tmp_path / "leader", OURS)
    async with playing(Stage()) as leads, playing(Stage()) as stands_by:
        await with_pods(leads)
        stands_by.leader.is_leading = False
        await with_pods(stands_by)
        questions = QuestionQueue()
        handlers = aggregated(leads, questions=questions, turn_wait_s=0.0)
        answers = {PATH: handlers.forwarded}
        serving = asyncio.create_task(leader_proxy.serve(settings, answers, uncounted("replicas")))
        await listening(settings)
        forward = LeaderProxy(settings, lambda: settings.address, time.monotonic)
        standby = Replica(stands_by, aggregated(stands_by, forward=forward))

        found = await standby.ask(namespace="team")
        async with questions.turn():
            busy = await standby.reply("POST", PATH, QUERY)
        leads.leader.is_leading = False
        refused = await standby.reply("POST", PATH, msgspec.json.encode({"namespace": "team"}))
        await forward.close()
        serving.cancel()
        await asyncio.gather(serving, return_exceptions=True)

    assert [one.pod for one in found.decisions] == ["late"]
    assert refused.status == NOT_LEADING
    assert busy == Reply(BUSY, msgspec.json.encode(NamespaceAnswer(retry_after_s=2)))


# --- the front proxy -----------------------------------------------------------------------------


async def test_front_proxy_is_known_after_the_first_read(api: FakeApi, client: Client) -> None:
    api.script(f"GET {CONFIG_MAP}", reply(PUBLISHED))
    async with playing(Stage()) as stage:
        handlers = aggregated(stage, client)
        replica = Replica(stage, handlers)
        before = await replica.reply("GET", FRONT_PROXY_PATH)
        assert await handlers.front_proxy.read()
        after = await replica.reply("GET", FRONT_PROXY_PATH)

    assert before.status == 503
    assert msgspec.json.decode(after.content, type=FrontProxy) == FrontProxy(
        authority=CA, names=("front-proxy-client",)
    )


async def test_failed_read_keeps_the_authority_and_is_logged_once(
    api: FakeApi, client: Client
) -> None:
    api.script(f"GET {CONFIG_MAP}", reply(PUBLISHED), failure(403, "Forbidden"))
    reader = FrontProxyReader(client)
    with capture_logs() as logs:
        seen = [await reader.read() for _ in range(3)]

    assert seen == [True, False, False]
    assert reader.current == FrontProxy(authority=CA, names=("front-proxy-client",))
    assert [line["event"] for line in logs] == ["front proxy unknown"]


async def test_changed_config_map_is_read_again(api: FakeApi, client: Client) -> None:
    changed = {"data": {"requestheader-client-ca-file": "new"}}
    api.script(f"GET {CONFIG_MAP}", reply(PUBLISHED), failure(500, "busy"), reply(changed))
    reader = FrontProxyReader(client)
    task = asyncio.create_task(reader.run(refresh_s=0.0, retry_s=0.0))
    for _ in range(4):
        await api.next()
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)

    assert reader.current == FrontProxy(authority="new")


@pytest.mark.parametrize(
    "data",
    [
        pytest.param({}, id="no-front-proxy"),
        pytest.param({"requestheader-client-ca-file": ""}, id="empty"),
        pytest.param({**PUBLISHED["data"], "requestheader-allowed-names": "x"}, id="no-json"),
        pytest.param({**PUBLISHED["data"], "requestheader-allowed-names": "[1]"}, id="no-names"),
    ],
)
def test_config_map_without_a_front_proxy_is_invalid(data: dict[str, str]) -> None:
    with pytest.raises(ValueError, match=r"."):
        front_proxy_of(msgspec.json.encode({"data": data}))
