"""When pods that came past the webhook are replaced: not too early, not too often, not for ever."""

from __future__ import annotations

import itertools
from collections.abc import Iterable

import pytest

from scheduler.model.pods.pod import Pod
from scheduler.state.breakers.recreate_budget import (
    AT_ONCE_MAX,
    OWNERS_MAX,
    TRIES_MAX,
    RecreateBudget,
    WebhookLiveness,
)
from tests.builders import pod

NOW = 1000.0


class WebhookTimeline:
    """A webhook with a heartbeat every five seconds, and pods that wait."""

    def __init__(self, *, asked: bool = True) -> None:
        self.now = NOW
        self.pulse = WebhookLiveness()
        self.repairs = RecreateBudget(self.pulse)
        self.asked = asked

    def pass_time(self, seconds: float, *, serving: bool = True) -> None:
        for _ in range(round(seconds / 5)):
            self.now += 5
            if serving:
                self.pulse.beat(self.now)
                if self.asked:
                    self.pulse.asked(self.now)

    def due(self, *pods: Pod) -> list[str]:
        return [one.name for one in self.repairs.due(pods, self.now)]

    def replaced_in(self, seconds: float, pods: Iterable[Pod]) -> int:
        """Every replacement comes past the webhook again, as a new pod under a new name."""
        waiting = list(pods)
        count = 0
        for _ in range(round(seconds / 5)):
            self.pass_time(5)
            for old in self.repairs.due(waiting, self.now):
                count += 1
                waiting.remove(old)
                waiting.append(pod(f"{old.name}x", owner="Deployment/web"))
        return count


WEB = pod("web-a", owner="Deployment/web")
SET = pod("db-0", owner="StatefulSet/db")


def test_pod_is_recreated_after_30s_of_webhook_liveness() -> None:
    timeline = WebhookTimeline()
    timeline.pass_time(30)
    assert timeline.due(WEB) == []
    timeline.pass_time(5)

    assert timeline.due(WEB, SET) == ["web-a", "db-0"]


def test_silent_webhook_restarts_the_liveness_window() -> None:
    timeline = WebhookTimeline()
    timeline.pass_time(60)
    timeline.pass_time(20, serving=False)
    assert timeline.due(WEB) == []
    timeline.pass_time(30)
    assert timeline.due(WEB) == []
    timeline.pass_time(5)

    assert timeline.due(WEB) == ["web-a"]


def test_late_liveness_signal_is_no_silence() -> None:
    timeline = WebhookTimeline()
    timeline.pass_time(30)
    timeline.pass_time(10, serving=False)
    timeline.pass_time(5)

    assert timeline.due(WEB) == ["web-a"]


def test_without_a_webhook_no_pod_is_recreated() -> None:
    timeline = WebhookTimeline()
    timeline.now += 10_000

    assert timeline.due(WEB) == []


@pytest.mark.parametrize(
    "one",
    [
        pytest.param(pod("w-0"), id="bare"),
        pytest.param(pod("w-0", owner="Job/w"), id="a-jobs"),
        pytest.param(pod("w-0", owner="DaemonSet/w"), id="a-daemonsets"),
        pytest.param(pod("w-0", owner="Deployment/w", deleting=True), id="ending"),
        pytest.param(pod("w-0", owner="Deployment/w", node="n1"), id="placed"),
    ],
)
def test_pods_that_are_never_recreated(one: Pod) -> None:
    timeline = WebhookTimeline()
    timeline.pass_time(35)

    assert timeline.due(one) == []


SIBLINGS = [pod(f"web-{name}", owner="Deployment/web") for name in "bcdef"]


def test_successful_replacement_releases_the_waiting_pods() -> None:
    """Five pods were created before the webhook served: none of them is left behind."""
    timeline = WebhookTimeline()
    timeline.pass_time(35)
    left, found = list(SIBLINGS), []
    for _ in range(len(SIBLINGS)):
        found += timeline.due(*left)
        left = SIBLINGS[len(found) :]
        assert timeline.due(*left) == []
        timeline.pass_time(5)

    assert found == [one.name for one in SIBLINGS]
    assert timeline.repairs.count(SIBLINGS[0]) == 1


def test_unchanged_replacement_pauses_recreation_for_a_minute() -> None:
    timeline = WebhookTimeline()
    timeline.pass_time(35)
    again = pod("web-x", owner="Deployment/web")
    assert timeline.due(*SIBLINGS) == ["web-b"]
    timeline.pass_time(55)
    assert timeline.due(*SIBLINGS[1:], again) == []
    timeline.pass_time(5)

    assert timeline.due(*SIBLINGS[1:], again) == ["web-c"]


def test_without_webhook_queries_no_further_pod_is_recreated() -> None:
    """The first replacement may simply not be there yet."""
    timeline = WebhookTimeline(asked=False)
    timeline.pass_time(35)
    assert timeline.due(*SIBLINGS) == ["web-b"]
    timeline.pass_time(30)

    assert timeline.due(*SIBLINGS[1:]) == []


def test_useless_webhook_costs_an_owner_at_most_three_pods() -> None:
    """Ten thousand seconds; a rollout of the same Deployment is the same owner."""
    timeline = WebhookTimeline()

    assert timeline.replaced_in(10_000, [WEB, pod("web-z", owner="Deployment/web@r2")]) == TRIES_MAX


def test_before_the_first_query_one_pod_is_recreated_as_a_trial() -> None:
    """A running webhook may be unregistered: one pod is enough to find out."""
    timeline = WebhookTimeline(asked=False)
    timeline.pass_time(35)
    assert timeline.due(WEB, SET) == ["web-a"]
    timeline.pass_time(3600)
    assert timeline.due(WEB, SET) == []
    timeline.pulse.asked(timeline.now)

    assert timeline.due(WEB, SET) == ["web-a", "db-0"]


def test_flapping_webhook_gets_one_trial_per_return() -> None:
    timeline = WebhookTimeline(asked=False)
    found = []
    for _ in range(5):
        timeline.pass_time(35)
        found += timeline.due(WEB, SET) + timeline.due(WEB, SET)
        timeline.pass_time(60, serving=False)

    assert found == ["web-a"] * TRIES_MAX + ["db-0"] * 2


def test_many_owners_are_repaired_a_few_at_a_time() -> None:
    timeline = WebhookTimeline()
    timeline.pass_time(35)
    many = [pod(f"p{n}", owner=f"StatefulSet/s{n}") for n in range(20)]
    first = timeline.due(*many)
    second = timeline.due(*many)

    assert (len(first), len(second)) == (AT_ONCE_MAX, AT_ONCE_MAX)
    assert set(first).isdisjoint(second)


def test_remembered_owners_are_limited() -> None:
    timeline = WebhookTimeline()
    timeline.pass_time(35)
    many = (pod(f"p{n}", owner=f"StatefulSet/s{n}") for n in range(OWNERS_MAX + 50))
    for batch in iter(lambda: list(itertools.islice(many, AT_ONCE_MAX)), []):
        timeline.due(*batch)

    assert len(timeline.repairs._owners) == OWNERS_MAX
