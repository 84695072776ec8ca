"""The best filling of dynamic MIG GPUs by a choice of pods."""

from __future__ import annotations

import pytest

from scheduler.decide.mig.packing_bound import PODS_MAX, Best, best
from scheduler.model.mig import layout
from scheduler.state.mig.dynamic_gpus import BLOCKED, DynamicGpus

BOARD = layout.GPU_MODELS["A100-80"]


def pool(*layouts: layout.Layout) -> DynamicGpus:
    return DynamicGpus(BOARD, layouts, tuple(frozenset() for _ in layouts))


@pytest.mark.parametrize(
    ("gpus", "pods", "slices"),
    [
        pytest.param(pool(()), [("1g.10gb",), ("7g.80gb",)], 8, id="the-larger-one"),
        pytest.param(pool(()), [("3g.40gb",)] * 3, 8, id="two-of-three"),
        pytest.param(pool(()), [("1g.10gb",)] * 9, 7, id="no-start-for-the-eighth"),
        pytest.param(pool(()), [("3g.40gb", "7g.80gb")], 0, id="all-of-a-pod-or-nothing"),
        pytest.param(pool(()), [("3g.40gb", "3g.40gb"), ("4g.40gb",)], 8, id="two-for-one-pod"),
        pytest.param(pool(BLOCKED, ()), [("7g.80gb",)] * 2, 8, id="a-gpu-at-rest-is-not-free"),
        pytest.param(pool(()), [], 0, id="no-pods"),
        pytest.param(pool(*[()] * 40), [("1g.10gb",)] * 90, 90, id="found-at-once-in-a-pool"),
    ],
)
def test_bound_is_reached_by_the_best_packing(
    gpus: DynamicGpus, pods: list[tuple[str, ...]], slices: int
) -> None:
    assert best(gpus, pods) == Best(slices)


def test_packing_of_many_pods_is_an_upper_bound() -> None:
    """An upper bound; the exact value would cost too much."""
    assert best(pool(()), [("1g.10gb",)] * (PODS_MAX + 1)) == Best(7, is_exact=False)


def test_a_search_that_takes_too_long_ends_with_a_bound() -> None:
    pairs = [("3g.40gb", "2g.20gb")] * 40

    assert best(pool(*[()] * 12), pairs) == Best(96, is_exact=False)
