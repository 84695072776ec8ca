"""The modes off and report of migrations."""

from __future__ import annotations

from tests.degraded_workload import full
from tests.migration_world import Workload

MINUTE_S = 60.0


def test_report_mode_writes_one_event_and_nothing_else() -> None:
    world, holder = full(Workload("web"), mode="report")

    world.remove(holder.uid)
    world.pass_time(10 * MINUTE_S)

    assert world.writes == []
    assert [reason for _, reason, _ in world.notes] == ["MigrationPossible"] * 2


def test_off_mode_only_ends_open_migrations() -> None:
    world, holder = full(Workload("web"), mode="off")

    world.remove(holder.uid)
    world.pass_time(10 * MINUTE_S)

    assert (world.writes, world.notes) == ([], [])
