"""The order of the lines, and how often the contract line comes."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import pytest

from gpucheck.environment import Environment
from gpucheck.service import run


def environment(*issues: str) -> Environment:
    return Environment(node="node1", devices="0,1", interval_s=7, issues=issues)


def waits(answers: Iterable[int | None], seen: list[float]) -> Callable[[float], int | None]:
    """A wait without a clock: it records the arguments and returns the next result at once."""
    rest = iter(answers)

    def wait(seconds: float) -> int | None:
        seen.append(seconds)
        return next(rest)

    return wait


@pytest.mark.contract("S2-18")
def test_lines_have_the_seed_order_and_words() -> None:
    said: list[str] = []
    asked: list[float] = []

    run(environment(), say=said.append, wait=waits([None, None, 15], asked))

    assert said == [
        "GPU Scheduler Check service starting...",
        "Log interval: 7 seconds",
        "Environment validation passed",
        "Node: node1, CUDA_VISIBLE_DEVICES: 0,1",
        "Node: node1, CUDA_VISIBLE_DEVICES: 0,1",
        "Node: node1, CUDA_VISIBLE_DEVICES: 0,1",
        "Received signal 15, shutting down gracefully...",
        "GPU Scheduler Check service stopped",
    ]
    assert asked == [7, 7, 7]


@pytest.mark.contract("S2-18")
def test_issues_are_listed_and_the_service_continues() -> None:
    said: list[str] = []

    run(environment("a is missing", "b is missing"), say=said.append, wait=waits([2], []))

    assert said[2:] == [
        "Environment issue: a is missing",
        "Environment issue: b is missing",
        "Node: node1, CUDA_VISIBLE_DEVICES: 0,1",
        "Received signal 2, shutting down gracefully...",
        "GPU Scheduler Check service stopped",
    ]
