"""The places of a pod's MIG instances on one dynamic MIG node.

One instance is placed with the lowest added layout cost (``model/mig/layout_cost``). Several are
placed together: the cheapest of all ways (``cheapest_layout``), within a limited search; beyond the
limit the first way found is used, the profiles with the fewest starts first.
"""

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

#: Maximum number of steps of a search for any way; fewer after a failed search for the cheapest.
FIRST_MAX: Final = 20_000
INSTEAD_MAX: Final = 4_000
#: No node has room for more instances: the smallest profile on the maximum number of GPUs.
WANTED_MAX: Final = 8 * MIG_GPUS_MAX


class JointPlacement(msgspec.Struct, frozen=True, gc=False):
    """Instances for one pod. ``rise`` is the added layout cost; ``fresh`` the number of instances
    to create.
    """

    rise: float
    fresh: int
    spots: tuple[MigPlacement, ...]


def wanted(pod: Pod) -> tuple[str, ...]:
    """The requested profiles, each repeated by its count, sorted by name."""
    found: list[str] = []
    for resource, count in sorted(pod.gpu_requests.items()):
        if well_known.is_mig(resource):
            found += [canonical(resource)] * min(count, WANTED_MAX + 1)
    return tuple(found)


def choose(gpus: DynamicGpus, profiles: tuple[str, ...]) -> JointPlacement | None:
    """The best placement of these instances, or None."""
    if len(profiles) == 1:
        return _one(gpus, profiles[0])
    found = searched(gpus.board, gpus.signature, profiles)
    return None if found.found is None else numbered(gpus, found.rise, found.found)


def searched(
    board: mig_layout.GpuModel, layouts: tuple[mig_layout.Layout, ...], profiles: tuple[str, ...]
) -> Searched:
    """The placement of several instances on GPUs with these layouts, its cost, and the steps."""
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
    """The steps with GPU indexes: of GPUs with equal layouts the lowest index at that step."""
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
    """The profiles with the fewest starts first: otherwise others may take their slices."""

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
    """Any placement of all profiles, or None; visits no state twice and makes at most ``most``
    steps.
    """
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
    """The state on which later placements depend: the used slices and media engines."""
    return tuple(
        sorted(
            (mig_layout.occupancy(board, layout), any("+me" in name for name, _ in layout))
            for layout in layouts
        )
    )


def moves(
    board: mig_layout.GpuModel, layouts: Sequence[mig_layout.Layout], profile: str
) -> Iterator[Step]:
    """Every placement of one instance; GPUs with equal layouts are tried once."""
    for layout in dict.fromkeys(layouts):
        if layout != BLOCKED:
            for start in mig_layout.fits(board, layout, profile):
                yield layout, profile, start


def after(layouts: tuple[mig_layout.Layout, ...], step: Step) -> tuple[mig_layout.Layout, ...]:
    """The layouts, sorted, after the step."""
    layout, profile, start = step
    rest = list(layouts)
    rest.remove(layout)
    return tuple(sorted((*rest, mig_layout.with_slot(layout, profile, start))))


def _rise(board: mig_layout.GpuModel, steps: Iterable[Step]) -> float:
    return sum(
        cost(board, mig_layout.with_slot(layout, profile, start)) - cost(board, layout)
        for layout, profile, start in steps
    )
