"""Events and conditions as the API server receives them: when they are news, and no sooner."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from aiohttp import web

from scheduler.model.pods.pod import Owner, Pod
from scheduler.report.events.send_queue import OVERTAKEN_S, WORKERS
from scheduler.watch.client import Client
from tests.builders import node, pod
from tests.http.fakeapi import Answer, FakeApi, failure, reply, reset
from tests.http.recording import EVENT, PATCH, SENTENCE, A, Recording, condition
from tests.patience import PATIENCE_S


@pytest.mark.contract("S2-B7", "S2-9")
async def test_a_refusal_is_an_event_and_a_condition(recording: Recording) -> None:
    recording.recorder.failed(A, SENTENCE)
    await recording.sent()

    [event] = recording.bodies(EVENT)
    assert event["metadata"].pop("name").startswith("a.")
    assert event == {
        "apiVersion": "events.k8s.io/v1",
        "kind": "Event",
        "metadata": {"namespace": "team"},
        "eventTime": "2026-11-27T10:00:00.000000Z",
        "reportingController": "gpu-scheduler",
        "reportingInstance": ("gpu-scheduler-" + "h" * 200)[:128],
        "action": "Scheduling",
        "reason": "FailedScheduling",
        "regarding": {
            "apiVersion": "v1",
            "kind": "Pod",
            "name": "a",
            "namespace": "team",
            "uid": "team-a",
        },
        "note": SENTENCE,
        "type": "Warning",
    }
    [patch] = recording.bodies(PATCH)
    assert patch == {
        "metadata": {"uid": "team-a"},
        "status": {
            "conditions": [{**condition(SENTENCE, "2026-11-27T10:00:00Z"), "lastProbeTime": None}]
        },
    }
    kinds = {s.content_type for s in recording.api.seen if s.method == "PATCH"}
    assert kinds == {"application/strategic-merge-patch+json"}


async def test_repeated_refusal_writes_nothing(recording: Recording) -> None:
    for _ in range(5):
        recording.recorder.failed(A, SENTENCE)
        recording.now += 10
    await recording.sent()

    assert (len(recording.bodies(EVENT)), len(recording.bodies(PATCH))) == (1, 1)


async def test_event_repeats_after_five_minutes_and_the_condition_stays(
    recording: Recording,
) -> None:
    recording.recorder.failed(A, SENTENCE)
    recording.now += 300
    recording.recorder.failed(A, SENTENCE)
    await recording.sent()

    assert (len(recording.bodies(EVENT)), len(recording.bodies(PATCH))) == (2, 1)
    names = {body["metadata"]["name"] for body in recording.bodies(EVENT)}
    assert len(names) == 2


async def test_changed_reason_keeps_the_transition_time(recording: Recording) -> None:
    """The status did not change, so its transition time stays (semantics 7.2)."""
    recording.recorder.failed(A, SENTENCE)
    await recording.sent()
    recording.now += 60
    recording.recorder.failed(A, "another")
    await recording.sent()

    assert sorted(c["message"] for c in recording.conditions()) == [SENTENCE, "another"]
    since = {c["lastTransitionTime"] for c in recording.conditions()}
    assert since == {"2026-11-27T10:00:00Z"}


async def test_of_two_conditions_only_the_newer_one_is_sent(recording: Recording) -> None:
    recording.recorder.failed(A, SENTENCE)
    recording.recorder.failed(A, "another")
    await recording.sent()

    assert [c["message"] for c in recording.conditions()] == ["another"]


async def test_next_condition_waits_for_the_answer_to_the_last_one(recording: Recording) -> None:
    """Of two requests in flight the API server may carry out the older one last."""
    arrived, answer = asyncio.Event(), asyncio.Event()

    async def late(request: web.Request) -> web.StreamResponse:
        arrived.set()
        await answer.wait()
        answered: web.StreamResponse = await reply({})(request)
        return answered

    other = PATCH.replace("/a/", "/b/")
    recording.api.script(PATCH, late, reply({}))
    recording.api.script(other, reply({}))
    recording.recorder.failed(A, SENTENCE)
    async with asyncio.timeout(PATIENCE_S):
        await arrived.wait()
    recording.recorder.failed(A, "another")
    recording.recorder.failed(pod("b"), SENTENCE)
    await recording.api.next(other)
    in_flight = [one["message"] for one in recording.conditions()]
    answer.set()
    await recording.sent()

    assert in_flight == [SENTENCE]
    assert [one["message"] for one in recording.conditions()] == [SENTENCE, "another"]


async def test_existing_condition_is_not_rewritten(recording: Recording) -> None:
    """After a restart: the condition stands since the earlier process wrote it."""
    told = pod("a", gpus=1, status={"conditions": [condition(SENTENCE)]})
    recording.recorder.failed(told, SENTENCE)
    recording.recorder.failed(told, "another")
    await recording.sent()

    [written] = recording.conditions()
    assert (written["message"], written["lastTransitionTime"]) == (
        "another",
        "2026-11-27T09:00:00Z",
    )


async def test_success_event_has_the_kube_scheduler_text(recording: Recording) -> None:
    recording.recorder.scheduled(A, "n1")
    await recording.sent()

    [event] = recording.bodies(EVENT)
    assert (event["type"], event["reason"], event["action"], event["note"]) == (
        "Normal",
        "Scheduled",
        "Binding",
        "Successfully assigned team/a to n1",
    )
    assert recording.bodies(PATCH) == []


async def test_internal_error_has_its_own_reason(recording: Recording) -> None:
    recording.recorder.failed(A, "binding failed: x", "SchedulerError")
    await recording.sent()

    assert [c["reason"] for c in recording.conditions()] == ["SchedulerError"]


async def test_note_is_sent_once(recording: Recording) -> None:
    for _ in range(3):
        recording.recorder.note(A, "MapHonouredNodeOnly", "text")
    recording.recorder.note(A, "EnvironmentNotSet", "text", kind="Normal")
    await recording.sent()

    said = sorted((body["reason"], body["type"]) for body in recording.bodies(EVENT))
    assert said == [("EnvironmentNotSet", "Normal"), ("MapHonouredNodeOnly", "Warning")]


async def test_migration_event_references_the_owner_kind(recording: Recording) -> None:
    recording.recorder.note_owner(
        "team", Owner("Deployment", "web", "u-d"), "MigrationFailed", "text"
    )
    recording.recorder.note_owner("team", Owner("Job", "j", "u-j"), "MigrationFailed", "text")
    await recording.sent()

    about = sorted((body["regarding"] for body in recording.bodies(EVENT)), key=lambda o: o["kind"])
    place = {"namespace": "team"}
    assert about == [
        {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web", "uid": "u-d", **place},
        {"apiVersion": "batch/v1", "kind": "Job", "name": "j", "uid": "u-j", **place},
    ]


async def test_a_note_is_cut_to_what_the_api_accepts(recording: Recording) -> None:
    recording.recorder.failed(A, "ä" * 2000)
    await recording.sent()

    [event] = recording.bodies(EVENT)
    assert len(event["note"].encode()) <= 1024
    assert event["note"].endswith("ä ...")


LOST: list[Any] = [
    pytest.param(failure(404, "NotFound"), "gone", id="pod-gone"),
    pytest.param(failure(409, "Conflict"), "gone", id="pod-replaced"),
    pytest.param(
        failure(403, "Forbidden", "namespace team because it is being terminated"),
        "gone",
        id="namespace-going",
    ),
    pytest.param(failure(403, "Forbidden", "cannot patch"), "refused", id="no-rights"),
    pytest.param(failure(422, "Invalid"), "refused", id="invalid"),
]


@pytest.mark.parametrize(("answer", "result"), LOST)
async def test_send_failure_is_counted_and_sending_continues(
    recording: Recording, answer: Answer, result: str
) -> None:
    recording.api.script(EVENT, answer, reply({}, 201))
    recording.api.script(PATCH, answer, reply({}))
    recording.recorder.failed(A, SENTENCE)
    await recording.sent()

    assert sorted(recording.counts) == [("condition", result), ("event", result)]


async def test_refused_condition_is_retried_with_the_next_attempt(
    recording: Recording,
) -> None:
    recording.api.script(PATCH, failure(422), reply({}))
    recording.recorder.failed(A, SENTENCE)
    await recording.sent()
    recording.recorder.failed(A, SENTENCE)
    await recording.sent()

    assert [c["message"] for c in recording.conditions()] == [SENTENCE, SENTENCE]
    assert ("condition", "sent") in recording.counts


NOT_NOW = [
    pytest.param(failure(429, retry_after="1"), "busy", id="too-many"),
    pytest.param(failure(503), "busy", id="unavailable"),
    pytest.param(failure(500), "busy", id="broken"),
    pytest.param(reset, "unreachable", id="reset"),
]


@pytest.mark.parametrize(("answer", "result"), NOT_NOW)
async def test_lost_condition_is_resent_and_a_lost_event_is_not(
    recording: Recording, answer: Answer, result: str
) -> None:
    """Equal pods wait as one group: a pod that is not retried itself still needs a reason."""
    recording.api.script(EVENT, answer, reply({}, 201))
    recording.api.script(PATCH, answer, answer, reply({}))
    recording.recorder.failed(A, SENTENCE)
    for _ in range(3):
        await recording.api.next(PATCH)
    await recording.sent()

    assert [c["message"] for c in recording.conditions()] == [SENTENCE] * 3
    conditions = [("condition", result), ("condition", result), ("condition", "sent")]
    assert sorted(recording.counts) == sorted([*conditions, ("event", result)])


async def test_outdated_condition_is_not_resent(recording: Recording) -> None:
    recording.api.script(PATCH, failure(503), reply({}))
    recording.recorder.failed(A, SENTENCE)
    await recording.api.next(PATCH)
    recording.recorder.forget(A.uid)
    await recording.sent()
    recording.recorder.failed(A, "another")
    await recording.sent()

    assert [c["message"] for c in recording.conditions()] == [SENTENCE, "another"]


@pytest.mark.parametrize("how", ["placed", "scheduled"])
async def test_outdated_condition_is_not_sent(recording: Recording, how: str) -> None:
    """It waited while Bindings were in flight, and one of them was this pod's."""
    recording.idle.clear()
    recording.recorder.failed(A, SENTENCE)
    await asyncio.sleep(0)
    if how == "placed":
        recording.recorder.forget(A.uid)
    else:
        recording.recorder.scheduled(A, "n1")
    recording.idle.set()
    await recording.sent()

    assert recording.bodies(PATCH) == []
    assert ("condition", "stale") in recording.counts


