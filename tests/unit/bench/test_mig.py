"""What ``bench.mig`` compares the migrations with: the bound, and the allowance."""

from __future__ import annotations

import random

import pytest

from bench.mig import baselines
from bench.mig.__main__ import Allowance
from bench.mig.baselines import Repack
from bench.mig.stream import PROFILES, Request
from scheduler.decide.migration.defrag_plan import Plan, Relocation
from scheduler.model.gpu.device import Devices, MigPlacement
from scheduler.model.mig.layout import GPU_MODELS
from scheduler.plugins.dynamic_mig.instance_search import first, most_constrained_first
from tests.builders import pod


def test_bound_places_what_a_search_of_all_layouts_places(monkeypatch: pytest.MonkeyPatch) -> None:
    """Random requests for two GPUs, until one of them is refused."""
    monkeypatch.setattr(baselines, "GPUS", 2)
    gpu_model, rng = GPU_MODELS["A100-80"], random.Random(1)
    for _ in range(200):
        bound, held, is_placed = Repack(), list[str](), True
        while is_placed:
            profile = rng.choice(list(PROFILES))
            wanted = most_constrained_first(gpu_model, [*held, profile])
            is_placed = bound.place(Request(len(held), 0.0, profile, 1.0))
            assert is_placed == (first(gpu_model, ((), ()), wanted) is not None), wanted
            held.append(profile)


def plan_of(moves: int, gain: float, *, is_certain: bool = True) -> Plan:
    source = MigPlacement(0, 0, "1g.10gb")
    move = Relocation(pod=pod("p"), source=source, node_name="n", devices=Devices())
    return Plan(
        pod=pod("big"),
        node_name="n",
        mig_placement=source,
        moves=(move,) * moves,
        gain=gain,
        is_certain=is_certain,
    )


@pytest.mark.parametrize(
    ("placed", "plan", "is_spent"),
    [
        pytest.param(9, plan_of(1, 9.0), False, id="not a whole migration is left"),
        pytest.param(12, plan_of(1, 2.45), True, id="the last one needs the largest gain"),
        pytest.param(12, plan_of(1, 2.3), False, id="and gets no smaller one"),
        pytest.param(400, plan_of(1, 0.0), True, id="all that can be saved is left"),
        pytest.param(400, plan_of(2, -0.1), False, id="a plan that loses room"),
        pytest.param(150, plan_of(1, 1.3), True, id="half of it is left"),
        pytest.param(150, plan_of(2, 2.4), False, id="each migration has to gain"),
        pytest.param(400, plan_of(1, 9.0, is_certain=False), False, id="not certain"),
    ],
)
def test_allowance_is_spent_on_plans_that_gain_enough(
    placed: int, plan: Plan, is_spent: bool
) -> None:
    allowance = Allowance()
    for _ in range(placed):
        allowance.earn()

    assert allowance.spend(plan) is is_spent
