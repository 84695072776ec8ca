"""The layout-cost table: that the data is what the generator solves, and what it prefers."""

from __future__ import annotations

from itertools import combinations_with_replacement

import pytest

from scheduler.model.mig import layout as mig_layout
from scheduler.model.mig import layout_cost
from scheduler.model.mig.layout_cost_table import TABLES
from tools.layout_cost import PAGE, Chain, render

A100 = mig_layout.GPU_MODELS["A100-80"]


def test_cost_table_equals_the_generator_output() -> None:
    assert PAGE.read_text(encoding="utf-8") == render()


@pytest.mark.parametrize("slices", sorted(layout_cost.SHAPES))
def test_the_table_solves_the_equation_it_is_meant_to_solve(slices: int) -> None:
    """One more sweep adds the same amount (the average cost) to every entry, but for rounding."""
    chain = Chain(layout_cost.shape_of(slices))
    table = list(TABLES[slices])
    gains = [new - old for new, old in zip(chain.step(table), table, strict=True)]
    assert max(gains) - min(gains) < 2e-4
    assert 0 < max(gains) * chain.uniform < slices


def test_boards_of_one_shape_share_their_costs() -> None:
    for gpu_model in mig_layout.GPU_MODELS.values():
        shape = layout_cost.shape_of(gpu_model.memory_slices)
        for mine, theirs in zip(
            mig_layout.layouts(gpu_model), mig_layout.layouts(shape), strict=True
        ):
            assert layout_cost.cost(gpu_model, mine) == layout_cost.cost(shape, theirs)


FIRST = [
    pytest.param("1g.10gb", 5, id="1g-leaves-the-last-slices-to-a-double"),
    pytest.param("1g.20gb", 6, id="a-double-takes-the-slice-no-1g-can-have"),
    pytest.param("2g.20gb", 4, id="2g-leaves-the-place-of-the-4g"),
    pytest.param("3g.40gb", 4, id="3g-leaves-the-place-of-the-4g"),
    pytest.param("4g.40gb", 0, id="4g"),
    pytest.param("7g.80gb", 0, id="7g"),
]


@pytest.mark.parametrize(("profile", "start"), FIRST)
def test_first_instance_takes_the_cheapest_placement(profile: str, start: int) -> None:
    best = layout_cost.best_start(A100, (), profile)
    assert best is not None
    assert best[0] == start


def test_small_instance_goes_to_the_already_partitioned_gpu() -> None:
    broken = layout_cost.best_start(A100, (("2g.20gb", 2),), "1g.10gb")
    empty = layout_cost.best_start(A100, (), "1g.10gb")
    assert broken is not None
    assert empty is not None
    assert broken[1] < empty[1]


def test_cost_delta_is_the_difference_of_two_entries() -> None:
    for layout in list(mig_layout.layouts(A100))[::5]:
        for profile in A100.plain:
            rises = {
                start: layout_cost.cost(A100, mig_layout.with_slot(layout, profile.name, start))
                - layout_cost.cost(A100, layout)
                for start in mig_layout.fits(A100, layout, profile.name)
            }
            best = layout_cost.best_start(A100, layout, profile.name)
            if not rises:
                assert best is None
                continue
            assert best is not None
            assert best[1] == pytest.approx(min(rises.values()), abs=1e-6)
            assert rises[best[0]] == pytest.approx(best[1], abs=1e-6)


def test_an_instance_with_media_engines_costs_what_one_without_costs() -> None:
    assert layout_cost.cost(A100, (("1g.10gb+me", 3),)) == layout_cost.cost(A100, (("1g.10gb", 3),))
    assert layout_cost.best_start(A100, (("1g.10gb+me", 3),), "1g.10gb+me") is None


@pytest.mark.parametrize(
    "layout",
    [
        pytest.param((("9g.99gb", 0),), id="unknown"),
        pytest.param((("3g.40gb", 0), ("2g.20gb", 2)), id="overlapping"),
    ],
)
def test_beside_a_layout_that_cannot_exist_nothing_is_placed(layout: mig_layout.Layout) -> None:
    assert layout_cost.best_start(A100, layout, "1g.10gb") is None
    assert layout_cost.cost(A100, layout) == 0.0


def test_instances_are_arranged_exactly_when_some_layout_holds_them() -> None:
    """Never refused for the order in which it is written, never cut illegally, and the cheapest."""
    cheapest: dict[tuple[str, ...], float] = {}
    for layout in mig_layout.layouts(A100):
        key = tuple(sorted(name for name, _ in layout))
        cost = layout_cost.cost(A100, layout)
        cheapest[key] = min(cost, cheapest.get(key, cost))
    plain = sorted(profile.name for profile in A100.plain)
    for count in range(4):
        for key in combinations_with_replacement(plain, count):
            found = layout_cost.arrange(A100, key)
            assert (found is not None) == (key in cheapest), key
    for key, least in cheapest.items():
        found = layout_cost.arrange(A100, key[::-1])
        assert found is not None
        assert mig_layout.is_legal(A100, found)
        assert tuple(sorted(name for name, _ in found)) == key
        assert layout_cost.cost(A100, found) == least


def test_3g_instance_leaves_the_placement_of_a_4g_free() -> None:
    assert layout_cost.arrange(A100, ("3g.40gb", "4g.40gb")) == (("4g.40gb", 0), ("3g.40gb", 4))
    assert layout_cost.arrange(A100, ("3g.40gb", "9g.99gb")) is None
