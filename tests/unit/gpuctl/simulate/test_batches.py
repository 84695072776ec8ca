"""Pods that wait together in a simulation are placed as a whole where that is possible."""

from __future__ import annotations

import pytest
import yaml

from gpuctl.simulate.engine import Simulator
from scheduler.config import Config
from tests.builders import dynamic, pod
from tests.unit.gpuctl.cli import Json, gpuctl, node, spec
from tests.unit.gpuctl.cli import pod as as_typed

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


def card(name: str = "cut") -> Json:
    """A dynamic MIG node with one A100 of 80 GB."""
    body = node(name)
    body["metadata"]["labels"] = {
        "gpu-scheduler.io/mig-dynamic": "true",
        "nvidia.com/gpu.product": "NVIDIA-A100-SXM4-80GB",
        "nvidia.com/gpu.count": "1",
    }
    return body


def wants(*profiles: str) -> list[Json]:
    """Pods that ask for one instance each, in this order."""
    return [
        as_typed(f"p{at}", spec(f"nvidia.com/mig-{profile}", 1))
        for at, profile in enumerate(profiles)
    ]


HEAD = "A100-80, dynamic MIG: these pods fill"


@pytest.mark.parametrize(
    ("objects", "line"),
    [
        pytest.param(
            [card(), *wants("1g.10gb", "7g.80gb")],
            f"{HEAD} 1 of 8 free memory slices; the best choice of them would fill 8",
            id="the-order-costs-seven",
        ),
        pytest.param(
            [card(), *wants("3g.40gb", "3g.40gb", "7g.80gb")],
            f"{HEAD} 8 of 8 free memory slices; no choice of them fills more",
            id="the-order-costs-nothing",
        ),
        pytest.param(
            [
                *(card(), card("held")),
                as_typed("there", spec("nvidia.com/gpu", 1, nodeName="held")),
                *wants("1g.10gb", "7g.80gb"),
            ],
            f"{HEAD} 1 of 8 free memory slices; the best choice of them would fill 8",
            id="what-held-a-gpu-before-is-not-theirs",
        ),
        pytest.param([card(), *wants("3g.40gb", "4g.40gb")], None, id="all-fit"),
        pytest.param(
            [card(), as_typed("p", spec("nvidia.com/mig-7g.80gb", 1, nodeSelector={"a": "b"}))],
            None,
            id="it-could-not-go-there-anyway",
        ),
        pytest.param(
            [
                card("a"),
                card("b"),
                as_typed("p", spec("nvidia.com/mig-3g.40gb", 3)),
                *wants("7g.80gb"),
            ],
            f"{HEAD} 8 of 16 free memory slices; no choice of them fills more than 12",
            id="of-one-pods-instances-on-one-node-it-is-a-bound",
        ),
    ],
)
def test_pods_that_do_not_all_fit_are_compared_with_the_best_subset(
    objects: list[Json], line: str | None
) -> None:
    result = gpuctl("simulate", "-", stdin="\n---\n".join(map(yaml.safe_dump, objects)))

    told = [row for row in result.out.splitlines() if row.startswith("A100-80")]
    assert told == ([line] if line else [])
