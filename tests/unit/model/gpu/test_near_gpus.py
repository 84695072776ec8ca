"""A pod gets GPUs of as few NUMA nodes and PCIe roots as possible, the tightest ones."""

from __future__ import annotations

import pytest

from scheduler.model.gpu.near_gpus import nearest

#: Two NUMA nodes with two roots of two GPUs each.
BOARD = {index: (index // 4, f"root-{index // 2}") for index in range(8)}


@pytest.mark.parametrize(
    ("free", "count", "expected"),
    [
        pytest.param((0, 1, 2, 3, 4, 5), 2, (4, 5), id="the tightest NUMA node"),
        pytest.param((1, 2, 3, 4), 2, (2, 3), id="one root instead of two"),
        pytest.param((0, 1, 2, 4, 6, 7), 4, (0, 1, 2, 4), id="two NUMA nodes as none has four"),
        pytest.param((0, 1, 2, 3, 4, 6, 7), 5, (0, 1, 2, 3, 4), id="the rest from the next node"),
        pytest.param((0, 2, 3, 5, 6), 1, (5,), id="one from the tightest root"),
        pytest.param((3, 6), 2, (3, 6), id="all that are free"),
    ],
)
def test_gpus_near_each_other_are_chosen(
    free: tuple[int, ...], count: int, expected: tuple[int, ...]
) -> None:
    assert nearest(free, count, BOARD) == expected


def test_the_lowest_indexes_are_chosen_where_no_place_is_known() -> None:
    assert nearest((1, 2, 5, 7), 2, {}) == (1, 2)


def test_gpus_without_a_place_are_a_group_of_their_own() -> None:
    assert nearest((0, 1, 2), 2, {1: (0, "r"), 2: (0, "r")}) == (1, 2)
