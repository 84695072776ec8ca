"""GPUs that are cut to order: what is held on each, what lies idle, what is left.

Counted afresh from API objects whenever they change: the pods' annotations say what is held, the
operator's answer says what exists. Nothing is free because we failed to read who holds it::

    an instance whose place cannot be read    every idle instance of its profile counts as held;
                                              the whole node does, where too few are known
    places that contradict each other         the whole GPU is held
    a GPU that rests after a failed cut       the same

An instance that exists and that nobody holds is *idle*. It is in nobody's way: whoever gets its
slices has it destroyed first.
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

#: A GPU of which nothing can be had: no profile has this name, so it takes every slice.
BLOCKED: Final[mig_layout.Layout] = (("?", 0),)


class Allocation(Protocol):
    """What a pod holds (``ledger.Holding``)."""

    @property
    def numbers(self) -> tuple[int, ...]:
        """Whole GPUs by index."""

    @property
    def unknown(self) -> int:
        """Whole GPUs of unknown index."""

    @property
    def spots(self) -> tuple[MigPlacement, ...]:
        """Instances whose place is known."""


class DynamicGpus(msgspec.Struct, frozen=True):
    """The GPUs of one node: the layout that is held on each, and the idle instances beside it."""

    board: mig_layout.GpuModel
    held: tuple[mig_layout.Layout, ...]
    idle: tuple[frozenset[mig_layout.Slot], ...]

    @property
    def signature(self) -> tuple[mig_layout.Layout, ...]:
        """The layouts without the GPUs' numbers: nodes of one signature have the same room."""
        return tuple(sorted(self.held))

    @property
    def left(self) -> Mapping[str, int]:
        """For each resource, how many more instances of it alone could be held."""
        return _left(self.board, self.signature)

    @property
    def free_slices(self) -> int:
        """Memory slices that nobody holds."""
        return sum(_free(self.board, layout) for layout in self.held)


def count(
    cuttable: DynamicMig,
    pods: Iterable[tuple[Pod, Allocation]],
    instances: Iterable[MigInstance],
    resting: frozenset[int],
) -> DynamicGpus:
    """What the node's GPUs come to."""
    slots: list[list[mig_layout.Slot]] = [[] for _ in range(cuttable.count)]
    blocked = set(resting)
    lost: dict[str, int] = {}
    for pod, holding in pods:
        blocked.update(range(cuttable.count) if holding.unknown else holding.numbers)
        for resource, amount in pod.gpu_requests.items():
            if well_known.is_mig(resource):
                profile = canonical(resource)
                lost[profile] = lost.get(profile, 0) + amount
        for spot in holding.spots:
            profile = canonical(spot.profile)
            if spot.gpu < cuttable.count:
                slots[spot.gpu].append((profile, spot.start))
                lost[profile] = lost.get(profile, 0) - 1
    idle = _idle(cuttable.count, slots, instances)
    for profile in [profile for profile, missing in lost.items() if missing > 0]:
        if not _hold_all(profile, lost[profile], slots, idle):
            blocked.update(range(cuttable.count))
    held = tuple(
        BLOCKED if gpu in blocked else _checked(cuttable.board, mig_layout.layout_of(layout))
        for gpu, layout in enumerate(slots)
    )
    return DynamicGpus(cuttable.board, held, _beside(cuttable.board, held, idle))


def _idle(
    gpus: int, slots: list[list[mig_layout.Slot]], instances: Iterable[MigInstance]
) -> list[set[mig_layout.Slot]]:
    idle: list[set[mig_layout.Slot]] = [set() for _ in range(gpus)]
    for one in instances:
        slot = (canonical(one.spot.profile), one.spot.start)
        is_there = one.state is PartitionState.READY and one.spot.gpu < gpus
        if is_there and slot not in slots[one.spot.gpu]:
            idle[one.spot.gpu].add(slot)
    return idle


def _hold_all(
    profile: str, missing: int, slots: list[list[mig_layout.Slot]], idle: list[set[mig_layout.Slot]]
) -> bool:
    """Count every idle instance of a profile as held; whether there are enough of them."""
    found = 0
    for gpu, there in enumerate(idle):
        same = [slot for slot in there if slot[0] == profile]
        there.difference_update(same)
        slots[gpu] += same
        found += len(same)
    return found >= missing


@lru_cache(maxsize=65536)
def _checked(board: mig_layout.GpuModel, layout: mig_layout.Layout) -> mig_layout.Layout:
    return layout if mig_layout.is_legal(board, layout) else BLOCKED


def _beside(
    board: mig_layout.GpuModel,
    held: tuple[mig_layout.Layout, ...],
    idle: list[set[mig_layout.Slot]],
) -> tuple[frozenset[mig_layout.Slot], ...]:
    """The idle instances that can be had: the ones that what is held leaves room for."""
    return tuple(
        frozenset(slot for slot in there if slot[1] in mig_layout.fits(board, layout, slot[0]))
        for layout, there in zip(held, idle, strict=True)
    )


@lru_cache(maxsize=65536)
def _free(board: mig_layout.GpuModel, layout: mig_layout.Layout) -> int:
    return board.memory_slices - mig_layout.occupancy(board, layout).bit_count()


@lru_cache(maxsize=65536)
def _left(
    board: mig_layout.GpuModel, signature: tuple[mig_layout.Layout, ...]
) -> Mapping[str, int]:
    by_name: Counter[str] = Counter()
    for layout in signature:
        by_name.update(mig_layout.capacity(board, layout))
    by_kind = {profile.kind: by_name[name] for name, profile in board.profiles.items()}
    every = (*board.profiles.values(), *board.aliases.values())
    return MappingProxyType({profile.resource: by_kind[profile.kind] for profile in every})


#: The same names come again and again.
canonical = lru_cache(maxsize=1024)(mig_layout.canonical)
