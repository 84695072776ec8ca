"""What kubelets refused before this process began: one list of pods, and events about others."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from scheduler.model import well_known
from scheduler.state.event import DeletedPodEvent, Event, PastRejectionsRead
from scheduler.watch.client import Client
from scheduler.watch.inbox import Inbox
from scheduler.watch.past_rejections import AGE_MAX_S, PAGES_MAX, PastRejections
from tests.builders import GPU, Json, pod_json
from tests.http.fakeapi import FakeApi, failure, name_of, reply
from tests.patience import PATIENCE_S

NOW = datetime(2026, 11, 27, 12, tzinfo=UTC)
PODS = "GET /api/v1/pods"
EVENTS = "GET /apis/events.k8s.io/v1/events"
UNEXPECTED = "UnexpectedAdmissionError"


def stamp(age_s: float) -> str:
    """A time of the API, so many seconds ago."""
    return (NOW - timedelta(seconds=age_s)).strftime("%Y-%m-%dT%H:%M:%SZ")


def refused(
    name: str, age_s: float = 60, *, bound: bool = True, clocked: bool = True, **status: Any
) -> Json:
    """A pod as the API keeps it after a kubelet refused it."""
    said = {
        "phase": "Failed",
        "reason": UNEXPECTED,
        "message": f"no healthy devices present for {GPU}",
        "startTime": stamp(age_s + 100),
        **status,
    }
    body = pod_json(
        name, gpus=1, node="n1", annotations={well_known.DECISION: "d-1"} if bound else {}
    )
    body["metadata"]["creationTimestamp"] = stamp(age_s + 5)
    body["metadata"]["managedFields"] = [
        {"manager": "kubelet", "subresource": "status", "time": stamp(age_s), "fieldsV1": {}},
        {"manager": "gpu-scheduler", "subresource": "status", "time": stamp(age_s + 4)},
        {"manager": "kubectl", "time": stamp(0)},
    ]
    if not clocked:
        del body["metadata"]["managedFields"]
    return {**body, "status": said}


def event(name: str, age_s: float = 60, **more: Any) -> Json:
    """A kubelet's event about a pod that is gone."""
    return {
        "metadata": {"creationTimestamp": stamp(age_s)},
        "reason": UNEXPECTED,
        "note": f"no healthy devices present for {GPU}",
        "regarding": {"kind": "Pod", "namespace": "team", "name": name, "uid": f"team-{name}"},
        "deprecatedSource": {"component": "kubelet", "host": "n1"},
        "deprecatedLastTimestamp": stamp(age_s),
        **more,
    }


class Reading:
    """The read of past rejections, and its events."""

    def __init__(self, client: Client) -> None:
        self.inbox = Inbox()
        self.past = PastRejections(client, "gpu-scheduler", self.inbox, lambda: NOW)

    def events(self) -> list[Event]:
        """The events that arrived since the last call."""
        return list(self.inbox.drain())

    async def to_the_end(self) -> PastRejectionsRead:
        async with asyncio.timeout(PATIENCE_S), asyncio.TaskGroup() as group:
            group.create_task(self.past.read())
            group.create_task(self.past.publish(10))
        [told] = self.events()
        assert isinstance(told, PastRejectionsRead)
        return told


@pytest.fixture
def reading(api: FakeApi, client: Client) -> Callable[..., Reading]:
    def begin(*pods: Json, events: tuple[Json, ...] = ()) -> Reading:
        api.script(PODS, reply({"items": list(pods)}))
        api.script(EVENTS, reply({"items": list(events)}), reply({"items": []}))
        return Reading(client)

    return begin


async def test_past_rejections_have_node_and_age(
    reading: Callable[..., Reading],
) -> None:
    told = await reading(refused("a", 60), refused("b", 3)).to_the_end()

    assert [(one.pod.name, one.node_name, one.age_s) for one in told.rejections] == [
        ("a", "n1", 60),
        ("b", "n1", 3),
    ]
    assert {one.reason for one in told.rejections} == {UNEXPECTED}


