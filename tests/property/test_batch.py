"""A batch that fits as a whole is placed as a whole; an oracle of its own tells which ones do.

The oracle knows nothing of the product's tables: it draws every way to fill eight slices.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from functools import cache
from itertools import combinations_with_replacement, product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.decide.batch import joint_placements
from scheduler.decide.mig.packing_bound import Best, best
from scheduler.model.gpu.device import MigPlacement
from scheduler.model.mig import layout as mig_layout
from scheduler.plugins.dynamic_mig import instance_search
from scheduler.state.mig.dynamic_gpus import DynamicGpus

BOARD = mig_layout.GPU_MODELS["A100-80"]
SIZES = {"7g.80gb": 8, "4g.40gb": 4, "3g.40gb": 4, "2g.20gb": 2, "1g.20gb": 2, "1g.10gb": 1}
STARTS = {
    "7g.80gb": (0,),
    "4g.40gb": (0,),
    "3g.40gb": (0, 4),
    "2g.20gb": (0, 2, 4),
    "1g.20gb": (0, 2, 4, 6),
    "1g.10gb": (0, 1, 2, 3, 4, 5, 6),
}
PROFILES = tuple(SIZES)
Counts = tuple[int, ...]


@cache
def on_one_gpu(taken: int = 0) -> frozenset[Counts]:
    """Every collection of instances that fits beside the slices that are taken."""
    found = {(0,) * len(PROFILES)}
    for at, name in enumerate(PROFILES):
        for start in STARTS[name]:
            bits = ((1 << SIZES[name]) - 1) << start
            if not taken & bits:
                for counts in on_one_gpu(taken | bits):
                    found.add(tuple(n + (at == i) for i, n in enumerate(counts)))
    return frozenset(found)


@cache
def possible(taken: tuple[int, ...]) -> frozenset[Counts]:
    """The same on several GPUs."""
    each = (on_one_gpu(bits) for bits in taken)
    return frozenset(tuple(map(sum, zip(*one, strict=True))) for one in product(*each))


def counted(batch: tuple[str, ...]) -> Counts:
    found = Counter(batch)
    return tuple(found[name] for name in PROFILES)


def pool(*layouts: mig_layout.Layout) -> DynamicGpus:
    return DynamicGpus(BOARD, layouts, tuple(frozenset() for _ in layouts))


def check_spots(
    gpus: DynamicGpus, batch: tuple[str, ...], mig_placements: tuple[MigPlacement, ...]
) -> None:
    """Each request has its instances, and no two overlap."""
    held = list(gpus.held)
    for name, mig_placement in zip(batch, mig_placements, strict=True):
        assert mig_placement.profile == name
        held[mig_placement.gpu] = mig_layout.with_slot(
            held[mig_placement.gpu], mig_placement.profile, mig_placement.start
        )
    assert all(mig_layout.is_legal(BOARD, layout) for layout in held)


@pytest.mark.parametrize("gpus", [1, 2])
def test_fitting_batches_of_up_to_seven_are_placed_completely(gpus: int) -> None:
    """1,715 batches on empty GPUs; those that do not fit are not placed as a whole."""
    empty = pool(*((),) * gpus)
    fitting = possible((0,) * gpus)
    for size in range(1, 8):
        for batch in combinations_with_replacement(PROFILES, size):
            mig_placements = joint_placements(empty, batch)
            assert (mig_placements is not None) == (counted(batch) in fitting), batch
            if mig_placements is not None:
                check_spots(empty, batch, mig_placements)


def layouts() -> Iterator[mig_layout.Layout]:
    return mig_layout.layouts(BOARD)


@given(
    st.lists(st.sampled_from(sorted(layouts())), min_size=1, max_size=2),
    st.lists(st.sampled_from(PROFILES), min_size=1, max_size=7),
)
def test_batch_beside_held_devices_is_complete_or_provably_best(
    held: list[mig_layout.Layout], batch: list[str]
) -> None:
    """Whole wherever that is possible; and the most slices that a choice of it fills."""
    gpus, asked = pool(*held), tuple(batch)
    fitting = possible(tuple(mig_layout.occupancy(BOARD, layout) for layout in held))

    mig_placements = joint_placements(gpus, asked)

    assert (mig_placements is not None) == (counted(asked) in fitting)
    if mig_placements is not None:
        check_spots(gpus, asked, mig_placements)
    assert best(gpus, [(name,) for name in asked]) == Best(optimum(fitting, counted(asked)))


def optimum(fitting: frozenset[Counts], asked: Counts) -> int:
    sizes = tuple(SIZES.values())
    return max(
        sum(n * size for n, size in zip(counts, sizes, strict=True))
        for counts in fitting
        if all(n <= most for n, most in zip(counts, asked, strict=True))
    )


@pytest.mark.parametrize("profile", PROFILES)
def test_pods_of_one_profile_need_no_joint_search(profile: str) -> None:
    """One after the other they fill as much as fits at all, whatever is held beside them.

    So a workload's pods, which ask alike, are placed as a whole by a scheduler that decides about
    each of them alone.
    """
    for layout in layouts():
        gpus, placed = pool(layout), 0
        while (mig_placement := one_more(gpus, profile)) is not None:
            gpus, placed = (
                pool(mig_layout.with_slot(gpus.held[0], profile, mig_placement.start)),
                placed + 1,
            )

        at = PROFILES.index(profile)
        assert placed == max(n[at] for n in on_one_gpu(mig_layout.occupancy(BOARD, layout))), layout


def one_more(gpus: DynamicGpus, profile: str) -> MigPlacement | None:
    """Where the next pod goes if it is decided about alone."""
    found = instance_search.choose(gpus, (profile,))
    return None if found is None else found.mig_placements[0]
