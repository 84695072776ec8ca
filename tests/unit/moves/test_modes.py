"""What the modes off and report of moves leave undone."""

from __future__ import annotations

from tests.degraded_workload import full
from tests.movesworld import Workload

MINUTE_S = 60.0


def test_in_mode_report_nothing_is_written_and_the_pod_says_so_once() -> None:
    world, holder = full(Workload("web"), mode="report")

    world.remove(holder.uid)
    world.pass_time(10 * MINUTE_S)

    assert world.writes == []
    assert [reason for _, reason, _ in world.notes] == ["MovePossible"] * 2


def test_in_mode_off_nothing_happens_but_open_moves_are_ended() -> None:
    world, holder = full(Workload("web"), mode="off")

    world.remove(holder.uid)
    world.pass_time(10 * MINUTE_S)

    assert (world.writes, world.notes) == ([], [])
