"""Teams and their quotas for tests."""

from __future__ import annotations

from scheduler.model.teams.amount import MIB_PER_GB, SLICE, GpuAmount
from scheduler.model.teams.team import Team, TeamTable

A100 = {"nvidia.com/gpu.product": "NVIDIA-A100-SXM4-80GB"}
#: For pods that run only inside the guarantee of their team.
INSIDE = {"gpu-scheduler.io/reclaimable": "false"}


def amount(slices: float, gb: float) -> GpuAmount:
    """Slices and gigabytes."""
    return GpuAmount(round(slices * SLICE), round(gb * MIB_PER_GB))


def gpus(count: float) -> GpuAmount:
    """Whole A100 of 80 GB."""
    return amount(7 * count, 80 * count)


def team(name: str, guaranteed: float = 0, limit: float | None = None, weight: float = 1.0) -> Team:
    """A team whose guarantee and limit are whole GPUs."""
    most = None if limit is None else gpus(limit)
    return Team(
        name=name,
        guarantee=gpus(guaranteed),
        limit_slices=None if most is None else most.slices,
        limit_mib=None if most is None else most.mib,
        weight=weight,
    )


def table(*teams: Team, label: str = "", kueue: bool = True) -> TeamTable:
    """These teams."""
    return TeamTable(teams={one.name: one for one in teams}, label=label, kueue=kueue)
