"""The binder against a server that answers late, wrongly or not at all: never two successes."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from scheduler.bind.binder import TRIES, Binder
from scheduler.framework.decision import Placement
from scheduler.model import well_known
from scheduler.state.event import BindEnded, BindOutcome
from scheduler.watch.client import Client
from tests.builders import pod, pod_json
from tests.http.fakeapi import (
    Answer,
    FakeApi,
    Stream,
    failure,
    reply,
    reset,
    text,
)
from tests.http.shells import Heard
from tests.unit.loop.loop_world import Leader

GET = "GET /api/v1/namespaces/team/pods/a"
POST = "POST /api/v1/namespaces/team/pods/a/binding"
PLACEMENT = Placement(pod=pod("a"), node_name="n1")
SUCCESS = reply({"kind": "Status", "status": "Success", "code": 201}, 201)
OPEN, OURS, THEIRS = (reply(pod_json("a", node=name)) for name in ("", "n1", "n2"))
REPLACED = reply(pod_json("a", uid="another", node="n1"))
DELETING = reply(pod_json("a", deleting=True))
CONFLICT = failure(409, "Conflict", "the server says why")
GONE = failure(404, "NotFound")


class Binds:
    """A binder, and how its Bindings ended."""

    def __init__(self, client: Client) -> None:
        self.ended = Heard()
        self.leader = Leader(epoch=7)
        self.idle = asyncio.Event()
        self.binder = Binder(client, self.ended, self.leader, self.idle, pause_first_s=0.001)

    async def bind(self) -> BindEnded:
        self.binder.start(PLACEMENT, "d-1")
        ended: BindEnded = await self.ended.next()
        await self.binder.drain(1)
        assert self.ended.is_empty(), "a Binding ends once"
        return ended


@pytest.fixture
def binds(client: Client) -> Binds:
    return Binds(client)


@pytest.mark.contract("S2-B1")
async def test_a_status_as_the_answer_is_a_success(api: FakeApi, binds: Binds) -> None:
    """The API server answers 201 with a Status; typed clients raise on it after the fact."""
    api.script(POST, SUCCESS)

    assert await binds.bind() == BindEnded("team-a", BindOutcome.BOUND)
    [sent] = api.seen
    assert sent.json["metadata"]["uid"] == "team-a"
    assert sent.json["metadata"]["annotations"] == {
        well_known.DECISION: "d-1",
        well_known.EPOCH: "7",
    }
    assert sent.json["target"]["name"] == "n1"


@pytest.mark.contract("S2-B1")
async def test_any_2xx_body_is_a_success(api: FakeApi, binds: Binds) -> None:
    api.script(POST, text("this is no JSON", 201))

    assert (await binds.bind()).outcome is BindOutcome.BOUND


#: First answer to the POST, what a look at the pod then shows, the end.
CONFLICTS: list[Any] = [
    pytest.param(CONFLICT, OURS, BindOutcome.BOUND, id="bound-by-us-after-all"),
    pytest.param(CONFLICT, THEIRS, BindOutcome.TAKEN, id="bound-by-another-scheduler"),
    pytest.param(CONFLICT, REPLACED, BindOutcome.GONE, id="c51-another-pod-of-that-name"),
    pytest.param(CONFLICT, GONE, BindOutcome.GONE, id="deleted"),
    pytest.param(CONFLICT, DELETING, BindOutcome.TAKEN, id="being-deleted"),
    pytest.param(CONFLICT, OPEN, BindOutcome.REFUSED, id="still-open"),
    pytest.param(CONFLICT, failure(403), BindOutcome.REFUSED, id="may-not-look"),
]


@pytest.mark.contract("S2-B7")
@pytest.mark.parametrize(("answer", "look", "outcome"), CONFLICTS)
async def test_conflict_is_resolved_by_reading_the_pod(
    api: FakeApi, binds: Binds, answer: Answer, look: Answer, outcome: BindOutcome
) -> None:
    api.script(POST, answer)
    api.script(GET, look)

    assert await binds.bind() == BindEnded("team-a", outcome, "the server says why")
    assert api.count(POST) == 1


@pytest.mark.parametrize(
    ("answer", "outcome"),
    [
        pytest.param(GONE, BindOutcome.GONE, id="404-gone"),
        pytest.param(failure(403, message="no"), BindOutcome.REFUSED, id="403-refused"),
        pytest.param(failure(422, message="no"), BindOutcome.REFUSED, id="422-refused"),
        pytest.param(failure(400, message="no"), BindOutcome.REFUSED, id="400-refused"),
    ],
)
async def test_clear_refusal_is_not_retried(
    api: FakeApi, binds: Binds, answer: Answer, outcome: BindOutcome
) -> None:
    api.script(POST, answer)

    assert (await binds.bind()).outcome is outcome
    assert (api.count(POST), api.count(GET)) == (1, 0)


BUSY = [failure(500), failure(503), failure(429, retry_after="0"), failure(504), reset]


@pytest.mark.parametrize("busy", BUSY, ids=["500", "503", "429", "504", "reset"])
async def test_busy_server_is_retried(api: FakeApi, binds: Binds, busy: Answer) -> None:
    api.script(POST, busy, busy, SUCCESS)

    assert (await binds.bind()).outcome is BindOutcome.BOUND
    assert api.count(POST) == 3


async def test_lost_response_causes_no_second_success(api: FakeApi, binds: Binds) -> None:
    """Semantics case 52: the first try went through, its answer was lost, the second is refused."""
    api.script(POST, reset, CONFLICT)
    api.script(GET, OURS)

    assert (await binds.bind()).outcome is BindOutcome.BOUND
    assert (api.count(POST), api.count(GET)) == (2, 1)


async def test_exhausted_retries_read_back_a_success(api: FakeApi, binds: Binds) -> None:
    api.script(POST, failure(503))
    api.script(GET, OURS)

    assert (await binds.bind()).outcome is BindOutcome.BOUND
    assert api.count(POST) == TRIES


async def test_binding_is_resent_until_the_server_answers(api: FakeApi, binds: Binds) -> None:
    """The first request may still be in flight: no other pod may get the devices."""
    api.script(POST, *[reset] * (TRIES + 2), SUCCESS)

    assert (await binds.bind()).outcome is BindOutcome.BOUND
    assert (api.count(POST), api.count(GET)) == (TRIES + 3, 0)


async def test_exhausted_retries_return_an_unbound_pod(api: FakeApi, binds: Binds) -> None:
    api.script(POST, failure(500, message="etcd is slow"))
    api.script(GET, OPEN)

    assert await binds.bind() == BindEnded("team-a", BindOutcome.UNREACHABLE, "etcd is slow")


@pytest.mark.parametrize(
    "no_answer",
    [reset, failure(503), text("<html>", 200), Stream(b'{"meta', end="break")],
    ids=["reset", "503", "garbage", "half"],
)
async def test_unknown_binding_result_keeps_the_devices(
    api: FakeApi, binds: Binds, no_answer: Answer
) -> None:
    """No result is reported until the read-back is answered."""
    api.script(POST, failure(503))
    api.script(GET, no_answer, no_answer, no_answer, THEIRS)

    assert (await binds.bind()).outcome is BindOutcome.TAKEN


@pytest.mark.contract("S2-B12")
async def test_former_leader_sends_no_binding(api: FakeApi, binds: Binds) -> None:
    binds.leader.is_leading = False

    assert (await binds.bind()).outcome is BindOutcome.UNSENT
    assert api.seen == []


@pytest.mark.contract("S2-B12")
async def test_lost_leadership_stops_retries(api: FakeApi, binds: Binds) -> None:
    async def answer(request: Any) -> Any:
        binds.leader.is_leading = False
        return await failure(503)(request)

    api.script(POST, answer)
    api.script(GET, OPEN)

    assert (await binds.bind()).outcome is BindOutcome.UNREACHABLE
    assert api.count(POST) == 1


@pytest.mark.contract("S2-B12")
async def test_leadership_expiring_during_backoff_stops_retries(
    api: FakeApi, client: Client
) -> None:
    clock = asyncio.get_running_loop().time
    ended = Heard()
    leads_until = clock() + 60

    async def answer(request: Any) -> Any:
        nonlocal leads_until
        leads_until = clock() + 0.01
        return await failure(503)(request)

    api.script(POST, answer)
    api.script(GET, OPEN)

    class Term(Leader):
        def leads(self) -> bool:
            return clock() < leads_until

    binder = Binder(client, ended, Term(epoch=7), asyncio.Event(), pause_first_s=0.05)
    binder.start(PLACEMENT, "d-1")
    await binder.drain(10)

    assert (await ended.next()).outcome is BindOutcome.UNREACHABLE
    assert api.count(POST) == 1


async def test_other_traffic_waits_while_bindings_are_in_flight(api: FakeApi, binds: Binds) -> None:
    release = asyncio.Event()

    async def slow(_: Any) -> Any:
        await release.wait()
        return await SUCCESS(_)

    api.script(POST, slow)
    assert binds.idle.is_set()
    binds.binder.start(PLACEMENT, "d-1")
    await api.next(POST)
    assert (binds.idle.is_set(), binds.binder.in_flight) == (False, 1)
    release.set()
    await binds.binder.drain(5)
    await asyncio.sleep(0)

    assert (binds.idle.is_set(), binds.binder.in_flight) == (True, 0)


async def test_drain_has_a_timeout(api: FakeApi, binds: Binds) -> None:
    api.script(POST, Stream(end="hang"))
    binds.binder.start(PLACEMENT, "d-1")
    await api.next(POST)
    await binds.binder.drain(0.01)

    assert binds.binder.in_flight == 1
