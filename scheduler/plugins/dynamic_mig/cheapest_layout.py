"""The cheapest placement of several MIG instances on the GPUs of one node.

The layout cost adds up over GPUs, so dynamic programming visits each GPU once: for every count of
instances on the previous GPUs and every count on this GPU, the cheapest placement is kept::

    wanted 2 x 2g, 3 x 1g:   taken so far (0, 0) (1, 0) ... (2, 3)   x   ways of the next GPU

The steps are counted, and limited by ``SEARCH_MAX``.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from typing import Final

import msgspec

from scheduler.model.mig import layout as mig_layout
from scheduler.model.mig.layout_cost import cost

#: Maximum number of pairs (count on previous GPUs, count on this GPU) in one search.
SEARCH_MAX: Final = 50_000
#: Costs are rounded to this number of digits: sums of equal parts must be equal in any order.
DIGITS: Final = 6

#: Number of instances of each profile.
Counts = tuple[int, ...]
#: A layout before the step, and the instance added to it.
Step = tuple[mig_layout.Layout, str, int]


class GpuOption(msgspec.Struct, frozen=True, gc=False):
    """Instances on one GPU, their places, and the added layout cost."""

    counts: Counts
    cost_delta: float
    slots: tuple[mig_layout.Slot, ...]


class SearchResult(msgspec.Struct, frozen=True):
    """The cheapest placement and its cost; ``is_over`` if the limit was reached."""

    steps: int
    cost_delta: float = 0.0
    found: tuple[Step, ...] | None = None
    is_over: bool = False


#: The instances on the previous GPUs: their cost, and their places, newest first.
_Taken = tuple[float, "_Picked | None"]
_Picked = tuple["_Picked | None", mig_layout.Layout, tuple[mig_layout.Slot, ...]]


def search(
    gpu_model: mig_layout.GpuModel,
    layouts: tuple[mig_layout.Layout, ...],
    profiles: tuple[str, ...],
) -> SearchResult:
    """The cheapest placement of instances on GPUs with these layouts; equal profiles are
    adjacent.
    """
    kinds = tuple(dict.fromkeys(profiles))
    wanted = tuple(profiles.count(kind) for kind in kinds)
    each = [gpu_options(gpu_model, layout, kinds) for layout in layouts]
    steps = sum(map(len, each))
    most = [
        sum(max(option.counts[at] for option in one) for one in each) for at in range(len(kinds))
    ]
    if any(have < need for have, need in zip(most, wanted, strict=True)):
        return SearchResult(steps)
    table: dict[Counts, _Taken] = {(0,) * len(kinds): (0.0, None)}
    for layout, able in zip(layouts, each, strict=True):
        steps += len(table) * len(able)
        if steps > SEARCH_MAX:
            return SearchResult(steps, is_over=True)
        table = _with_gpu(table, layout, able, wanted)
    best = table.get(wanted)
    return (
        SearchResult(steps, best[0], _steps(gpu_model, best[1]))
        if best is not None
        else SearchResult(steps)
    )


def _with_gpu(
    table: dict[Counts, _Taken],
    layout: mig_layout.Layout,
    able: tuple[GpuOption, ...],
    wanted: Counts,
) -> dict[Counts, _Taken]:
    """The table extended by one more GPU."""
    after: dict[Counts, _Taken] = {}
    for taken, (cost_delta, picked) in table.items():
        for option in able:
            counts = tuple(map(int.__add__, taken, option.counts))
            if any(map(int.__gt__, counts, wanted)):
                continue
            total = round(cost_delta + option.cost_delta, DIGITS)
            known = after.get(counts)
            if known is None or total < known[0]:
                after[counts] = total, (picked, layout, option.slots) if option.slots else picked
    return after


def _steps(gpu_model: mig_layout.GpuModel, picked: _Picked | None) -> tuple[Step, ...]:
    found: list[Step] = []
    while picked is not None:
        picked, layout, slots = picked
        for profile, start in slots:
            found.append((layout, profile, start))
            layout = mig_layout.with_slot(layout, profile, start)
    return tuple(found)


@lru_cache(maxsize=16384)
def gpu_options(
    gpu_model: mig_layout.GpuModel, layout: mig_layout.Layout, kinds: tuple[str, ...]
) -> tuple[GpuOption, ...]:
    """Everything that fits beside a layout, the cheapest way for each count; the empty way
    first.
    """
    before = cost(gpu_model, layout)
    best: dict[Counts, GpuOption] = {}
    for counts, slots, now in _grown(gpu_model, layout, kinds):
        cost_delta = round(cost(gpu_model, now) - before, DIGITS)
        known = best.get(counts)
        # Of equal costs the higher starts win, as in the driver.
        if known is None or (cost_delta, _lowest(known.slots)) < (known.cost_delta, _lowest(slots)):
            best[counts] = GpuOption(counts, cost_delta, slots)
    return tuple(best.values())


def _lowest(slots: tuple[mig_layout.Slot, ...]) -> tuple[int, ...]:
    return tuple(start for _, start in slots)


def _grown(
    gpu_model: mig_layout.GpuModel, layout: mig_layout.Layout, kinds: tuple[str, ...]
) -> Iterator[tuple[Counts, tuple[mig_layout.Slot, ...], mig_layout.Layout]]:
    """Every layout reachable with these profiles, each once: by kind, then by start."""

    def grow(
        counts: Counts, slots: tuple[mig_layout.Slot, ...], now: mig_layout.Layout
    ) -> Iterator[tuple[Counts, tuple[mig_layout.Slot, ...], mig_layout.Layout]]:
        yield counts, slots, now
        last = slots[-1] if slots else (kinds[0], -1)
        for at in range(kinds.index(last[0]), len(kinds)):
            more = tuple(count + (place == at) for place, count in enumerate(counts))
            for start in mig_layout.fits(gpu_model, now, kinds[at]):
                if kinds[at] != last[0] or start > last[1]:
                    slot = (kinds[at], start)
                    yield from grow(more, (*slots, slot), mig_layout.with_slot(now, *slot))

    return grow((0,) * len(kinds), (), layout)
