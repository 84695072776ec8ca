"""Pods that wait together in a simulation are placed as a whole where that is possible."""

from __future__ import annotations

from gpuctl.simulator import Simulator
from scheduler.config import Config
from tests.builders import dynamic, pod

BATCH = ("2g.20gb", "2g.20gb", "3g.40gb")


def placed(*priorities: int) -> int:
    """How many of a batch with these priorities get a place on one GPU."""
    simulator = Simulator(Config())
    simulator.add_node(dynamic())
    for number, (profile, priority) in enumerate(zip(BATCH, priorities, strict=True)):
        simulator.add_existing(pod(f"p-{number}", mig={profile: 1}, priority=priority))
    simulator.decide_due()
    return len(simulator.running)


def test_pods_of_one_priority_are_placed_as_a_whole() -> None:
    assert placed(0, 0, 0) == 3


def test_a_stronger_pod_is_never_moved_for_a_weaker_one() -> None:
    """Its place is the best one for itself, and the last one waits."""
    assert placed(2, 1, 0) == 2
