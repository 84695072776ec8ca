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
from scheduler.plugins.dynamic_mig.cheapest_layout import DIGITS, SearchResult, Step, search
from scheduler.state.mig.dynamic_gpus import BLOCKED, DynamicGpus, canonical

#: Maximum number of steps of a search for any way; fewer after a failed search for the cheapest.
FIRST_MAX: Final = 20_000
INSTEAD_MAX: Final = 4_000
#: No node has room for more instances: the smallest profile on the maximum number of GPUs.
WANTED_MAX: Final = 8 * MIG_GPUS_MAX


class JointPlacement(msgspec.Struct, frozen=True, gc=False):
    """Instances for one pod. ``cost_delta`` is the added layout cost; ``new_instances`` the number
    of instances to create.
    """

    cost_delta: float
    new_instances: int
    mig_placements: tuple[MigPlacement, ...]


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
        return _single(gpus, profiles[0])
    found = search_jointly(gpus.gpu_model, gpus.sorted_layouts, profiles)
    return None if found.found is None else with_gpu_indexes(gpus, found.cost_delta, found.found)


def search_jointly(
    gpu_model: mig_layout.GpuModel,
    layouts: tuple[mig_layout.Layout, ...],
    profiles: tuple[str, ...],
) -> SearchResult:
    """The placement of several instances on GPUs with these layouts, its cost, and the steps."""
    return _search_jointly(gpu_model, layouts, tuple(sorted(profiles)))


def _single(gpus: DynamicGpus, profile: str) -> JointPlacement | None:
    best: tuple[float, int, int, int] | None = None
    for gpu, layout in enumerate(gpus.held):
        found = best_start(gpus.gpu_model, layout, profile)
        if found is not None:
            start, cost_delta = found
            candidate = (cost_delta, int((profile, start) not in gpus.idle[gpu]), gpu, start)
            best = candidate if best is None or candidate < best else best
    if best is None:
        return None
    cost_delta, new_instances, gpu, start = best
    return JointPlacement(cost_delta, new_instances, (MigPlacement(gpu, start, profile),))


def with_gpu_indexes(gpus: DynamicGpus, cost_delta: float, steps: Sequence[Step]) -> JointPlacement:
    """The steps with GPU indexes: of GPUs with equal layouts the lowest index at that step."""
    held = list(gpus.held)
    mig_placements: list[MigPlacement] = []
    for layout, profile, start in steps:
        slot = (profile, start)
        able = [gpu for gpu, one in enumerate(held) if one == layout]
        gpu = next((gpu for gpu in able if slot in gpus.idle[gpu]), able[0])
        held[gpu] = mig_layout.with_slot(layout, profile, start)
        mig_placements.append(MigPlacement(gpu, start, profile))
    return JointPlacement(cost_delta, 0, tuple(sorted(mig_placements)))


@lru_cache(maxsize=16384)
def _search_jointly(
    gpu_model: mig_layout.GpuModel,
    layouts: tuple[mig_layout.Layout, ...],
    profiles: tuple[str, ...],
) -> SearchResult:
    found = search(gpu_model, layouts, most_constrained_first(gpu_model, profiles))
    if not found.is_over:
        return found
    steps = first(gpu_model, layouts, most_constrained_first(gpu_model, profiles), INSTEAD_MAX)
    cost_delta = _cost_delta(gpu_model, steps) if steps is not None else 0.0
    return SearchResult(found.steps, round(cost_delta, DIGITS), steps, is_over=True)


def most_constrained_first(
    gpu_model: mig_layout.GpuModel, profiles: Iterable[str]
) -> tuple[str, ...]:
    """The profiles with the fewest starts first: otherwise others may take their slices."""

    def gpu_options(name: str) -> tuple[int, int, str]:
        profile = mig_layout.profile_of(gpu_model, name)
        return (-profile.size, len(profile.starts), name) if profile else (0, 0, name)

    return tuple(sorted(profiles, key=gpu_options))


def first(
    gpu_model: mig_layout.GpuModel,
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
        state = (room(gpu_model, layouts), len(profiles))
        if state in dead or tried > most:
            return None
        found = sorted(
            moves(gpu_model, layouts, profiles[0]),
            key=lambda one: (_cost_delta(gpu_model, (one,)), one),
        )
        tried += len(found)
        for step in found:
            rest = place(after(layouts, step), profiles[1:])
            if rest is not None:
                return (step, *rest)
        dead.add(state)
        return None

    return place(tuple(sorted(layouts)), profiles)


def room(gpu_model: mig_layout.GpuModel, layouts: Iterable[mig_layout.Layout]) -> object:
    """The state on which later placements depend: the used slices and media engines."""
    return tuple(
        sorted(
            (mig_layout.occupancy(gpu_model, layout), any("+me" in name for name, _ in layout))
            for layout in layouts
        )
    )


def moves(
    gpu_model: mig_layout.GpuModel, layouts: Sequence[mig_layout.Layout], profile: str
) -> Iterator[Step]:
    """Every placement of one instance; GPUs with equal layouts are tried once."""
    for layout in dict.fromkeys(layouts):
        if layout != BLOCKED:
            for start in mig_layout.fits(gpu_model, layout, profile):
                yield layout, profile, start


def after(layouts: tuple[mig_layout.Layout, ...], step: Step) -> tuple[mig_layout.Layout, ...]:
    """The layouts, sorted, after the step."""
    layout, profile, start = step
    rest = list(layouts)
    rest.remove(layout)
    return tuple(sorted((*rest, mig_layout.with_slot(layout, profile, start))))


def _cost_delta(gpu_model: mig_layout.GpuModel, steps: Iterable[Step]) -> float:
    return sum(
        cost(gpu_model, mig_layout.with_slot(layout, profile, start)) - cost(gpu_model, layout)
        for layout, profile, start in steps
    )
