"""Windows of slices that become free if pods move: candidates for a defragmentation plan.

A **window** is the slices of one GPU in which an instance would fit without the pods in them. A
pod in a window either fits elsewhere now, or another window has to be freed for it first, by one
pod that fits elsewhere now::

    GPU 3:  |3g             |       |1g.20gb|    4g.40gb waits for slices 0 to 3 of GPU 3, and the
    GPU 5:  |   |1g |2g     |       |1g |   |    3g fits nowhere else. If the 1g at slice 6 of GPU 5
                                                 goes to slice 0, the 3g fits on slices 4 to 7

Everything here is arithmetic on layouts: a **loss** is the growth of the layout cost
(``model/mig/layout_cost``) over all GPUs, if every pod takes its cheapest place. Whether the
scheduler would place the pods like that is decided in ``decide/migration/defrag``.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from functools import lru_cache
from heapq import nsmallest
from itertools import islice
from typing import Final

import msgspec

from scheduler.model.gpu.device import MigPlacement
from scheduler.model.mig import layout as mig_layout
from scheduler.model.mig.layout_cost import best_start, cost
from scheduler.state.mig.dynamic_gpus import BLOCKED

#: Windows that are considered for a pod without another place, the cheapest first.
FREED_FIRST_MAX: Final = 8
#: Maximum number of candidates of one number of moves; the others lose more.
CANDIDATES_MAX: Final = 4096
DIGITS: Final = 6
#: GPUs of one model with the same layout.
_Key = tuple[mig_layout.GpuModel, mig_layout.Layout]


class Gpu(msgspec.Struct, frozen=True, gc=False):
    """One dynamic MIG GPU with its allocated instances."""

    node_name: str
    index: int
    gpu_model: mig_layout.GpuModel
    layout: mig_layout.Layout


class WindowShape(msgspec.Struct, frozen=True, gc=False):
    """A window of a layout: the slots in it, the layout with the instance instead of them, and the
    growth of the layout cost by that.
    """

    start: int
    inside: mig_layout.Layout
    after: mig_layout.Layout
    cost_delta: float


class Window(msgspec.Struct, frozen=True, gc=False):
    """A window of a GPU for one instance of ``profile``."""

    gpu: Gpu
    profile: str
    shape: WindowShape

    @property
    def kind(self) -> tuple[str, mig_layout.Layout, str, int]:
        """Equal for windows that only differ in the GPU."""
        return (self.gpu.gpu_model.name, self.gpu.layout, self.profile, self.shape.start)

    def is_held_by(self, source: MigPlacement) -> bool:
        """Whether this instance of the GPU's node is one of those in the window."""
        slot = (source.profile, source.start)
        return source.gpu == self.gpu.index and slot in self.shape.inside


class Candidate(msgspec.Struct, frozen=True, gc=False):
    """The windows to free, in this order; the last one is for the waiting pod."""

    loss: float
    windows: tuple[Window, ...]

    @property
    def kind(self) -> tuple[object, ...]:
        """Equal for candidates that only differ in the GPUs."""
        return tuple(window.kind for window in self.windows)


