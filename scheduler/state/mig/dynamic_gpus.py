"""Dynamic MIG GPUs: allocated instances, idle instances, and free slices of each GPU.

Computed from API objects after every change: the pods' annotations have the allocated instances,
the MigPartition status has the existing ones. Unknown data never makes capacity free::

    an instance with an unknown place         every idle instance of its profile counts as
                                              allocated; if there are too few, the whole node
    contradictory places                      the whole GPU counts as allocated
    a GPU in backoff                          the same

An existing instance without a pod is *idle*. It blocks no request: the operator destroys it before
another instance uses its slices.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from functools import lru_cache
from types import MappingProxyType
from typing import Final, Protocol

import msgspec

from scheduler.model import well_known
from scheduler.model.crd.mig_partition import MigInstance, PartitionState
from scheduler.model.gpu.device import MigPlacement
from scheduler.model.mig import layout as mig_layout
from scheduler.model.node import DynamicMig
from scheduler.model.pods.pod import Pod

#: The layout of a GPU without free slices: no profile has this name, so it uses every slice.
BLOCKED: Final[mig_layout.Layout] = (("?", 0),)


class Allocation(Protocol):
    """The allocation of a pod (``PodAllocation``)."""

    @property
    def numbers(self) -> tuple[int, ...]:
        """Whole GPUs by index."""

    @property
    def unknown(self) -> int:
        """Whole GPUs of unknown index."""

    @property
    def mig_placements(self) -> tuple[MigPlacement, ...]:
        """Instances with a known place."""


class DynamicGpus(msgspec.Struct, frozen=True):
    """The GPUs of one node: the allocated layout of each, and the idle instances beside it."""

    gpu_model: mig_layout.GpuModel
    held: tuple[mig_layout.Layout, ...]
    idle: tuple[frozenset[mig_layout.Slot], ...]

    @property
    def sorted_layouts(self) -> tuple[mig_layout.Layout, ...]:
        """The layouts without the GPU indexes: nodes with one signature have the same room."""
        return tuple(sorted(self.held))

    @property
    def left(self) -> Mapping[str, int]:
        """For each resource, how many more instances of it alone fit."""
        return _left(self.gpu_model, self.sorted_layouts)

    @property
    def free_slices(self) -> int:
        """Free memory slices."""
        return sum(_free(self.gpu_model, layout) for layout in self.held)


def count(
    dynamic_mig: DynamicMig,
    pods: Iterable[tuple[Pod, Allocation]],
    instances: Iterable[MigInstance],
    unusable: frozenset[int],
) -> DynamicGpus:
    """Compute the state of the node's GPUs."""
    slots: list[list[mig_layout.Slot]] = [[] for _ in range(dynamic_mig.count)]
    blocked = set(unusable)
    unplaced: dict[str, int] = {}
    for pod, allocation in pods:
        blocked.update(range(dynamic_mig.count) if allocation.unknown else allocation.numbers)
        for resource, amount in pod.gpu_requests.items():
            if well_known.is_mig(resource):
                profile = canonical(resource)
                unplaced[profile] = unplaced.get(profile, 0) + amount
        for mig_placement in allocation.mig_placements:
            profile = canonical(mig_placement.profile)
            if mig_placement.gpu < dynamic_mig.count:
                slots[mig_placement.gpu].append((profile, mig_placement.start))
                unplaced[profile] = unplaced.get(profile, 0) - 1
    idle = _idle(dynamic_mig.count, slots, instances)
    for profile in [profile for profile, missing in unplaced.items() if missing > 0]:
        if not _hold_all(profile, unplaced[profile], slots, idle):
            blocked.update(range(dynamic_mig.count))
    held = tuple(
        BLOCKED if gpu in blocked else _checked(dynamic_mig.gpu_model, mig_layout.layout_of(layout))
        for gpu, layout in enumerate(slots)
    )
    return DynamicGpus(dynamic_mig.gpu_model, held, _beside(dynamic_mig.gpu_model, held, idle))


def _idle(
    gpus: int, slots: list[list[mig_layout.Slot]], instances: Iterable[MigInstance]
) -> list[set[mig_layout.Slot]]:
    idle: list[set[mig_layout.Slot]] = [set() for _ in range(gpus)]
    for one in instances:
        slot = (canonical(one.mig_placement.profile), one.mig_placement.start)
        is_there = one.state is PartitionState.READY and one.mig_placement.gpu < gpus
        if is_there and slot not in slots[one.mig_placement.gpu]:
            idle[one.mig_placement.gpu].add(slot)
    return idle


def _hold_all(
    profile: str, missing: int, slots: list[list[mig_layout.Slot]], idle: list[set[mig_layout.Slot]]
) -> bool:
    """Count every idle instance of a profile as allocated; returns whether there are enough of
    them.
    """
    found = 0
    for gpu, there in enumerate(idle):
        same = [slot for slot in there if slot[0] == profile]
        there.difference_update(same)
        slots[gpu] += same
        found += len(same)
    return found >= missing


@lru_cache(maxsize=65536)
def _checked(gpu_model: mig_layout.GpuModel, layout: mig_layout.Layout) -> mig_layout.Layout:
    return layout if mig_layout.is_legal(gpu_model, layout) else BLOCKED


def _beside(
    gpu_model: mig_layout.GpuModel,
    held: tuple[mig_layout.Layout, ...],
    idle: list[set[mig_layout.Slot]],
) -> tuple[frozenset[mig_layout.Slot], ...]:
    """The available idle instances: those that do not overlap with allocated ones."""
    return tuple(
        frozenset(slot for slot in there if slot[1] in mig_layout.fits(gpu_model, layout, slot[0]))
        for layout, there in zip(held, idle, strict=True)
    )


@lru_cache(maxsize=65536)
def _free(gpu_model: mig_layout.GpuModel, layout: mig_layout.Layout) -> int:
    return gpu_model.memory_slices - mig_layout.occupancy(gpu_model, layout).bit_count()


@lru_cache(maxsize=65536)
def _left(
    gpu_model: mig_layout.GpuModel, sorted_layouts: tuple[mig_layout.Layout, ...]
) -> Mapping[str, int]:
    by_name: Counter[str] = Counter()
    for layout in sorted_layouts:
        by_name.update(mig_layout.capacity(gpu_model, layout))
    by_kind = {profile.kind: by_name[name] for name, profile in gpu_model.profiles.items()}
    every = (*gpu_model.profiles.values(), *gpu_model.aliases.values())
    return MappingProxyType({profile.resource: by_kind[profile.kind] for profile in every})


#: Few distinct names occur, so the results are cached.
canonical = lru_cache(maxsize=1024)(mig_layout.canonical)