async def test_writes_wait_for_bindings_in_flight_and_are_then_all_sent(
    recording: Recording,
) -> None:
    recording.idle.clear()
    recording.recorder.failed(A, SENTENCE)
    for _ in range(5):
        await asyncio.sleep(0)
    assert recording.api.seen == []

    recording.idle.set()
    await recording.sent()
    assert sorted(recording.counts) == [("condition", "sent"), ("event", "sent")]


async def test_bindings_in_flight_delay_writes_for_a_limited_time(recording: Recording) -> None:
    recording.idle.clear()
    recording.recorder.failed(A, SENTENCE)
    recording.now += 10
    await recording.sent()

    assert len(recording.bodies(EVENT)) == 1


async def test_a_full_queue_drops_and_counts(api: FakeApi, client: Client) -> None:
    """Without a sender nothing blocks: decisions never wait for events."""
    idle = Recording(api, client)
    for number in range(20_001):
        idle.recorder.scheduled(Pod(uid=str(number), name="a", namespace="team"), "n1")

    assert idle.counts == [("event", "dropped")]


async def test_conditions_are_never_dropped_and_coalesce_per_pod(
    api: FakeApi, client: Client
) -> None:
    """Ten thousand waiting pods get their newest reason, however often it changes."""
    idle = Recording(api, client)
    pods = [pod(f"p{number}") for number in range(50)]
    for text in ("first", "second", "third"):
        for one in pods:
            idle.recorder.failed(one, text)

    assert len(idle.recorder._queue._newest) == 50
    assert idle.recorder._queue._queue.qsize() == 50 + 150
    assert idle.counts == []


