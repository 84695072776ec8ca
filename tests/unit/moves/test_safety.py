"""Every reason not to move a pod: one row each, with words that its author understands."""

from __future__ import annotations

from typing import Any

import pytest

from scheduler.decide import safety
from scheduler.model import names
from scheduler.model.moment import epoch
from scheduler.model.obstacle import Facts, Obstacle
from scheduler.model.pod import Owner
from scheduler.model.ticket import Move
from scheduler.state.history import Timings
from tests.builders import pod

NOW = epoch("2026-11-27T11:00:00Z") or 0.0
TOLD = Owner("Deployment", "web", "u")
WEB: dict[str, Any] = {"owner": "Deployment/web", "node": "n1"}
AUTO = {names.RESTORE: "auto"}


@pytest.mark.contract("S3-B11")
@pytest.mark.parametrize(
    ("wishes", "obstacle"),
    [
        pytest.param({"node": "n1"}, Obstacle.BARE, id="bare"),
        pytest.param({"owner": "DaemonSet/d"}, Obstacle.CONTROLLER, id="daemon-set"),
        pytest.param({"owner": "Node/n1"}, Obstacle.CONTROLLER, id="mirror-pod"),
        pytest.param({"owner": "Custom/x"}, Obstacle.CONTROLLER, id="unknown-controller"),
        pytest.param(
            {**WEB, "annotations": {names.RESTORE: "never"}}, Obstacle.OPTED_OUT, id="never"
        ),
        pytest.param({"owner": "Job/j"}, Obstacle.JOB_NOT_ASKED, id="job"),
        pytest.param(
            {**WEB, "labels": {"kueue.x-k8s.io/managed": "true"}},
            Obstacle.QUEUED_ELSEWHERE,
            id="kueue",
        ),
        pytest.param({**WEB, "gates": ["wait"]}, Obstacle.GATED, id="gated"),
        pytest.param({**WEB, "deleting": True}, Obstacle.LEAVING, id="ends-already"),
        pytest.param({**WEB, "phase": "Succeeded"}, Obstacle.LEAVING, id="completed"),
        pytest.param({**WEB, "created": 3590}, Obstacle.TOO_YOUNG, id="young"),
        pytest.param(WEB, None, id="nothing"),
        pytest.param({"owner": "StatefulSet/db"}, None, id="stateful-set"),
        pytest.param({"owner": "Job/j", "annotations": AUTO}, None, id="job-that-asked"),
    ],
)
def test_what_the_pod_says_against_its_move(
    wishes: dict[str, Any], obstacle: Obstacle | None
) -> None:
    found = safety.hindrance(pod("p", **wishes), Move.RESTORE, NOW, Timings())

    assert (found.obstacle if found else None) is obstacle


@pytest.mark.parametrize(
    ("facts", "obstacle"),
    [
        pytest.param({"is_owner_gone": True}, Obstacle.OWNER_GONE, id="owner-gone"),
        pytest.param({"is_outdated": True}, Obstacle.OUTDATED, id="older-revision"),
        pytest.param({"is_over_count": True}, Obstacle.SCALED_DOWN, id="scaled-down"),
        pytest.param({"is_suspended": True}, Obstacle.SUSPENDED, id="suspended"),
        pytest.param({"manager": "Kueue"}, Obstacle.QUEUED_ELSEWHERE, id="kueue"),
        pytest.param({"is_rolling_out": True}, Obstacle.ROLLOUT, id="rollout"),
        pytest.param({"grace_s": 300.5}, Obstacle.GRACE, id="grace"),
        pytest.param({"grace_s": 300.0}, None, id="longest-grace"),
        pytest.param({"ignores_disruptions": False}, Obstacle.JOB_WOULD_COUNT, id="job-counts"),
        pytest.param({"others_down": 1}, Obstacle.SIBLINGS_DOWN, id="siblings-down"),
        pytest.param({"replicas": 1}, Obstacle.ONE_REPLICA, id="only-replica"),
        pytest.param({"replicas": 1, "has_budget": True}, None, id="only-one-with-a-budget"),
        pytest.param(
            {"has_budget": True, "disruptions_allowed": 0},
            Obstacle.BUDGET_OF_DISRUPTIONS,
            id="budget",
        ),
        pytest.param({}, None, id="nothing"),
    ],
)
def test_what_the_owner_says_against_a_restore(
    facts: dict[str, Any], obstacle: Obstacle | None
) -> None:
    told = Facts(**{"told": TOLD, "replicas": 2, **facts})

    found = safety.verdict(pod("p", **WEB), Move.RESTORE, told)

    assert (found.obstacle if found else None) is obstacle


def test_the_only_replica_is_moved_if_its_author_allows_it() -> None:
    asked = pod("p", **WEB, annotations=AUTO)

    assert safety.verdict(asked, Move.RESTORE, Facts(told=TOLD, replicas=1)) is None


@pytest.mark.parametrize(
    "facts",
    [
        pytest.param({"replicas": 1}, id="only-replica"),
        pytest.param({"others_down": 3}, id="siblings-down"),
        pytest.param({"has_budget": True, "disruptions_allowed": 0}, id="budget"),
    ],
)
def test_a_pod_that_waits_serves_nobody_and_may_be_rescued(facts: dict[str, Any]) -> None:
    """The API server does not apply budgets to pods that never ran."""
    waiting = pod("p", owner="Deployment/web")

    assert safety.verdict(waiting, Move.RESCUE, Facts(**{"told": TOLD, **facts})) is None


def test_every_obstacle_that_is_told_has_a_meaning_of_its_own() -> None:
    meanings = [one.meaning for one in Obstacle]

    assert len(set(meanings)) == len(meanings)