class WindowSearch:
    """Finds candidates among these GPUs, which are in the order of preference for equal losses."""

    def __init__(self, gpus: Iterable[Gpu]) -> None:
        self._gpus = [gpu for gpu in gpus if gpu.layout != BLOCKED]
        self._layouts = Counter((gpu.gpu_model, gpu.layout) for gpu in self._gpus)
        self._ranked: dict[str, list[tuple[float, _Key]]] = {}
        self._freed_first: dict[str, list[Candidate]] = {}

    def has_slices(self, profile: str) -> bool:
        """Whether there are enough free slices in all; moves do not change their number."""
        free, size = 0, None
        for gpu in self._gpus:
            taken = mig_layout.occupancy(gpu.gpu_model, gpu.layout).bit_count()
            known = mig_layout.profile_of(gpu.gpu_model, profile)
            free += gpu.gpu_model.memory_slices - taken
            if known is not None:
                size = known.size if size is None else min(size, known.size)
        return size is not None and free >= size

    def candidates(self, profile: str, moves: int) -> list[Candidate]:
        """The candidates with exactly that many moves, the one with the least loss first."""
        found = (
            one for window in self._windows(profile, moves) for one in self._freed(window, moves)
        )
        return nsmallest(CANDIDATES_MAX, found, key=_loss)

    def _windows(self, profile: str, pods_max: int) -> Iterator[Window]:
        """Windows with at most that many pods in them."""
        for gpu in self._gpus:
            for shape in _shapes(gpu.gpu_model, gpu.layout, profile):
                if len(shape.inside) <= pods_max:
                    yield Window(gpu, profile, shape)

    def _freed(self, window: Window, moves: int) -> list[Candidate]:
        """The ways to free a window with exactly that many moves."""
        loss, homeless = window.shape.cost_delta, []
        for profile, _ in window.shape.inside:
            rise = self._rise(profile, window)
            if rise is None:
                homeless.append(profile)
            else:
                loss += rise
        if len(window.shape.inside) + len(homeless) != moves:
            return []
        if not homeless:
            return [Candidate(round(loss, DIGITS), (window,))]
        if len(homeless) > 1:
            return []  # each of them would need a window of its own
        return [
            Candidate(round(loss + first.loss, DIGITS), (*first.windows, window))
            for first in self._first(homeless[0])
            if first.windows[0].gpu is not window.gpu
        ]

    def _first(self, profile: str) -> list[Candidate]:
        """Windows that one move frees for an instance of this profile."""
        known = self._freed_first.get(profile)
        if known is None:
            found: list[Candidate] = []
            for window in self._windows(profile, 1):
                ((moved, _),) = window.shape.inside
                rise = self._rise(moved, window)
                if rise is not None:
                    found.append(Candidate(window.shape.cost_delta + rise, (window,)))
            known = self._freed_first[profile] = _of_each_kind(sorted(found, key=_loss))
        return known

    def _rise(self, profile: str, window: Window) -> float | None:
        """The growth of the layout cost at the cheapest free place outside of a window; None if
        there is none.
        """
        gpu_model = window.gpu.gpu_model
        beside = best_start(gpu_model, window.shape.after, profile)
        mine = (gpu_model, window.gpu.layout)
        others = (
            rise for rise, key in self._by_rise(profile) if key != mine or self._layouts[key] > 1
        )
        rises = [*islice(others, 1), *([beside[1]] if beside else [])]
        return min(rises, default=None)

    def _by_rise(self, profile: str) -> list[tuple[float, _Key]]:
        """The layouts on which an instance fits, the one with the smallest growth first."""
        known = self._ranked.get(profile)
        if known is None:
            found = ((best_start(*key, profile), key) for key in self._layouts)
            known = self._ranked[profile] = [(one[1], key) for one, key in found if one]
            known.sort(key=lambda one: one[0])
        return known


def _of_each_kind(candidates: list[Candidate]) -> list[Candidate]:
    """The first of each kind, at most FREED_FIRST_MAX."""
    kinds: dict[object, Candidate] = {}
    for candidate in candidates:
        kinds.setdefault(candidate.kind, candidate)
        if len(kinds) >= FREED_FIRST_MAX:
            break
    return list(kinds.values())


def _loss(candidate: Candidate) -> float:
    return candidate.loss


@lru_cache(maxsize=65536)
def _shapes(
    gpu_model: mig_layout.GpuModel, layout: mig_layout.Layout, profile: str
) -> tuple[WindowShape, ...]:
    known = mig_layout.profile_of(gpu_model, profile)
    if known is None:
        return ()
    found: list[WindowShape] = []
    for start in known.starts:
        window = known.kind.mask(start)
        inside = tuple(slot for slot in layout if mig_layout.occupancy(gpu_model, (slot,)) & window)
        rest = tuple(slot for slot in layout if slot not in inside)
        after = mig_layout.with_slot(rest, profile, start)
        if inside and mig_layout.is_legal(gpu_model, after):
            delta = cost(gpu_model, after) - cost(gpu_model, layout)
            found.append(WindowShape(start, inside, after, delta))
    return tuple(found)