NO_REFUSAL = [
    pytest.param(refused("a", reason="Evicted"), id="evicted"),
    pytest.param(refused("a", reason=""), id="a-container-failed"),
    pytest.param(refused("a", AGE_MAX_S), id="hours-ago"),
    pytest.param(refused("a", bound=False), id="its-author-named-the-node"),
    pytest.param({"metadata": 3}, id="no-pod-at-all"),
]


@pytest.mark.parametrize("item", NO_REFUSAL)
async def test_rejections_caused_by_the_pod_are_skipped(
    reading: Callable[..., Reading], item: Json
) -> None:
    assert (await reading(item).to_the_end()).rejections == ()


@pytest.mark.parametrize(
    ("status", "age_s"),
    [
        pytest.param({"startTime": stamp(50)}, 50, id="as-the-node-says"),
        pytest.param({"startTime": None}, 65, id="it-says-nothing"),
        pytest.param({"startTime": stamp(-100)}, 0, id="the-nodes-clock-is-ahead"),
        pytest.param({"startTime": stamp(9000)}, 65, id="the-nodes-clock-is-behind"),
        pytest.param({"startTime": "soon"}, 65, id="no-time-at-all"),
    ],
)
async def test_without_managed_fields_the_node_clock_is_used(
    reading: Callable[..., Reading], status: Json, age_s: float
) -> None:
    [one] = (await reading(refused("a", 60, clocked=False, **status)).to_the_end()).rejections

    assert one.age_s == age_s


async def test_events_explain_deleted_pods(api: FakeApi, reading: Callable[..., Reading]) -> None:
    """Not again of those that are there, nor what others than kubelets say."""
    others = (
        event("a"),
        event("old", AGE_MAX_S),
        event("said", deprecatedSource={"component": "mallory", "host": "n1"}),
        event("node", regarding={"kind": "Node", "name": "n1", "uid": "n1"}),
    )
    newer = event("new", deprecatedSource={}, reportingController="kubelet", reportingInstance="n2")
    told = await reading(refused("a"), events=(*others, event("gone", 30), newer)).to_the_end()

    words = (UNEXPECTED, f"no healthy devices present for {GPU}")
    assert told.deleted_pod_events == (
        DeletedPodEvent("team-gone", "team", "gone", "n1", *words, 30),
        DeletedPodEvent("team-new", "team", "new", "n2", *words, 60),
    )
    asked = [seen.query["fieldSelector"] for seen in api.seen if name_of(seen) == EVENTS]
    assert asked == [
        "reason=UnexpectedAdmissionError,regarding.kind=Pod",
        "reason=OutOfnvidia.com/gpu,regarding.kind=Pod",
    ]


async def test_forbidden_events_leave_the_failed_pods(
    api: FakeApi, reading: Callable[..., Reading]
) -> None:
    begun = reading(refused("a"))
    api.script(EVENTS, failure(403, "Forbidden"))

    told = await begun.to_the_end()

    assert (len(told.rejections), told.deleted_pod_events) == (1, ())


async def test_pod_list_is_limited(api: FakeApi, reading: Callable[..., Reading]) -> None:
    begun = reading()
    api.script(PODS, reply({"metadata": {"continue": "more"}, "items": [refused("a")]}))

    await begun.to_the_end()

    assert api.count(PODS) == PAGES_MAX


async def test_slow_history_read_does_not_delay_the_start(
    api: FakeApi, reading: Callable[..., Reading]
) -> None:
    begun = reading()
    api.script(PODS, failure(503, "ServiceUnavailable"))
    task = asyncio.create_task(begun.past.read())
    await api.next(PODS)

    await begun.past.publish(0.01)

    assert begun.events() == []
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


async def test_past_rejections_wait_for_synced_caches(
    api: FakeApi, reading: Callable[..., Reading]
) -> None:
    begun = reading(refused("a"))
    task = asyncio.create_task(begun.past.read())
    await api.next(EVENTS)
    await api.next(EVENTS)
    assert begun.events() == []

    await begun.past.publish(10)

    assert len(begun.events()) == 1
    await task