async def test_conditions_are_sent_before_events(recording: Recording) -> None:
    """Ten thousand rejected pods: each has its condition before the first event is written."""
    pods = [pod(f"p{number}", gpus=1) for number in range(24)]
    for one in pods:
        recording.api.script(f"PATCH /api/v1/namespaces/team/pods/{one.name}/status", reply({}))
        recording.recorder.failed(one, SENTENCE)
    await recording.sent()

    methods = [seen.method for seen in recording.api.seen]
    assert sorted(methods) == ["PATCH"] * 24 + ["POST"] * 24
    certain = 24 - WORKERS + 1  # requests in flight arrive in any order
    assert set(methods[:certain]) == {"PATCH"}


async def test_an_event_is_not_overtaken_by_later_conditions_for_ever(
    recording: Recording,
) -> None:
    recording.recorder.note(A, "NodeAvoided", "n1")
    recording.now += OVERTAKEN_S + 1
    for number in range(60):
        one = pod(f"p{number}", gpus=1)
        recording.api.script(f"PATCH /api/v1/namespaces/team/pods/{one.name}/status", reply({}))
        recording.recorder.waits(one, "waits", "n1")
    await recording.sent()

    methods = [seen.method for seen in recording.api.seen]
    assert methods.index("POST") < WORKERS


async def test_deleted_pod_is_forgotten(recording: Recording) -> None:
    recording.recorder.failed(A, SENTENCE)
    recording.recorder.note(A, "Note", "text")
    await recording.sent()
    recording.recorder.gone(A.uid)

    assert recording.recorder._recorded == {}
    assert recording.recorder._queue._conditions == {}
    assert recording.recorder._queue._newest == {}


async def test_drain_times_out(api: FakeApi, client: Client) -> None:
    idle = Recording(api, client)
    idle.recorder.scheduled(A, "n1")
    await idle.recorder.drain(0.01)

    assert idle.counts == [("event", "undelivered")]


async def test_node_problem_is_an_event_on_the_node(recording: Recording) -> None:
    """An object without a namespace has its events in ``default``; the API server insists."""
    path = "POST /apis/events.k8s.io/v1/namespaces/default/events"
    recording.api.script(path, reply({}, 201))
    recording.recorder.note_node(node("n1"), "MigConfigInvalid", "4 x 2g.20gb do not fit")
    await recording.sent()

    [event] = recording.bodies(path)
    assert event["metadata"]["namespace"] == "default"
    about = {"apiVersion": "v1", "kind": "Node", "name": "n1", "uid": "node-n1"}
    assert event["regarding"] == about
    assert event["note"] == "4 x 2g.20gb do not fit"
