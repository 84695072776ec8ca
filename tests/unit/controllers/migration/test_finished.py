"""The results of migrations survive a restart, even if their pods are deleted."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from scheduler.controllers.migration.finished import KEPT_MAX, FinishedMigrations
from scheduler.model import well_known
from scheduler.model.crd.migration_actions import (
    CompleteMigration,
    DeleteMigration,
)
from scheduler.model.crd.migration_result import MigrationEnd, MigrationResult
from scheduler.model.pods.pod import Pod
from scheduler.model.timestamps import epoch
from scheduler.state import event as ev
from scheduler.state.migration.history import HOUR_S, MigrationHistory, Timings
from tests.builders import node, pod, restoring
from tests.migration_world import START_S, Workload, World

MINUTE_S = 60.0


def after_one_move(per_hour: int = 1) -> tuple[World, Pod]:
    """One of three pods was migrated and deleted; a bare pod holds another big slice."""
    world = World(
        node("cut", mig={"2g.20gb": 2, "1g.10gb": 3}), timings=Timings(migrations_per_hour=per_hour)
    )
    bare = [
        world.create(pod(f"bare-{n}", uid="", mig={"2g.20gb": 1}, priority=5)) for n in range(2)
    ]
    world.decide_due()
    world.add(Workload("web", 3))
    world.pass_time(2 * MINUTE_S)
    first, second = bare
    assert first is not None
    assert second is not None
    world.remove(first.uid)
    world.pass_time(5)
    [moved] = [one for one in world.of("web") if well_known.MIGRATION in one.annotations]
    world.remove(moved.uid)
    world.settle()
    assert not any(well_known.MIGRATION in one.annotations for one in world.of("web"))
    assert [type(action) for _, action in world.writes][2:] == [CompleteMigration]
    return world, second


@pytest.mark.contract("S3-B2", "S3-B12")
@pytest.mark.parametrize("restarts", [False, True], ids=["goes-on", "restarted"])
def test_the_budget_of_an_hour_holds_across_restarts(restarts: bool) -> None:
    world, second = after_one_move()
    if restarts:
        world.restart()

    world.remove(second.uid)
    world.pass_time(50 * MINUTE_S, 10)

    assert len(world.ended) == 1
    assert any("1 migrations within an hour" in text for _, _, text in world.notes)
    world.pass_time(12 * MINUTE_S, 10)
    assert len(world.ended) == 2


def test_ticket_is_deleted_an_hour_after_its_end() -> None:
    world, _ = after_one_move()
    world.restart()

    world.pass_time(HOUR_S - 10 * MINUTE_S, 10)
    assert len(world.stored) == 1
    world.pass_time(12 * MINUTE_S, 10)

    assert world.stored == {}
    assert len(world.sent(DeleteMigration)) == 1


def test_consecutive_failures_are_read_from_the_last_hour_of_tickets() -> None:
    """Also without a pod that names the migration, because no replacement was admitted."""
    history = MigrationHistory(Timings())
    for attempt in (1, 2):
        migration = restoring(f"restore-{attempt}-x", attempt=attempt)
        history.remember(migration, MigrationEnd(MigrationResult.DEADLINE_EXCEEDED, 60.0 * attempt))

    assert history.attempt("team/Deployment/web", "r1") == 3
    history.remember(
        restoring("restore-3-x", attempt=3), MigrationEnd(MigrationResult.SUCCEEDED, 180.0)
    )
    assert history.attempt("team/Deployment/web", "r1") == 1


def test_pod_with_a_known_ticket_adds_nothing_to_the_history() -> None:
    """One migration is counted once, and its object has precedence over the pod."""
    history = MigrationHistory(Timings(migrations_per_hour=2, cooldown_s=0.0))
    now = START_S + 10.0
    history.remember(restoring("restore-1-x"), MigrationEnd(MigrationResult.SUCCEEDED, START_S))
    taker = pod(
        "web-1",
        owner="Deployment/web@r1",
        mig={"1g.10gb": 1},
        annotations={well_known.MIGRATION: "restore-1-x", well_known.FALLBACK: "2g.20gb->1g.10gb"},
    )

    history.recall(taker)

    assert history.blocker(taker, now) is None
    assert history.attempt("team/Deployment/web", "r1") == 1


def test_completion_is_resent_until_the_watch_shows_it() -> None:
    finished = FinishedMigrations(MigrationHistory(Timings()))
    migration, end = restoring("restore-1-x"), MigrationEnd(MigrationResult.SUCCEEDED, 100.0)
    complete = CompleteMigration(migration, end)

    assert finished.complete(migration, end) == complete
    assert finished.repeat(migration, 105.0) == ()
    assert finished.repeat(migration, 110.0) == (complete,)
    finished.upsert(msgspec.structs.replace(migration, end=end))

    assert finished.result_of(migration.id) is None


def test_of_too_many_ended_tickets_the_oldest_are_deleted_early() -> None:
    finished = FinishedMigrations(MigrationHistory(Timings()))
    for number in range(KEPT_MAX + 3):
        end = MigrationEnd(MigrationResult.SUCCEEDED, float(number))
        finished.upsert(restoring(f"restore-1-{number:08x}", end=end))

    deleted = finished.tick(float(KEPT_MAX))
    assert finished.tick(float(KEPT_MAX + 1)) == (), "asked for once, and again after a pause"

    names = [action.migration.id for action in deleted if isinstance(action, DeleteMigration)]
    assert names == [f"restore-1-{number:08x}" for number in range(3)]
    finished.replace([])
    assert finished.tick(10 * HOUR_S) == ()


def test_migration_ended_by_another_replica_releases_its_room() -> None:
    """A standby sees the result like the leader."""
    world, holder = after_one_move(per_hour=20)
    world.leader.is_leading = False
    world.remove(holder.uid)
    migration = restoring("restore-1-y", pod_uid="gone", requests={"nvidia.com/mig-2g.20gb": 1})
    world.deliver(ev.MigrationUpdated(migration))
    assert migration.id in world.cluster.nominated

    world.deliver(
        ev.MigrationUpdated(
            msgspec.structs.replace(
                migration, end=MigrationEnd(MigrationResult.DEADLINE_EXCEEDED, world.now)
            )
        )
    )

    assert world.cluster.nominated == {}
    assert len(world.moves.open) == 0


@pytest.mark.parametrize(
    ("name", "fields", "recalled"),
    [
        pytest.param("restore-2-0a1b2c3d", {}, True, id="a-name-of-ours"),
        pytest.param("restore-2-x", {"scheduler": "other"}, False, id="another-schedulers-pod"),
        pytest.param("a-2-b", {}, False, id="another-shape"),
        pytest.param(f"restore-{'9' * 5000}-b", {}, False, id="a-number-without-end"),
        pytest.param("restore-02-b", {}, False, id="a-number-that-we-do-not-write"),
    ],
)
def test_only_plausible_tickets_are_restored(name: str, fields: Any, recalled: bool) -> None:
    history = MigrationHistory(Timings())
    taker = pod(
        "web-1", owner="Deployment/web@r1", annotations={well_known.MIGRATION: name}, **fields
    )

    history.recall(taker)

    assert (history.blocker(taker, (epoch(taker.created) or 0.0) + 1) is not None) is recalled
