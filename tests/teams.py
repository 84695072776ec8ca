"""Teams and their quotas for tests."""

from __future__ import annotations

from scheduler.model.teams.amount import MIB_PER_GB, SLICE, GpuAmount
from scheduler.model.teams.team import Team, TeamTable
from tests.dra import device_class, device_json

NVIDIA = "gpu.nvidia.com"
#: Serves whole GPUs as the extended resource of NVIDIA's device plugin.
SERVING = device_class(
    NVIDIA, f"device.driver == '{NVIDIA}'", extendedResourceName="nvidia.com/gpu"
)

A100 = {"nvidia.com/gpu.product": "NVIDIA-A100-SXM4-80GB"}
#: For pods that run only inside the guarantee of their team.
INSIDE = {"gpu-scheduler.io/reclaimable": "false"}


def amount(slices: float, gb: float) -> GpuAmount:
    """Slices and gigabytes."""
    return GpuAmount(round(slices * SLICE), round(gb * MIB_PER_GB))


def gpus(count: float) -> GpuAmount:
    """Whole A100 of 80 GB."""
    return amount(7 * count, 80 * count)


def card(name: str) -> dict[str, object]:
    """An A100 of 80 GB as NVIDIA's DRA driver publishes it."""
    product = {f"{NVIDIA}/productName": {"string": "NVIDIA A100-SXM4-80GB"}}
    return device_json(name, attributes=product, capacity={"memory": {"value": "80Gi"}})


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
