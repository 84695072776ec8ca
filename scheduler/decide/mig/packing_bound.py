"""The best possible filling of dynamic MIG GPUs by a set of pods.

Pods are scheduled in queue order, by descending priority, so some pods may be pending because of
the order and not for lack of slices. The difference is reported in slices: the best choice of the
same pods minus the actual one. No decision uses it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache
from itertools import accumulate, chain
from typing import Final

import msgspec

from scheduler.model.mig import layout as mig_layout
from scheduler.plugins.dynamic_mig import instance_search
from scheduler.state.mig.dynamic_gpus import DynamicGpus

#: Maximum number of states that the search visits, and of pods that it may choose from.
STATES_MAX: Final = 2_000
PODS_MAX: Final = 100


class Best(msgspec.Struct, frozen=True):
    """The largest number of memory slices that any choice fills; an upper bound if not exact."""

    slices: int
    is_exact: bool = True


def best(gpus: DynamicGpus, pods: Sequence[tuple[str, ...]]) -> Best:
    """The best filling by a choice of pods; each pod gets all its instances or none."""
    # Large pods first: the remaining search is small, and the bound is reached soon.
    order = sorted(pods, key=lambda asked: (-_size(gpus.gpu_model, asked), asked))
    search = _Search(
        gpus.gpu_model,
        [instance_search.most_constrained_first(gpus.gpu_model, asked) for asked in order],
    )
    if len(order) > PODS_MAX:
        return Best(search.bound(gpus.sorted_layouts, 0), is_exact=False)
    found = search.most(gpus.sorted_layouts, 0)
    if search.is_over:
        return Best(search.bound(gpus.sorted_layouts, 0), is_exact=False)
    return Best(found)


class _Search:
    """Tries every choice in every place, each state once; ``is_over`` if the limit was reached."""

    def __init__(self, gpu_model: mig_layout.GpuModel, pods: Sequence[tuple[str, ...]]) -> None:
        self._gpu_model = gpu_model
        self._pods = pods
        self._sizes = [_size(gpu_model, asked) for asked in pods]
        self._asked = [*accumulate(reversed(self._sizes), initial=0)][::-1]
        self._profiles = [frozenset(chain(*pods[at:])) for at in range(len(pods) + 1)]
        self._known: dict[object, int] = {}
        self.is_over = False

    def bound(self, layouts: tuple[mig_layout.Layout, ...], at: int) -> int:
        """The upper bound for the pods from ``at`` on: their requests, or the free slices of the
        GPUs.
        """
        profiles = self._profiles[at]
        return min(self._asked[at], sum(_room(self._gpu_model, one, profiles) for one in layouts))

    def most(self, layouts: tuple[mig_layout.Layout, ...], at: int) -> int:
        """The most slices that the pods from ``at`` on can fill beside these layouts."""
        bound = self.bound(layouts, at)
        if not bound or self.is_over:
            return 0
        state = (instance_search.room(self._gpu_model, layouts), at)
        if state not in self._known:
            self.is_over = len(self._known) >= STATES_MAX
            self._known[state] = 0
            found = 0
            for rest in self._ways(layouts, self._pods[at]):
                found = max(found, self._sizes[at] + self.most(rest, at + 1))
                if found == bound:
                    break
            else:
                found = max(found, self.most(layouts, at + 1))
            self._known[state] = found
        return self._known[state]

    def _ways(
        self, layouts: tuple[mig_layout.Layout, ...], asked: Sequence[str]
    ) -> Iterator[tuple[mig_layout.Layout, ...]]:
        if not asked:
            yield layouts
            return
        for step in instance_search.moves(self._gpu_model, layouts, asked[0]):
            yield from self._ways(instance_search.after(layouts, step), asked[1:])


@lru_cache(maxsize=65536)
def _room(
    gpu_model: mig_layout.GpuModel, layout: mig_layout.Layout, profiles: frozenset[str]
) -> int:
    """The most slices that an unlimited number of these profiles fills beside a layout."""
    return max(
        (
            _size(gpu_model, [profile])
            + _room(gpu_model, mig_layout.with_slot(layout, profile, start), profiles)
            for profile in profiles
            for start in mig_layout.fits(gpu_model, layout, profile)
        ),
        default=0,
    )


def _size(gpu_model: mig_layout.GpuModel, asked: Sequence[str]) -> int:
    known = (mig_layout.profile_of(gpu_model, profile) for profile in asked)
    return sum(profile.size for profile in known if profile is not None)
