"""When pods that came past the webhook are replaced: not too early, not too often, not for ever."""

from __future__ import annotations

import itertools
from collections.abc import Iterable

import pytest

from scheduler.model.pod import Pod
from scheduler.state.breakers.recreate_budget import (
    AT_ONCE_MAX,
    OWNERS_MAX,
    TRIES_MAX,
    RecreateBudget,
    WebhookLiveness,
)
from tests.builders import pod

NOW = 1000.0


class Days:
    """A webhook that says every five seconds that it serves, and pods that wait."""

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


def test_a_pod_is_replaced_once_the_webhook_has_answered_for_thirty_seconds() -> None:
    days = Days()
    days.pass_time(30)
    assert days.due(WEB) == []
    days.pass_time(5)

    assert days.due(WEB, SET) == ["web-a", "db-0"]


def test_a_webhook_that_falls_silent_begins_anew() -> None:
    days = Days()
    days.pass_time(60)
    days.pass_time(20, serving=False)
    assert days.due(WEB) == []
    days.pass_time(30)
    assert days.due(WEB) == []
    days.pass_time(5)

    assert days.due(WEB) == ["web-a"]


def test_a_beat_that_comes_late_is_no_silence() -> None:
    days = Days()
    days.pass_time(30)
    days.pass_time(10, serving=False)
    days.pass_time(5)

    assert days.due(WEB) == ["web-a"]


def test_without_a_webhook_nobody_is_replaced() -> None:
    days = Days()
    days.now += 10_000

    assert days.due(WEB) == []


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
def test_who_is_never_replaced(one: Pod) -> None:
    days = Days()
    days.pass_time(35)

    assert days.due(one) == []


SIBLINGS = [pod(f"web-{name}", owner="Deployment/web") for name in "bcdef"]


def test_once_a_replacement_came_back_well_those_that_waited_with_it_follow() -> None:
    """Five pods were created before the webhook served: none of them is left behind."""
    days = Days()
    days.pass_time(35)
    left, found = list(SIBLINGS), []
    for _ in range(len(SIBLINGS)):
        found += days.due(*left)
        left = SIBLINGS[len(found) :]
        assert days.due(*left) == []
        days.pass_time(5)

    assert found == [one.name for one in SIBLINGS]
    assert days.repairs.count(SIBLINGS[0]) == 1


def test_as_long_as_a_replacement_comes_back_as_it_was_there_is_a_pause_of_a_minute() -> None:
    days = Days()
    days.pass_time(35)
    again = pod("web-x", owner="Deployment/web")
    assert days.due(*SIBLINGS) == ["web-b"]
    days.pass_time(55)
    assert days.due(*SIBLINGS[1:], again) == []
    days.pass_time(5)

    assert days.due(*SIBLINGS[1:], again) == ["web-c"]


def test_while_the_webhook_was_asked_nothing_nobody_follows() -> None:
    """The first replacement may simply not be there yet."""
    days = Days(asked=False)
    days.pass_time(35)
    assert days.due(*SIBLINGS) == ["web-b"]
    days.pass_time(30)

    assert days.due(*SIBLINGS[1:]) == []


def test_a_webhook_that_never_helps_costs_an_owner_three_pods_and_no_more() -> None:
    """Ten thousand seconds; a rollout of the same Deployment is the same owner."""
    days = Days()

    assert days.replaced_in(10_000, [WEB, pod("web-z", owner="Deployment/web@r2")]) == TRIES_MAX


def test_until_the_webhook_is_asked_once_a_single_pod_is_replaced_as_a_trial() -> None:
    """It runs, but is it registered? Nobody else's pod is deleted to find out."""
    days = Days(asked=False)
    days.pass_time(35)
    assert days.due(WEB, SET) == ["web-a"]
    days.pass_time(3600)
    assert days.due(WEB, SET) == []
    days.pulse.asked(days.now)

    assert days.due(WEB, SET) == ["web-a", "db-0"]


def test_a_webhook_that_comes_and_goes_gets_one_trial_each_time() -> None:
    days = Days(asked=False)
    found = []
    for _ in range(5):
        days.pass_time(35)
        found += days.due(WEB, SET) + days.due(WEB, SET)
        days.pass_time(60, serving=False)

    assert found == ["web-a"] * TRIES_MAX + ["db-0"] * 2


def test_many_owners_are_repaired_a_few_at_a_time() -> None:
    days = Days()
    days.pass_time(35)
    many = [pod(f"p{n}", owner=f"StatefulSet/s{n}") for n in range(20)]
    first = days.due(*many)
    second = days.due(*many)

    assert (len(first), len(second)) == (AT_ONCE_MAX, AT_ONCE_MAX)
    assert set(first).isdisjoint(second)


def test_what_is_remembered_of_owners_has_a_limit() -> None:
    days = Days()
    days.pass_time(35)
    many = (pod(f"p{n}", owner=f"StatefulSet/s{n}") for n in range(OWNERS_MAX + 50))
    for batch in iter(lambda: list(itertools.islice(many, AT_ONCE_MAX)), []):
        days.due(*batch)

    assert len(days.repairs._owners) == OWNERS_MAX
