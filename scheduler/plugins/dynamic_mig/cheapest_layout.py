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


class Way(msgspec.Struct, frozen=True, gc=False):
    """Instances on one GPU, their places, and the added layout cost."""

    counts: Counts
    rise: float
    slots: tuple[mig_layout.Slot, ...]


class Searched(msgspec.Struct, frozen=True):
    """The cheapest placement and its cost; ``is_over`` if the limit was reached."""

    steps: int
    rise: float = 0.0
    found: tuple[Step, ...] | None = None
    is_over: bool = False


#: The instances on the previous GPUs: their cost, and their places, newest first.
_Taken = tuple[float, "_Picked | None"]
_Picked = tuple["_Picked | None", mig_layout.Layout, tuple[mig_layout.Slot, ...]]


def search(
    board: mig_layout.GpuModel, layouts: tuple[mig_layout.Layout, ...], profiles: tuple[str, ...]
) -> Searched:
    """The cheapest placement of instances on GPUs with these layouts; equal profiles are
    adjacent.
    """
    kinds = tuple(dict.fromkeys(profiles))
    wanted = tuple(profiles.count(kind) for kind in kinds)
    each = [ways(board, layout, kinds) for layout in layouts]
    steps = sum(map(len, each))
    most = [sum(max(way.counts[at] for way in one) for one in each) for at in range(len(kinds))]
    if any(have < need for have, need in zip(most, wanted, strict=True)):
        return Searched(steps)
    table: dict[Counts, _Taken] = {(0,) * len(kinds): (0.0, None)}
    for layout, able in zip(layouts, each, strict=True):
        steps += len(table) * len(able)
        if steps > SEARCH_MAX:
            return Searched(steps, is_over=True)
        table = _with_gpu(table, layout, able, wanted)
    best = table.get(wanted)
    return Searched(steps, best[0], _steps(board, best[1])) if best is not None else Searched(steps)


def _with_gpu(
    table: dict[Counts, _Taken], layout: mig_layout.Layout, able: tuple[Way, ...], wanted: Counts
) -> dict[Counts, _Taken]:
    """The table extended by one more GPU."""
    after: dict[Counts, _Taken] = {}
    for taken, (rise, picked) in table.items():
        for way in able:
            counts = tuple(map(int.__add__, taken, way.counts))
            if any(map(int.__gt__, counts, wanted)):
                continue
            total = round(rise + way.rise, DIGITS)
            known = after.get(counts)
            if known is None or total < known[0]:
                after[counts] = total, (picked, layout, way.slots) if way.slots else picked
    return after


def _steps(board: mig_layout.GpuModel, picked: _Picked | None) -> tuple[Step, ...]:
    found: list[Step] = []
    while picked is not None:
        picked, layout, slots = picked
        for profile, start in slots:
            found.append((layout, profile, start))
            layout = mig_layout.with_slot(layout, profile, start)
    return tuple(found)


@lru_cache(maxsize=16384)
def ways(
    board: mig_layout.GpuModel, layout: mig_layout.Layout, kinds: tuple[str, ...]
) -> tuple[Way, ...]:
    """Everything that fits beside a layout, the cheapest way for each count; the empty way
    first.
    """
    before = cost(board, layout)
    best: dict[Counts, Way] = {}
    for counts, slots, now in _grown(board, layout, kinds):
        rise = round(cost(board, now) - before, DIGITS)
        known = best.get(counts)
        # Of equal costs the higher starts win, as in the driver.
        if known is None or (rise, _lowest(known.slots)) < (known.rise, _lowest(slots)):
            best[counts] = Way(counts, rise, slots)
    return tuple(best.values())


def _lowest(slots: tuple[mig_layout.Slot, ...]) -> tuple[int, ...]:
    return tuple(start for _, start in slots)


def _grown(
    board: mig_layout.GpuModel, layout: mig_layout.Layout, kinds: tuple[str, ...]
) -> Iterator[tuple[Counts, tuple[mig_layout.Slot, ...], mig_layout.Layout]]:
    """Every layout reachable with these profiles, each once: by kind, then by start."""

    def grow(
        counts: Counts, slots: tuple[mig_layout.Slot, ...], now: mig_layout.Layout
    ) -> Iterator[tuple[Counts, tuple[mig_layout.Slot, ...], mig_layout.Layout]]:
        yield counts, slots, now
        last = slots[-1] if slots else (kinds[0], -1)
        for at in range(kinds.index(last[0]), len(kinds)):
            more = tuple(count + (place == at) for place, count in enumerate(counts))
            for start in mig_layout.fits(board, now, kinds[at]):
                if kinds[at] != last[0] or start > last[1]:
                    slot = (kinds[at], start)
                    yield from grow(more, (*slots, slot), mig_layout.with_slot(now, *slot))

    return grow((0,) * len(kinds), (), layout)
