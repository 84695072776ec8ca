"""A pod that vanished is looked up once; how it ended comes back as an event, if that matters."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest

from scheduler.model import well_known
from scheduler.state.event import PodRejected, PodUpdated
from scheduler.watch import terminated_pods
from scheduler.watch.client import Client
from scheduler.watch.terminated_pods import WAITING_MAX, Result, TerminatedPodLookup
from tests.builders import Json, pod, pod_json
from tests.http.fakeapi import FakeApi, failure, name_of, reply, reset, text
from tests.http.shells import Heard

NOW = datetime(2026, 11, 27, 12, tzinfo=UTC)
PAST = "GET /api/v1/pods"
CALL = "GET /api/v1/namespaces/team/pods/a"


def answer(uid: str = "team-a", phase: str = "Failed", reason: str = "OutOfcpu") -> Json:
    """The pod as the API server still has it."""
    status = {"phase": phase, "reason": reason, "message": "no room"}
    return {"metadata": {"name": "a", "uid": uid}, "status": status}


DISRUPTED = {"type": "DisruptionTarget", "status": "True"}


def ended(
    uid: str = "team-a",
    *,
    exit_code: int = 1,
    reason: str = "",
    deleted: bool = False,
    conditions: list[Json] | None = None,
    where: str = "containerStatuses",
) -> Json:
    """A pod of which a container ended for good."""
    state = {"terminated": {"exitCode": exit_code, "reason": "Error"}}
    status = {
        "phase": "Failed",
        "reason": reason,
        "conditions": conditions or [],
        where: [{"name": "app", "state": {"running": {}}}, {"name": "helper", "state": state}],
    }
    meta = {"name": "a", "uid": uid}
    if deleted:
        meta["deletionTimestamp"] = "2026-11-27T10:00:00Z"
    return {"metadata": meta, "status": status}


class LookupWorld:
    """A running lookup and its inbox."""

    def __init__(self, client: Client) -> None:
        self.inbox = Heard()
        self.lookup = TerminatedPodLookup(client, "gpu-scheduler", self.inbox, lambda: NOW)

    async def next(self) -> Result:
        event: Result = await self.inbox.next()
        return event


@pytest.fixture
async def world(
    api: FakeApi, client: Client, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[LookupWorld]:
    monkeypatch.setattr(terminated_pods, "RETRY_S", 0.01)
    api.script(PAST, reply({"items": []}))
    at_work = LookupWorld(client)
    task = asyncio.create_task(at_work.lookup.run())
    yield at_work
    assert not task.done(), task
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


async def test_kubelet_rejection_is_returned(api: FakeApi, world: LookupWorld) -> None:
    api.script(CALL, reply(answer()))
    world.lookup.look_up(pod("a"))

    assert await world.next() == PodRejected("team-a", "OutOfcpu", "no room")


@pytest.mark.parametrize(
    "script",
    [
        pytest.param(failure(404, "NotFound"), id="deleted-for-good"),
        pytest.param(reply(answer(uid="another")), id="another-pod-of-that-name"),
        pytest.param(reply(answer(phase="Running")), id="it-lives"),
        pytest.param(reply(answer(reason="")), id="no-container-failed"),
        pytest.param(reply(ended(exit_code=0)), id="its-containers-did-well"),
        pytest.param(reply(ended(reason="DeadlineExceeded")), id="it-took-too-long"),
        pytest.param(reply(ended(conditions=[DISRUPTED])), id="it-was-evicted"),
        pytest.param(reply(ended(deleted=True)), id="it-was-deleted"),
        pytest.param(reply(answer(reason="SysctlForbidden")), id="its-own-fault"),
        pytest.param(text("bad gateway", 502), id="no-json"),
        pytest.param(reset, id="no-answer"),
    ],
)
async def test_other_endings_emit_no_event(
    api: FakeApi, world: LookupWorld, script: object
) -> None:
    """And the next pod is looked up all the same."""
    api.script(CALL, script)  # type: ignore[arg-type] # any script
    api.script("GET /api/v1/namespaces/team/pods/b", reply(answer(uid="team-b")))
    world.lookup.look_up(pod("a"))
    await api.next(CALL)
    world.lookup.look_up(pod("b"))

    assert await world.next() == PodRejected("team-b", "OutOfcpu", "no room")
    assert world.inbox.is_empty()


@pytest.mark.contract("S3-B2")
@pytest.mark.parametrize("where", ["containerStatuses", "initContainerStatuses"])
async def test_finally_failed_container_returns_the_pod_in_its_last_state(
    api: FakeApi, world: LookupWorld, where: str
) -> None:
    api.script(CALL, reply(ended(where=where)))
    gone = pod("a", mig={"1g.10gb": 1})
    world.lookup.look_up(gone)

    told = await world.next()

    assert told == PodUpdated(msgspec.structs.replace(gone, phase="Failed", crashes=1))


async def test_repeated_lookup_sends_one_request(api: FakeApi, world: LookupWorld) -> None:
    api.script(CALL, reply(answer()))
    for _ in range(2):
        world.lookup.look_up(pod("a"))
    await world.next()
    world.lookup.look_up(pod("a"))
    await world.next()

    assert api.count(CALL) == 2


def failed(name: str, **more: Any) -> Json:
    """A pod as the list of the past has it."""
    annotations = {well_known.FALLBACK: "2g.20gb->1g.10gb", well_known.ORIGINAL: "{}"}
    body = pod_json(name, mig={"1g.10gb": 1}, **{"annotations": annotations, **more})
    return {**body, "status": ended()["status"]}


async def test_pods_that_failed_before_start_are_read_page_by_page(
    api: FakeApi, client: Client
) -> None:
    """Of those only that had another tier than they asked for."""
    evicted = failed("evicted")
    evicted["status"]["conditions"] = [DISRUPTED]
    first = {
        "metadata": {"continue": "t"},
        "items": [failed("x", annotations={}), evicted, {"metadata": 3}, failed("y")],
    }
    api.script(PAST, reply(first), reply({"metadata": {}, "items": [failed("z")]}))
    at_work = LookupWorld(client)
    task = asyncio.create_task(at_work.lookup.run())

    told = [await at_work.next(), await at_work.next()]

    assert [one.pod.name for one in told if isinstance(one, PodUpdated)] == ["y", "z"]
    queries = [seen.query for seen in api.seen]
    assert queries[0]["fieldSelector"] == "status.phase=Failed,spec.schedulerName=gpu-scheduler"
    assert [one.get("continue") for one in queries] == [None, "t"]
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


async def test_lookups_beyond_the_limit_stay_unexplained(client: Client) -> None:
    idle = LookupWorld(client).lookup
    for number in range(2 * WAITING_MAX):
        idle.look_up(pod(f"p{number}"))

    assert idle._waiting.qsize() == WAITING_MAX


# --- a pod that its owner deleted at once --------------------------------------------------------

EVENTS = "GET /apis/events.k8s.io/v1/namespaces/team/events"


def event(reason: str = "UnexpectedAdmissionError", **more: Any) -> Json:
    """A kubelet's event about the pod a, as the newer API shows it."""
    return {
        "metadata": {"name": "a.1", "creationTimestamp": "2026-11-27T11:59:00Z"},
        "reason": reason,
        "note": "no healthy devices present",
        "regarding": {"kind": "Pod", "namespace": "team", "name": "a", "uid": "team-a"},
        "deprecatedSource": {"component": "kubelet", "host": "n1"},
        "deprecatedLastTimestamp": "2026-11-27T11:59:00Z",
        **more,
    }


