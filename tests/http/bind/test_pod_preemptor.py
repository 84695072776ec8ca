"""Victims get the condition with the leader's term, and are then deleted by uid."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from datetime import UTC, datetime

import pytest

from scheduler.bind.pod_preemptor import PodPreemptor
from scheduler.model.actions import PreemptPods
from scheduler.state.event import PreemptionEnded, VictimOutcome, VictimResult
from scheduler.watch.client import Client
from tests.builders import pod
from tests.http.fakeapi import Answer, FakeApi, failure, reply, reset
from tests.http.shells import Heard
from tests.unit.loop.loop_world import Leader

BOSS = pod("boss", priority=9)
A = pod("a", uid="u-a", node="n1")
B = pod("b", uid="u-b", node="n1")
PATCH = "PATCH /api/v1/namespaces/team/pods/{}/status"
DELETE = "DELETE /api/v1/namespaces/team/pods/{}"


class Scene:
    """A running preemptor, its inbox and its election."""

    def __init__(self, client: Client) -> None:
        self.heard = Heard()
        self.leader = Leader(epoch=7)
        noon = datetime(2026, 11, 27, 12, tzinfo=UTC)
        self.preemptor = PodPreemptor(
            client, "gpu-scheduler", self.heard, self.leader, lambda: noon, 0.001
        )


@pytest.fixture
async def scene(client: Client) -> AsyncIterator[Scene]:
    made = Scene(client)
    task = asyncio.create_task(made.preemptor.run())
    yield made
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


async def test_the_condition_says_whose_room_is_taken_back(api: FakeApi, scene: Scene) -> None:
    api.script(PATCH.format("a"), reply({}))
    api.script(DELETE.format("a"), reply({}))

    scene.preemptor.send(PreemptPods(BOSS, "n1", (A,), is_reclaim=True))
    await scene.heard.next()

    [condition] = api.seen[0].json["status"]["conditions"]
    assert condition["reason"] == "PreemptionByScheduler"
    assert condition["message"] == (
        "gpu-scheduler: taking back for a pod inside the guarantee of its team (term 7)"
    )


async def test_the_condition_comes_before_the_deletion(api: FakeApi, scene: Scene) -> None:
    api.script(PATCH.format("a"), reply({}))
    api.script(DELETE.format("a"), reply({}))

    scene.preemptor.send(PreemptPods(BOSS, "n1", (A,)))

    result = VictimResult(A, VictimOutcome.DELETED)
    assert await scene.heard.next() == PreemptionEnded(BOSS, "n1", (result,))
    patch, delete = api.seen
    assert patch.json == {
        "metadata": {"uid": "u-a"},
        "status": {
            "conditions": [
                {
                    "type": "DisruptionTarget",
                    "status": "True",
                    "reason": "PreemptionByScheduler",
                    "message": "gpu-scheduler: preempting to accommodate a higher priority pod"
                    " (term 7)",
                    "lastTransitionTime": "2026-11-27T12:00:00Z",
                }
            ]
        },
    }
    # No grace period: the pod's own applies.
    assert delete.json == {
        "apiVersion": "v1",
        "kind": "DeleteOptions",
        "preconditions": {"uid": "u-a"},
    }


@pytest.mark.parametrize(
    ("answer", "outcome", "sent"),
    [
        pytest.param(failure(404), VictimOutcome.GONE, 1, id="gone"),
        pytest.param(failure(409), VictimOutcome.GONE, 1, id="another-pod-by-now"),
        pytest.param(failure(403), VictimOutcome.REFUSED, 1, id="refused-by-the-policy"),
        pytest.param(failure(500), VictimOutcome.UNREACHABLE, 4, id="busy"),
        pytest.param(reset, VictimOutcome.UNREACHABLE, 8, id="no-answer"),
    ],
)
async def test_the_end_of_a_failed_deletion_is_told(
    api: FakeApi, scene: Scene, answer: Answer, outcome: VictimOutcome, sent: int
) -> None:
    api.script(PATCH.format("a"), *[reply({})] * 4)
    api.script(DELETE.format("a"), *[answer] * sent)

    scene.preemptor.send(PreemptPods(BOSS, "n1", (A,)))

    ended = await scene.heard.next()
    assert isinstance(ended, PreemptionEnded)
    assert [one.outcome for one in ended.results] == [outcome]
    assert api.count(DELETE.format("a")) == sent


async def test_a_victim_without_its_condition_is_not_deleted(api: FakeApi, scene: Scene) -> None:
    api.script(PATCH.format("a"), failure(403))

    scene.preemptor.send(PreemptPods(BOSS, "n1", (A,)))

    ended = await scene.heard.next()
    assert isinstance(ended, PreemptionEnded)
    assert [one.outcome for one in ended.results] == [VictimOutcome.REFUSED]
    assert api.count(DELETE.format("a")) == 0


async def test_one_event_ends_all_victims(api: FakeApi, scene: Scene) -> None:
    for name in "ab":
        api.script(PATCH.format(name), reply({}))
    api.script(DELETE.format("a"), reply({}))
    api.script(DELETE.format("b"), failure(404))

    scene.preemptor.send(PreemptPods(BOSS, "n1", (A, B)))

    ended = await scene.heard.next()
    assert isinstance(ended, PreemptionEnded)
    assert [(one.pod.name, one.outcome) for one in ended.results] == [
        ("a", VictimOutcome.DELETED),
        ("b", VictimOutcome.GONE),
    ]


async def test_a_former_leader_sends_nothing(api: FakeApi, scene: Scene) -> None:
    scene.leader.is_leading = False

    scene.preemptor.send(PreemptPods(BOSS, "n1", (A,)))

    ended = await scene.heard.next()
    assert isinstance(ended, PreemptionEnded)
    assert [one.outcome for one in ended.results] == [VictimOutcome.UNSENT]
    assert api.seen == []
