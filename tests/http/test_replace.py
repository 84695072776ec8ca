"""Pods that came past the webhook are deleted by uid, and their authors are told."""

from __future__ import annotations

import asyncio

import pytest

from scheduler.bind.pod_recreator import PodRecreator
from scheduler.model.pod import Pod
from scheduler.state.breakers.recreate_budget import RecreateBudget, WebhookLiveness
from scheduler.watch.client import Client
from tests.builders import pod
from tests.http.fakeapi import Answer, FakeApi, failure, reply, reset

WEB = pod("web-a", owner="Deployment/web@r1", uid="u-1")
POD = "DELETE /api/v1/namespaces/team/pods/web-a"


class Scene:
    """A replacer whose webhook has answered for a minute."""

    def __init__(self, client: Client) -> None:
        self.said: list[tuple[str, str, str]] = []
        self.counted: list[str] = []
        self.leads = True
        self.now = 0.0
        self.pulse = WebhookLiveness()
        for self.now in range(0, 65, 5):
            self.pulse.asked(self.now)
        self.replacer = PodRecreator(
            client,
            RecreateBudget(self.pulse),
            lambda: [WEB],
            lambda: self.leads,
            self,
            self.counted.append,
            lambda: self.now,
        )

    def note(self, pod: Pod, reason: str, text: str) -> None:
        self.said.append((pod.name, reason, text))


async def test_the_pod_is_deleted_by_its_uid_and_the_author_is_told(
    api: FakeApi, client: Client
) -> None:
    scene = Scene(client)
    api.script(POD, reply({}))
    await scene.replacer.replace_due()

    [sent] = api.seen
    assert sent.json == {
        "apiVersion": "v1",
        "kind": "DeleteOptions",
        "preconditions": {"uid": "u-1"},
    }
    [(name, reason, text)] = scene.said
    assert (name, reason) == ("web-a", "NotMutated")
    assert "ReplicaSet web-r1 creates it again" in text
    assert "1 of at most 3" in text
    assert scene.counted == ["replaced"]


@pytest.mark.parametrize(
    ("answer", "result", "sent"),
    [
        pytest.param(failure(404), "gone", 1, id="gone"),
        pytest.param(failure(409), "gone", 1, id="another-pod-by-now"),
        pytest.param(failure(403), "refused", 1, id="not-allowed"),
        # The HTTP client asks twice, which a uid as precondition makes harmless.
        pytest.param(reset, "unreachable", 2, id="no-answer"),
    ],
)
async def test_what_fails_is_counted_and_not_tried_again_at_once(
    api: FakeApi, client: Client, answer: Answer, result: str, sent: int
) -> None:
    scene = Scene(client)
    api.script(POD, answer)
    for _ in range(2):
        await scene.replacer.replace_due()

    assert (scene.counted, scene.said, api.count(POD)) == ([result], [], sent)


async def test_who_does_not_lead_deletes_nothing(api: FakeApi, client: Client) -> None:
    scene = Scene(client)
    scene.leads = False
    await scene.replacer.replace_due()
    assert api.seen == []
    scene.leads = True
    api.script(POD, reply({}))
    running = asyncio.create_task(scene.replacer.run())
    await api.next(POD)
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
