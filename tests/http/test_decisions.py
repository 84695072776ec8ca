"""The decisions API over real HTTP, beside a real loop."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from typing import TypeVar

import aiohttp
import msgspec
import pytest
from aiohttp import web

from gpuctl.commands.replay import replay_pods
from scheduler.config import Config, Maps
from scheduler.model.cost.prices import PriceTable, parse_prices
from scheduler.model.limits import QUESTIONS_WAITING_MAX
from scheduler.report.decisions.api import DecisionsHandler
from scheduler.report.decisions.api_types import (
    API_VERSION,
    Capacity,
    Cost,
    Latest,
    Leader,
    PodAnswer,
    Snapshot,
)
from scheduler.report.decisions.capacity import CapacityReport
from scheduler.report.decisions.cost import CostReport
from scheduler.report.decisions.questions import QuestionQueue
from scheduler.report.decisions.renderer import DecisionRenderer
from scheduler.report.decisions.state_capture import StateCapture
from scheduler.state import event as ev
from scheduler.state.capacity.node_devices import DeviceAmount
from tests.builders import node, pod
from tests.patience import PATIENCE_S
from tests.unit.loop.loop_world import Stage, playing

NOON = datetime(2026, 11, 27, 12, tzinfo=UTC)
CONFIG = Config(maps=Maps(allow="all"))


class Prices:
    """A price for every GPU."""

    problem = ""

    def read(self) -> PriceTable:
        return parse_prices("currency: EUR\ndefault: 1.5")


LEADER = Leader(api_version=API_VERSION, identity="host_abc", leads=True, epoch=4)

T = TypeVar("T")


class Asking:
    """A loop with its handler, and a way to ask."""

    def __init__(
        self, stage: Stage, session: aiohttp.ClientSession, url: str, questions: QuestionQueue
    ) -> None:
        self.stage = stage
        self.url = url
        self.questions = questions
        self._session = session

    async def get(self, path: str, **headers: str) -> tuple[int, bytes]:
        """Status and body."""
        names = {name.replace("_", "-"): value for name, value in headers.items()}
        async with self._session.get(self.url + path, headers=names) as response:
            return response.status, await response.read()

    async def ask(self, path: str, kind: type[T]) -> T:
        """An answer that must be given."""
        status, body = await self.get(path)
        assert status == 200, body
        return msgspec.json.decode(body, type=kind)

    async def error(self, path: str, **headers: str) -> tuple[int, str]:
        """Status and sentence of a refusal."""
        status, body = await self.get(path, **headers)
        return status, msgspec.json.decode(body)["message"]


@pytest.fixture
async def asking() -> AsyncIterator[Asking]:
    async with playing(Stage()) as stage, aiohttp.ClientSession() as session:
        journal, clock = stage.journal, stage.clock
        retelling = DecisionRenderer(clock, lambda: NOON)
        camera = StateCapture(stage.loop, journal, CONFIG, "gpu-scheduler 0", clock, lambda: NOON)
        sums = CapacityReport(stage.loop, lambda: True, clock, lambda: NOON)
        costs = CostReport(stage.loop, Prices(), lambda: True, lambda: NOON)
        questions = QuestionQueue()
        handler = DecisionsHandler(
            *(stage.loop, journal, camera, sums, costs, retelling, lambda: LEADER, questions)
        )
        runner = web.AppRunner(handler.application(), shutdown_timeout=0.1)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        stage.see(ev.NodeUpdated(node("a", gpus=4)), ev.NodeUpdated(node("b", gpus=2)))
        stage.sync()
        url = f"http://127.0.0.1:{runner.addresses[0][1]}"
        yield Asking(stage, session, url, questions)
        await runner.cleanup()


async def test_waiting_pod_is_explained_by_history_and_a_live_evaluation(
    asking: Asking,
) -> None:
    stage = asking.stage
    stage.see(ev.PodUpdated(pod("big", gpus=8)))
    await stage.recorder.next()
    stage.see(ev.NodeDeleted("b"))
    await stage.quiet()
    stage.clock.now += 0.5

    answer = await asking.ask("/decisions/team/big", PodAnswer)

    assert answer.waiting is not None
    assert answer.waiting.attempts == 1
    assert (answer.waiting.waits_s, answer.waiting.next_try_s) == (0.5, 1.5)
    assert "a pod on a node was deleted or finished" in answer.waiting.woken_by
    assert answer.now is not None
    assert [(one.node, one.code) for one in answer.now.refusals] == [("a", "INSUFFICIENT")]
    [first] = answer.decisions
    assert [one.node for one in first.outcome.refusals] == ["a", "b"]
    assert (first.id, first.attempt, first.time) == ("run-1", 1, "2026-11-27T11:59:59.500000Z")
    assert answer.leads
    assert answer.codes["INSUFFICIENT"].stage == "NodeResourcesFit"


async def test_placed_pod_is_explained_with_runner_up_and_binding_result(
    asking: Asking,
) -> None:
    stage = asking.stage
    stage.see(ev.PodUpdated(pod("one", gpus=1)))
    stage.confirm(await stage.binder.next())
    await stage.recorder.next()

    answer = await asking.ask("/decisions/team/one", PodAnswer)

    assert answer.waiting is None
    assert answer.now is None
    [decided] = answer.decisions
    assert (decided.outcome.node, decided.outcome.devices) == ("b", "gpu x 1")
    assert decided.end == "bound"
    assert decided.ranking is not None
    assert decided.ranking.runner_up is not None
    assert (decided.ranking.winner.node, decided.ranking.runner_up.node) == ("b", "a")
    assert (decided.ranking.decided_by, decided.ranking.margin) == ("requested_left", 2)


async def test_binding_response_is_shown(asking: Asking) -> None:
    stage = asking.stage
    stage.see(ev.PodUpdated(pod("one", gpus=1)))
    stage.binder.end(await stage.binder.next(), ev.BindOutcome.REFUSED, "denied by a policy")
    await stage.recorder.next()

    answer = await asking.ask("/decisions/team/one", PodAnswer)

    assert [(one.end, one.problem) for one in answer.decisions] == [
        ("refused", "denied by a policy")
    ]


async def test_undecided_pod_is_not_found_with_a_reason(
    asking: Asking,
) -> None:
    status, error = await asking.error("/decisions/team/absent")

    assert status == 404
    assert error.startswith("team/absent is unknown")
    assert "this process is the leader" in error


async def test_latest_decisions_are_newest_first_and_limited(
    asking: Asking,
) -> None:
    stage = asking.stage
    for number in range(3):
        stage.see(ev.PodUpdated(pod(f"p{number}", gpus=9, created=number)))
        await stage.recorder.next()

    latest = await asking.ask("/decisions?limit=2", Latest)

    assert [one.pod for one in latest.decisions] == ["p2", "p1"]
    assert latest.kept == 3


@pytest.mark.parametrize(
    ("path", "status", "said"),
    [
        pytest.param("/decisions?limit=0", 400, "limit: expected a number from 1 to 1000", id="0"),
        pytest.param("/decisions?limit=x", 400, "limit: expected a number", id="no-number"),
        pytest.param(
            "/decisions?limit=" + "9" * 5_000, 400, "limit: expected a number", id="digits"
        ),
        pytest.param("/decisions?limit=%D9%A3", 400, "limit: expected a number", id="arabic"),
        pytest.param(
            "/snapshot?next=a/b&wait=" + "9" * 5_000,
            400,
            "wait: expected a number",
            id="wait-digits",
        ),
        pytest.param("/snapshot?next=a/b&wait=-1", 400, "wait: expected a number", id="wait"),
        pytest.param("/", 404, "try /decisions", id="nothing-there"),
        pytest.param("/snapshot?next=team/x&wait=1", 404, "no decision about team/x", id="in-vain"),
    ],
)
async def test_bad_request_is_answered_with_advice(
    asking: Asking, path: str, status: int, said: str
) -> None:
    code, error = await asking.error(path)

    assert code == status
    assert said in error


async def test_cost_has_sums_and_on_request_nodes_and_pods(asking: Asking) -> None:
    stage = asking.stage
    stage.see(ev.PodUpdated(pod("one", gpus=1, labels={"app": "a"})))
    stage.confirm(await stage.binder.next())
    await stage.quiet()

    sums = await asking.ask("/cost", Cost)
    more = await asking.ask("/cost?nodes=1&pods=1&label=app", Cost)

    [model], [namespace] = sums.models, sums.namespaces
    assert (sums.leads, sums.nodes_total, sums.currency, sums.nodes, sums.pods) == (
        *(True, 2, "EUR", ()),
        (),
    )
    assert (model.gpus, model.held, model.free, model.price) == (6, "1", "5", "3/2")
    assert (namespace.namespace, namespace.pods, namespace.gpus) == ("team", 1, "1")
    assert [(one.node, one.gpus) for one in more.nodes] == [("a", 4), ("b", 2)]
    assert [(one.pod, one.node, one.label, one.gpus) for one in more.pods] == [
        ("one", "b", "a", "1")
    ]


async def test_capacity_has_sums_and_on_request_nodes_with_holders(
    asking: Asking,
) -> None:
    stage = asking.stage
    stage.see(
        ev.PodUpdated(pod("one", gpus=1)), ev.PodUpdated(pod("big", gpus=8, namespace="research"))
    )
    stage.confirm(await stage.binder.next())
    await stage.quiet()
    stage.clock.now += 2.0

    sums = await asking.ask("/capacity", Capacity)
    nodes = await asking.ask("/capacity?nodes=1", Capacity)
    holders = await asking.ask("/capacity?holders=1", Capacity)

    [model] = sums.models
    assert (sums.leads, sums.nodes_total, sums.nodes) == (True, 2, ())
    assert model.devices == {"gpu": DeviceAmount(6, 1, 5)}
    held = {one.namespace: (one.devices, one.waiting_devices) for one in sums.namespaces}
    assert held == {"team": ({"gpu": 1}, {}), "research": ({}, {"gpu": 8})}
    [waiting] = sums.waiting
    assert (waiting.pod, waiting.position) == ("big", 1)
    assert waiting.waits_s >= 2.0
    assert [(one.node, one.holders) for one in nodes.nodes] == [("a", ()), ("b", ())]
    assert [holder.pod for one in holders.nodes for holder in one.holders] == ["one"]


@pytest.mark.parametrize("path", ["/decisions/team/big", "/decisions", "/capacity?holders=1"])
async def test_questions_beyond_the_limit_are_refused_with_a_time(
    asking: Asking, path: str
) -> None:
    asking.stage.see(ev.PodUpdated(pod("big", gpus=8)))
    await asking.stage.recorder.next()
    async with asking.questions.turn():
        waiting = [asyncio.create_task(asking.get(path)) for _ in range(QUESTIONS_WAITING_MAX)]
        async with asyncio.timeout(PATIENCE_S):
            while asking.questions.waiting < QUESTIONS_WAITING_MAX:  # noqa: ASYNC110 - no event
                await asyncio.sleep(0.001)
        async with aiohttp.ClientSession() as session, session.get(asking.url + path) as refused:
            said = msgspec.json.decode(await refused.read())["message"]
        leader = await asking.get("/leader")

    assert (refused.status, refused.headers["Retry-After"]) == (503, "2")
    assert said == "the scheduler answers one question at a time, and 8 wait; ask again after 2 s"
    assert leader[0] == 200
    assert {status for status, _ in await asyncio.gather(*waiting)} == {200}


async def test_response_names_the_leader(asking: Asking) -> None:
    assert await asking.ask("/leader", Leader) == LEADER


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        pytest.param({"Host": "localhost"}, 200, id="by-name"),
        pytest.param({"Host": "127.0.0.1:31337"}, 200, id="a-forwarded-port"),
        pytest.param({"Host": "[::1]:8090"}, 200, id="v6"),
        pytest.param({"Host": "attacker.example"}, 403, id="a-name-that-was-rebound"),
        pytest.param({"Host": "localhost.attacker.example"}, 403, id="a-longer-name"),
        pytest.param({"Host": "127.0.0.1.attacker.example:80"}, 403, id="a-longer-address"),
        pytest.param({"Host": "attacker@localhost"}, 403, id="a-user-in-front"),
        pytest.param({"Host": "localhost:8090", "Origin": "http://localhost:8090"}, 200, id="own"),
        pytest.param({"Host": "localhost:8090", "Origin": "http://x.example"}, 403, id="foreign"),
        pytest.param({"Host": "localhost:8090", "Origin": "null"}, 403, id="a-sandboxed-page"),
        pytest.param(
            {"Host": "localhost:8090", "Origin": "http://localhost:3000"}, 403, id="another-port"
        ),
        pytest.param({"Sec_Fetch_Site": "cross-site"}, 403, id="an-image-in-a-foreign-page"),
        pytest.param({"Sec_Fetch_Site": "none"}, 200, id="typed-by-a-person"),
    ],
)
async def test_only_loopback_clients_are_answered(
    asking: Asking, headers: dict[str, str], status: int
) -> None:
    for path in ("/leader", "/decisions", "/snapshot"):
        assert (await asking.get(path, **headers))[0] == status


async def test_a_snapshot_repeats_every_waiting_pods_decision(asking: Asking) -> None:
    stage = asking.stage
    stage.see(ev.PodUpdated(pod("big", gpus=8)), ev.PodUpdated(pod("lost-0", map="0=nowhere:1")))
    for _ in range(2):
        await stage.recorder.next()
    stage.see(ev.PodUpdated(pod("one", gpus=1)))
    await stage.binder.next()

    snapshot = await asking.ask("/snapshot", Snapshot)

    assert {one.pod for one in snapshot.pending} == {"big", "lost-0"}
    assert (snapshot.left_out, len(snapshot.decisions)) == (0, 3)
    assert [one.pod.name for one in snapshot.state.assumed] == ["one"]
    assert [(one.pod, one.is_same) for one in replay_pods(snapshot)] == [
        ("team/big", True),
        ("team/lost-0", True),
    ]
    assert msgspec.json.decode(snapshot.configuration, type=Config) == CONFIG


async def test_a_snapshot_of_the_next_decision_repeats_that_decision(asking: Asking) -> None:
    """The pod is on the state that it is going to change: not placed yet."""
    stage = asking.stage
    waiting = asyncio.create_task(asking.ask("/snapshot?next=team/one", Snapshot))
    async with asyncio.timeout(PATIENCE_S):
        while not stage.journal.awaited:  # noqa: ASYNC110 - no notification for a waiter
            await asyncio.sleep(0.001)
    stage.see(ev.PodUpdated(pod("one", gpus=1)))
    await stage.binder.next()

    snapshot = await waiting

    assert snapshot.caught == "run-1"
    assert snapshot.state.assumed == ()
    [again] = replay_pods(snapshot)
    assert again.is_same
    assert again.now.node == "b"
