"""The layout cost: how much a layout reduces the room for later requests.

A GPU with free slices that no request can use is worse than one with fewer free slices in one
piece. The costs are in a fixed table (``layout_cost_table``), one entry per layout, computed
offline for a uniform mix of arrivals and departures (``tools/layout_cost``). A placement is
compared by its **rise**: the cost of the layout after it minus the cost before. Boards of equal
shape share a table. The table does not change at run time, so the result is the same everywhere.

Example: the first 2g goes to slice 4, because there 4g, 3g and three more 1g still fit beside it.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache, lru_cache
from typing import Final

from scheduler.model.mig import layout as mig_layout
from scheduler.model.mig.layout_cost_table import TABLES
from scheduler.model.mig.profile import ProfileShape

#: For each number of memory slices, the board that represents all boards of that shape.
SHAPES: Final = {8: "A100-80", 4: "A30-24", 2: "RTX-PRO-5000"}
#: An instance with media engines leaves the same room as one without.
_PLAIN: Final = {
    ProfileShape.ONE_MEDIA: ProfileShape.ONE,
    ProfileShape.QUARTER_MEDIA: ProfileShape.QUARTER,
    ProfileShape.TWO_QUARTERS_MEDIA: ProfileShape.TWO_QUARTERS,
}


def shape_of(slices: int) -> mig_layout.GpuModel:
    """The board that represents all boards with that many memory slices."""
    return mig_layout.GPU_MODELS[SHAPES[slices]]


@lru_cache(maxsize=65536)
def cost(gpu_model: mig_layout.GpuModel, layout: mig_layout.Layout) -> float:
    """The layout's entry, relative to the empty GPU's 0; 0 for an impossible layout."""
    key = _key(gpu_model, layout)
    return _table(gpu_model.memory_slices).get(key, 0.0) if key is not None else 0.0


@lru_cache(maxsize=65536)
def best_start(
    gpu_model: mig_layout.GpuModel, layout: mig_layout.Layout, profile: str
) -> tuple[int, float] | None:
    """The start with the lowest rise, and the rise; None if the instance does not fit.

    Of equal costs the higher start wins, as in the driver.
    """
    if not mig_layout.is_legal(gpu_model, layout):
        return None
    before = cost(gpu_model, layout)
    rises = [
        (round(cost(gpu_model, mig_layout.with_slot(layout, profile, start)) - before, 6), -start)
        for start in mig_layout.fits(gpu_model, layout, profile)
    ]
    if not rises:
        return None
    cost_delta, start = min(rises)
    return -start, cost_delta


@cache
def _table(slices: int) -> dict[tuple[tuple[int, ProfileShape], ...], float]:
    gpu_model = shape_of(slices)
    keys = (_key(gpu_model, layout) for layout in mig_layout.layouts(gpu_model))
    entries = zip(keys, TABLES[slices], strict=True)
    return {key: entry for key, entry in entries if key is not None}


def _key(
    gpu_model: mig_layout.GpuModel, layout: mig_layout.Layout
) -> tuple[tuple[int, ProfileShape], ...] | None:
    slots: list[tuple[int, ProfileShape]] = []
    for name, start in layout:
        profile = mig_layout.profile_of(gpu_model, name)
        if profile is None:
            return None
        slots.append((start, _PLAIN.get(profile.kind, profile.kind)))
    # Starts are unique in a possible layout, and kinds have no order.
    return tuple(sorted(slots, key=lambda slot: slot[0]))


@lru_cache(maxsize=4096)
def arrange(gpu_model: mig_layout.GpuModel, profiles: tuple[str, ...]) -> mig_layout.Layout | None:
    """The cheapest legal layout of these instances on one empty GPU; None if there is none.

    An exhaustive search, so a set that fits in one order only is found too.
    """
    known = [mig_layout.profile_of(gpu_model, name) for name in profiles]
    if any(profile is None for profile in known):
        return None
    # Instances with the fewest places first: the search then ends early.
    rigid = sorted(profiles, key=lambda name: (len(mig_layout.fits(gpu_model, (), name)), name))
    found = set(_arranged(gpu_model, (), tuple(rigid), -1))
    if not found:
        return None
    return min(found, key=lambda layout: (cost(gpu_model, layout), [-start for _, start in layout]))


def _arranged(
    gpu_model: mig_layout.GpuModel, layout: mig_layout.Layout, left: tuple[str, ...], after: int
) -> Iterator[mig_layout.Layout]:
    """Every layout with the remaining instances; equal profiles only in ascending order of
    starts.
    """
    if not left:
        yield layout
        return
    name, rest = left[0], left[1:]
    for start in mig_layout.fits(gpu_model, layout, name):
        if start > after:
            same = start if rest and rest[0] == name else -1
            yield from _arranged(gpu_model, mig_layout.with_slot(layout, name, start), rest, same)
