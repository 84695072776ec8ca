"""Every blocker of a migration: one row each, with its message."""

from __future__ import annotations

from typing import Any

import pytest

from scheduler.decide.migration import preconditions
from scheduler.model import well_known
from scheduler.model.crd.migration import MigrationKind
from scheduler.model.crd.migration_blockers import Blocker, OwnerFacts
from scheduler.model.pods.pod import Owner
from scheduler.model.timestamps import epoch
from scheduler.state.migration.history import Timings
from tests.builders import pod

NOW = epoch("2026-11-27T11:00:00Z") or 0.0
TOLD = Owner("Deployment", "web", "u")
WEB: dict[str, Any] = {"owner": "Deployment/web", "node": "n1"}
AUTO = {well_known.RESTORE: "auto"}


@pytest.mark.contract("S3-B11")
@pytest.mark.parametrize(
    ("fields", "obstacle"),
    [
        pytest.param({"node": "n1"}, Blocker.NO_CONTROLLER, id="bare"),
        pytest.param({"owner": "DaemonSet/d"}, Blocker.UNKNOWN_CONTROLLER, id="daemon-set"),
        pytest.param({"owner": "Node/n1"}, Blocker.UNKNOWN_CONTROLLER, id="mirror-pod"),
        pytest.param({"owner": "Custom/x"}, Blocker.UNKNOWN_CONTROLLER, id="unknown-controller"),
        pytest.param(
            {**WEB, "annotations": {well_known.RESTORE: "never"}}, Blocker.OPTED_OUT, id="never"
        ),
        pytest.param({"owner": "Job/j"}, Blocker.JOB_NOT_OPTED_IN, id="job"),
        pytest.param(
            {**WEB, "labels": {"kueue.x-k8s.io/managed": "true"}},
            Blocker.MANAGED_BY_ANOTHER_QUEUE,
            id="kueue",
        ),
        pytest.param({**WEB, "gates": ["wait"]}, Blocker.SCHEDULING_GATED, id="gated"),
        pytest.param({**WEB, "deleting": True}, Blocker.TERMINATING, id="ends-already"),
        pytest.param({**WEB, "phase": "Succeeded"}, Blocker.TERMINATING, id="completed"),
        pytest.param({**WEB, "created": 3590}, Blocker.TOO_YOUNG, id="young"),
        pytest.param(WEB, None, id="nothing"),
        pytest.param({"owner": "StatefulSet/db"}, None, id="stateful-set"),
        pytest.param({"owner": "Job/j", "annotations": AUTO}, None, id="job-that-asked"),
    ],
)
def test_blockers_on_the_pod(fields: dict[str, Any], obstacle: Blocker | None) -> None:
    found = preconditions.pod_blocker(pod("p", **fields), MigrationKind.RESTORE, NOW, Timings())

    assert (found.blocker if found else None) is obstacle


@pytest.mark.parametrize(
    ("facts", "obstacle"),
    [
        pytest.param({"is_owner_gone": True}, Blocker.OWNER_DELETED, id="owner-gone"),
        pytest.param({"is_outdated": True}, Blocker.OLD_REVISION, id="older-revision"),
        pytest.param({"is_over_count": True}, Blocker.SCALED_DOWN, id="scaled-down"),
        pytest.param({"is_suspended": True}, Blocker.OWNER_SUSPENDED, id="suspended"),
        pytest.param({"manager": "Kueue"}, Blocker.MANAGED_BY_ANOTHER_QUEUE, id="kueue"),
        pytest.param({"is_rolling_out": True}, Blocker.ROLLOUT_IN_PROGRESS, id="rollout"),
        pytest.param({"grace_s": 300.5}, Blocker.GRACE_PERIOD_TOO_LONG, id="grace"),
        pytest.param({"grace_s": 300.0}, None, id="longest-grace"),
        pytest.param(
            {"ignores_disruptions": False}, Blocker.COUNTS_AS_JOB_FAILURE, id="job-counts"
        ),
        pytest.param({"others_down": 1}, Blocker.REPLICAS_NOT_READY, id="siblings-down"),
        pytest.param({"replicas": 1}, Blocker.SINGLE_REPLICA, id="only-replica"),
        pytest.param({"replicas": 1, "has_budget": True}, None, id="only-one-with-a-budget"),
        pytest.param(
            {"has_budget": True, "disruptions_allowed": 0},
            Blocker.DISRUPTION_BUDGET,
            id="budget",
        ),
        pytest.param({}, None, id="nothing"),
    ],
)
def test_blockers_on_the_owner(facts: dict[str, Any], obstacle: Blocker | None) -> None:
    event_target = OwnerFacts(**{"event_target": TOLD, "replicas": 2, **facts})

    found = preconditions.owner_blocker(pod("p", **WEB), MigrationKind.RESTORE, event_target)

    assert (found.blocker if found else None) is obstacle


def test_single_replica_migrates_with_permission() -> None:
    asked = pod("p", **WEB, annotations=AUTO)

    assert (
        preconditions.owner_blocker(
            asked, MigrationKind.RESTORE, OwnerFacts(event_target=TOLD, replicas=1)
        )
        is None
    )


@pytest.mark.parametrize(
    "facts",
    [
        pytest.param({"replicas": 1}, id="only-replica"),
        pytest.param({"others_down": 3}, id="siblings-down"),
        pytest.param({"has_budget": True, "disruptions_allowed": 0}, id="budget"),
    ],
)
def test_single_replica_rule_does_not_apply_to_pending_pods(facts: dict[str, Any]) -> None:
    """The API server does not apply budgets to pods that never ran."""
    waiting = pod("p", owner="Deployment/web")

    assert (
        preconditions.owner_blocker(
            waiting, MigrationKind.RESCUE, OwnerFacts(**{"event_target": TOLD, **facts})
        )
        is None
    )


def test_every_reported_blocker_has_its_own_meaning() -> None:
    meanings = [one.meaning for one in Blocker]

    assert len(set(meanings)) == len(meanings)
