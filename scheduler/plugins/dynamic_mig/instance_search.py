"""Where a pod's MIG instances go on one node that cuts GPUs to order.

One instance goes where it costs least later (``model/mig/layout_cost``). Several are placed
together: the cheapest of all ways (``cheapest_layout``), within a bounded search; beyond the bound
the first way that is found counts, rigid profiles first."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from typing import Final

import msgspec

from scheduler.model import well_known
from scheduler.model.gpu.device import MigPlacement
from scheduler.model.limits import MIG_GPUS_MAX
from scheduler.model.mig import layout as mig_layout
from scheduler.model.mig.layout_cost import best_start, cost
from scheduler.model.pods.pod import Pod
from scheduler.plugins.dynamic_mig.cheapest_layout import DIGITS, Searched, Step, search
from scheduler.state.mig.dynamic_gpus import BLOCKED, DynamicGpus, canonical

#: Steps that a search for any way may try; less where it stands in for the cheapest one.
FIRST_MAX: Final = 20_000
INSTEAD_MAX: Final = 4_000
#: No node has room for more instances: of the smallest one, on so many GPUs as a node can have.
WANTED_MAX: Final = 8 * MIG_GPUS_MAX


class JointPlacement(msgspec.Struct, frozen=True, gc=False):
    """Instances for one pod. ``rise`` is what they cost later; ``fresh`` how many of them do not
    exist yet."""

    rise: float
    fresh: int
    spots: tuple[MigPlacement, ...]


def wanted(pod: Pod) -> tuple[str, ...]:
    """The profiles that a pod asks for, each as often as it does, in the order of names."""
    found: list[str] = []
    for resource, count in sorted(pod.gpu_requests.items()):
        if well_known.is_mig(resource):
            found += [canonical(resource)] * min(count, WANTED_MAX + 1)
    return tuple(found)


def choose(gpus: DynamicGpus, profiles: tuple[str, ...]) -> JointPlacement | None:
    """The best way to place these instances, or None."""
    if len(profiles) == 1:
        return _one(gpus, profiles[0])
    found = searched(gpus.board, gpus.signature, profiles)
    return None if found.found is None else numbered(gpus, found.rise, found.found)


def searched(
    board: mig_layout.GpuModel, layouts: tuple[mig_layout.Layout, ...], profiles: tuple[str, ...]
) -> Searched:
    """How several instances go on GPUs with these layouts, what it costs, and in how many steps."""
    return _together(board, layouts, tuple(sorted(profiles)))


def _one(gpus: DynamicGpus, profile: str) -> JointPlacement | None:
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
    return JointPlacement(rise, fresh, (MigPlacement(gpu, start, profile),))


def numbered(gpus: DynamicGpus, rise: float, steps: Sequence[Step]) -> JointPlacement:
    """The steps on GPUs by number: of equal ones the lowest that is in the layout by then."""
    held = list(gpus.held)
    spots: list[MigPlacement] = []
    for layout, profile, start in steps:
        slot = (profile, start)
        able = [gpu for gpu, one in enumerate(held) if one == layout]
        gpu = next((gpu for gpu in able if slot in gpus.idle[gpu]), able[0])
        held[gpu] = mig_layout.with_slot(layout, profile, start)
        spots.append(MigPlacement(gpu, start, profile))
    return JointPlacement(rise, 0, tuple(sorted(spots)))


@lru_cache(maxsize=16384)
def _together(
    board: mig_layout.GpuModel, layouts: tuple[mig_layout.Layout, ...], profiles: tuple[str, ...]
) -> Searched:
    found = search(board, layouts, rigid_first(board, profiles))
    if not found.is_over:
        return found
    steps = first(board, layouts, rigid_first(board, profiles), INSTEAD_MAX)
    rise = _rise(board, steps) if steps is not None else 0.0
    return Searched(found.steps, round(rise, DIGITS), steps, is_over=True)


def rigid_first(board: mig_layout.GpuModel, profiles: Iterable[str]) -> tuple[str, ...]:
    """The profiles that fit in fewest ways first: they must not find their slices taken."""

    def ways(name: str) -> tuple[int, int, str]:
        profile = mig_layout.profile_of(board, name)
        return (-profile.size, len(profile.starts), name) if profile else (0, 0, name)

    return tuple(sorted(profiles, key=ways))


def first(
    board: mig_layout.GpuModel,
    layouts: tuple[mig_layout.Layout, ...],
    profiles: tuple[str, ...],
    most: int = FIRST_MAX,
) -> tuple[Step, ...] | None:
    """Any way to place them all, or None: no state twice, and no more than ``most`` steps."""
    dead: set[object] = set()
    tried = 0

    def place(
        layouts: tuple[mig_layout.Layout, ...], profiles: tuple[str, ...]
    ) -> tuple[Step, ...] | None:
        nonlocal tried
        if not profiles:
            return ()
        state = (room(board, layouts), len(profiles))
        if state in dead or tried > most:
            return None
        found = sorted(
            moves(board, layouts, profiles[0]), key=lambda one: (_rise(board, (one,)), one)
        )
        tried += len(found)
        for step in found:
            rest = place(after(layouts, step), profiles[1:])
            if rest is not None:
                return (step, *rest)
        dead.add(state)
        return None

    return place(tuple(sorted(layouts)), profiles)


def room(board: mig_layout.GpuModel, layouts: Iterable[mig_layout.Layout]) -> object:
    """All that matters to what still fits: the slices and the media engines that are taken."""
    return tuple(
        sorted(
            (mig_layout.occupancy(board, layout), any("+me" in name for name, _ in layout))
            for layout in layouts
        )
    )


def moves(
    board: mig_layout.GpuModel, layouts: Sequence[mig_layout.Layout], profile: str
) -> Iterator[Step]:
    """Every way to place one instance; GPUs held alike are tried once."""
    for layout in dict.fromkeys(layouts):
        if layout != BLOCKED:
            for start in mig_layout.fits(board, layout, profile):
                yield layout, profile, start


def after(layouts: tuple[mig_layout.Layout, ...], step: Step) -> tuple[mig_layout.Layout, ...]:
    """The layouts, in order, once the step is made."""
    layout, profile, start = step
    rest = list(layouts)
    rest.remove(layout)
    return tuple(sorted((*rest, mig_layout.with_slot(layout, profile, start))))


def _rise(board: mig_layout.GpuModel, steps: Iterable[Step]) -> float:
    return sum(
        cost(board, mig_layout.with_slot(layout, profile, start)) - cost(board, layout)
        for layout, profile, start in steps
    )
