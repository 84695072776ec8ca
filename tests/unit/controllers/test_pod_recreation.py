"""Pods that the webhook did not mutate are recreated by actions, and their events have the
reason.
"""

from __future__ import annotations

import pytest

from scheduler.controllers.pod_recreation import PodRecreationController
from scheduler.model.actions import RecordPodEvent, RecreatePod
from scheduler.model.pods.pod import Pod
from scheduler.model.reasons.reason import RequeueCause
from scheduler.report.metrics import Metrics
from scheduler.state.breakers.recreate_budget import WebhookLiveness
from scheduler.state.event import PodRecreated
from scheduler.state.queue.requeue_conditions import RequeueCondition
from scheduler.state.scheduler_state import empty_state
from tests.builders import pod

WEB = pod("web-a", owner="Deployment/web@r1", uid="u-1")


class Scene:
    """A controller whose webhook has answered for a minute, and one pod that waits for it."""

    def __init__(self) -> None:
        self.metrics = Metrics("gpu-scheduler")
        webhook = WebhookLiveness()
        self.now = 0.0
        for self.now in range(0, 65, 5):
            webhook.asked(self.now)
        self.state = empty_state("gpu-scheduler")
        self.controller = PodRecreationController(self.state, self.metrics, webhook)
        self.wait(WEB, RequeueCause.ADMISSION)

    def wait(self, newcomer: Pod, cause: RequeueCause) -> None:
        """The pod is in the queue, and waits for this."""
        self.state.cluster.upsert_pod(newcomer)
        self.state.queue.add(newcomer, self.now)
        entry = self.state.queue.pop(self.now)
        assert entry is not None
        self.state.queue.add_unschedulable(entry, RequeueCondition(frozenset((cause,))), self.now)

    def count(self, result: str) -> float:
        name = "gpu_scheduler_recreated_pods_total"
        return self.metrics.registry.get_sample_value(name, {"result": result}) or 0.0


def test_the_leader_recreates_the_pods_that_wait_for_an_admission() -> None:
    scene = Scene()
    scene.wait(pod("other", owner="Deployment/o@r1", uid="u-2"), RequeueCause.NODE)

    assert scene.controller.tick(scene.now, leads=False) == ()
    assert scene.controller.tick(scene.now, leads=True) == (RecreatePod(WEB, 1),)
    assert scene.controller.tick(scene.now + 1, leads=True) == (), "it counts from then on"


def test_a_recreated_pod_gets_an_event_and_is_counted() -> None:
    scene = Scene()

    [event] = scene.controller.handle(PodRecreated(WEB, 2, "replaced"), scene.now)

    assert isinstance(event, RecordPodEvent)
    assert (event.pod.name, event.reason) == ("web-a", "NotMutated")
    assert "ReplicaSet web-r1 creates it again" in event.text
    assert "try 2 of at most 3" in event.text
    assert scene.count("replaced") == 1


@pytest.mark.parametrize("result", ["gone", "refused", "unreachable"])
def test_a_pod_that_was_not_deleted_gets_no_event(result: str) -> None:
    scene = Scene()

    assert scene.controller.handle(PodRecreated(WEB, 1, result), scene.now) == ()
    assert scene.count(result) == 1