@pytest.mark.parametrize(
    "gone",
    [
        pytest.param(failure(404, "NotFound"), id="deleted"),
        pytest.param(reply(answer(uid="another", phase="Running")), id="replaced"),
    ],
)
async def test_deleted_pod_is_explained_by_the_kubelet_event(
    api: FakeApi, world: LookupWorld, gone: Any
) -> None:
    """As a StatefulSet's controller does; and the event may come a moment after that."""
    others = {"items": [event("FailedMount"), event(deprecatedSource={"component": "mallory"})]}
    api.script(CALL, gone)
    api.script(EVENTS, reply({"items": None}), reply({"items": [*others["items"], event()]}))
    world.lookup.look_up(pod("a"))

    told = await world.next()

    text = "no healthy devices present"
    assert told == PodRejected("team-a", "UnexpectedAdmissionError", text, is_unconfirmed=True)
    assert [seen.query["fieldSelector"] for seen in api.seen if name_of(seen) == EVENTS] == [
        "regarding.uid=team-a"
    ] * 2


async def test_events_are_not_read_of_a_pod_that_was_admitted(
    api: FakeApi, world: LookupWorld
) -> None:
    api.script(CALL, failure(404, "NotFound"))
    api.script("GET /api/v1/namespaces/team/pods/b", reply(answer(uid="team-b")))
    world.lookup.look_up(pod("a", phase="Running"))
    await api.next(CALL)
    world.lookup.look_up(pod("b"))
    await world.next()

    assert api.count(EVENTS) == 0


async def test_unresponsive_api_server_is_retried(api: FakeApi, world: LookupWorld) -> None:
    api.script(CALL, reset, reply(answer()))
    world.lookup.look_up(pod("a"))

    assert await world.next() == PodRejected("team-a", "OutOfcpu", "no room")
