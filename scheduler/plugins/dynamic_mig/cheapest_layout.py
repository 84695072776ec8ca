"""The cheapest way to place several MIG instances on the GPUs of one node.

What instances cost later adds up over GPUs, so each GPU is looked at once: for every number of
instances that the GPUs before it can have taken, and every number that it could take itself, the
cheapest way is kept::

    wanted 2 x 2g, 3 x 1g:   taken so far (0, 0) (1, 0) ... (2, 3)   x   ways of the next GPU

The steps of it are counted, and bounded (``SEARCH_MAX``).
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from typing import Final

import msgspec

from scheduler.model.mig import layout as mig_layout
from scheduler.model.mig.layout_cost import cost

#: Pairs of what is taken and what a GPU could take that one search may look at.
SEARCH_MAX: Final = 50_000
#: Costs are compared to so many digits: sums of equal parts must be equal in any order.
DIGITS: Final = 6

#: How many instances of each profile.
Counts = tuple[int, ...]
#: A layout as it was, and what was added to it.
Step = tuple[mig_layout.Layout, str, int]


class Way(msgspec.Struct, frozen=True, gc=False):
    """What one GPU can take, where, and what that costs."""

    counts: Counts
    rise: float
    slots: tuple[mig_layout.Slot, ...]


class Searched(msgspec.Struct, frozen=True):
    """The cheapest way and what it costs; ``is_over`` where there were too many to compare."""

    steps: int
    rise: float = 0.0
    found: tuple[Step, ...] | None = None
    is_over: bool = False


#: What was taken by the GPUs before: its cost, and how, newest first.
_Taken = tuple[float, "_Picked | None"]
_Picked = tuple["_Picked | None", mig_layout.Layout, tuple[mig_layout.Slot, ...]]


def search(
    board: mig_layout.GpuModel, layouts: tuple[mig_layout.Layout, ...], profiles: tuple[str, ...]
) -> Searched:
    """How to place these instances on GPUs with these layouts; ``profiles`` equal ones together."""
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
    """The same with one more GPU."""
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
    """All that fits beside a layout, for each number of instances the cheapest; nothing first."""
    before = cost(board, layout)
    best: dict[Counts, Way] = {}
    for counts, slots, now in _grown(board, layout, kinds):
        rise = round(cost(board, now) - before, DIGITS)
        known = best.get(counts)
        # Equal costs go to the higher starts, as the driver itself chooses.
        if known is None or (rise, _lowest(known.slots)) < (known.rise, _lowest(slots)):
            best[counts] = Way(counts, rise, slots)
    return tuple(best.values())


def _lowest(slots: tuple[mig_layout.Slot, ...]) -> tuple[int, ...]:
    return tuple(start for _, start in slots)


def _grown(
    board: mig_layout.GpuModel, layout: mig_layout.Layout, kinds: tuple[str, ...]
) -> Iterator[tuple[Counts, tuple[mig_layout.Slot, ...], mig_layout.Layout]]:
    """Every layout that these profiles make of one, each once: by kind, then by start."""

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
