"""Where a pod's MIG instances go on one node that cuts GPUs to order.

One instance goes where it costs least later (``model/layoutcost``). Several are placed together:
every way to place them is compared by what it costs in all, within a bounded search; beyond the
bound the first way that was found counts, rigid profiles first.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from typing import Final

import msgspec

from scheduler.model import mig, names
from scheduler.model.device import Spot
from scheduler.model.layoutcost import best_start, cost
from scheduler.model.limits import POD_DEVICES_MAX
from scheduler.model.pod import Pod
from scheduler.state.cutting import BLOCKED, Gpus, canonical

#: Layouts that a search may look at.
STEPS_MAX: Final = 4000
#: States without a way on that a search for any way may meet.
FIRST_MAX: Final = 20_000
#: Costs are compared to so many digits: sums of equal parts must be equal in any order.
DIGITS: Final = 6

#: A layout as it was, and what was added to it.
Step = tuple[mig.Layout, str, int]


class Joint(msgspec.Struct, frozen=True, gc=False):
    """Instances for one pod. ``rise`` is what they cost later; ``fresh`` how many of them do not
    exist yet."""

    rise: float
    fresh: int
    spots: tuple[Spot, ...]


def wanted(pod: Pod) -> tuple[str, ...]:
    """The profiles that a pod asks for, each as often as it does, in the order of names."""
    found: list[str] = []
    for resource, count in sorted(pod.gpu_requests.items()):
        if names.is_mig(resource):
            # A pod that asks for more is refused before its instances are looked for.
            found += [canonical(resource)] * min(count, POD_DEVICES_MAX)
    return tuple(found)


def choose(gpus: Gpus, profiles: tuple[str, ...]) -> Joint | None:
    """The best way to place these instances, or None."""
    if len(profiles) == 1:
        return _one(gpus, profiles[0])
    found = _together(gpus.board, gpus.signature, tuple(sorted(profiles)))
    return None if found is None else numbered(gpus, *found)


def rise_of(
    board: mig.Board, layouts: tuple[mig.Layout, ...], profiles: tuple[str, ...]
) -> float | None:
    """What several instances would cost GPUs with these layouts, or None where they do not fit."""
    found = _together(board, layouts, tuple(sorted(profiles)))
    return None if found is None else found[0]


def _one(gpus: Gpus, profile: str) -> Joint | None:
    best: tuple[float, int, int, int] | None = None
    for gpu, layout in enumerate(gpus.held):
        found = best_start(gpus.board, layout, profile)
        if found is not None:
            start, rise = found
            mark = (rise, int((profile, start) not in gpus.idle[gpu]), gpu, start)
            best = mark if best is None or mark < best else best
    if best is None:
        return None
    rise, fresh, gpu, start = best
    return Joint(rise, fresh, (Spot(gpu, start, profile),))


def numbered(gpus: Gpus, rise: float, steps: Sequence[Step]) -> Joint:
    """The steps on GPUs by number: of equal ones the lowest that is in the layout by then."""
    held = list(gpus.held)
    spots: list[Spot] = []
    for layout, profile, start in steps:
        slot = (profile, start)
        able = [gpu for gpu, one in enumerate(held) if one == layout]
        gpu = next((gpu for gpu in able if slot in gpus.idle[gpu]), able[0])
        held[gpu] = mig.with_slot(layout, profile, start)
        spots.append(Spot(gpu, start, profile))
    return Joint(rise, 0, tuple(sorted(spots)))


@lru_cache(maxsize=16384)
def _together(
    board: mig.Board, layouts: tuple[mig.Layout, ...], profiles: tuple[str, ...]
) -> tuple[float, tuple[Step, ...]] | None:
    search = _Search(board)
    found = search.best(layouts, rigid_first(board, profiles))
    if found is None and search.is_over:
        steps = first(board, layouts, rigid_first(board, profiles))
        found = None if steps is None else (_rise(board, steps), steps)
    return None if found is None else (round(found[0], DIGITS), found[1])


def rigid_first(board: mig.Board, profiles: Iterable[str]) -> tuple[str, ...]:
    """The profiles that fit in fewest ways first: they must not find their slices taken."""

    def ways(name: str) -> tuple[int, int, str]:
        profile = mig.profile_of(board, name)
        return (-profile.size, len(profile.starts), name) if profile else (0, 0, name)

    return tuple(sorted(profiles, key=ways))


class _Search:
    """Every way to place some profiles, least rise first; ``is_over`` where it was too many."""

    def __init__(self, board: mig.Board) -> None:
        self._board = board
        self._known: dict[object, tuple[float, tuple[Step, ...]] | None] = {}
        self.is_over = False

    def best(
        self, layouts: tuple[mig.Layout, ...], profiles: tuple[str, ...]
    ) -> tuple[float, tuple[Step, ...]] | None:
        """The cheapest way, in any state only once."""
        if not profiles:
            return 0.0, ()
        state = (layouts, len(profiles))
        if state in self._known:
            return self._known[state]
        if len(self._known) >= STEPS_MAX:
            self.is_over = True
            return None
        self._known[state] = None
        found: tuple[float, tuple[Step, ...]] | None = None
        for step in moves(self._board, layouts, profiles[0]):
            rest = self.best(after(layouts, step), profiles[1:])
            if rest is None:
                continue
            total = round(_rise(self._board, (step,)) + rest[0], DIGITS)
            if found is None or total < found[0]:
                found = total, (step, *rest[1])
        self._known[state] = found
        return found


def first(
    board: mig.Board, layouts: tuple[mig.Layout, ...], profiles: tuple[str, ...]
) -> tuple[Step, ...] | None:
    """Any way to place them all, or None: no state twice, and no more than a bound allows."""
    dead: set[object] = set()

    def place(
        layouts: tuple[mig.Layout, ...], profiles: tuple[str, ...]
    ) -> tuple[Step, ...] | None:
        if not profiles:
            return ()
        state = (room(board, layouts), len(profiles))
        if state in dead or len(dead) >= FIRST_MAX:
            return None
        ways = moves(board, layouts, profiles[0])
        for step in sorted(ways, key=lambda one: (_rise(board, (one,)), one)):
            rest = place(after(layouts, step), profiles[1:])
            if rest is not None:
                return (step, *rest)
        dead.add(state)
        return None

    return place(tuple(sorted(layouts)), profiles)


def room(board: mig.Board, layouts: Iterable[mig.Layout]) -> object:
    """All that matters to what still fits: the slices and the media engines that are taken."""
    return tuple(
        sorted(
            (mig.occupancy(board, layout), any("+me" in name for name, _ in layout))
            for layout in layouts
        )
    )


def moves(board: mig.Board, layouts: Sequence[mig.Layout], profile: str) -> Iterator[Step]:
    """Every way to place one instance; GPUs held alike are tried once."""
    for layout in dict.fromkeys(layouts):
        if layout != BLOCKED:
            for start in mig.fits(board, layout, profile):
                yield layout, profile, start


def after(layouts: tuple[mig.Layout, ...], step: Step) -> tuple[mig.Layout, ...]:
    """The layouts, in order, once the step is made."""
    layout, profile, start = step
    rest = list(layouts)
    rest.remove(layout)
    return tuple(sorted((*rest, mig.with_slot(layout, profile, start))))


def _rise(board: mig.Board, steps: Iterable[Step]) -> float:
    return sum(
        cost(board, mig.with_slot(layout, profile, start)) - cost(board, layout)
        for layout, profile, start in steps
    )
