"""The layout of MIG instances on one GPU: existing and possible instances.

A **slot** is a profile's name and the memory slice where its instance begins; a **layout** is the
slots of one GPU, in the order of their starts. A layout is legal if its slots begin at allowed
starts, do not overlap, and use the media engines once. (On no board does the count of compute
slices restrict this further; the tests check it for all layouts.)

The used slices as bits, and the use of the media engines, determine everything that still fits:
every function here is a look-up by these two, cached as they occur. A slot that the board does not
know uses the whole board, because the remaining capacity is unknown.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from functools import cache, lru_cache
from types import MappingProxyType

from scheduler.model.mig.gpu_models import GPU_MODELS, gpu_model_of
from scheduler.model.mig.profile import (
    GpuModel,
    Profile,
    ProfileShape,
    canonical,
    compute_instances,
    is_profile,
    profile_of,
)

__all__ = [
    "GPU_MODELS",
    "GpuModel",
    "Layout",
    "Profile",
    "ProfileShape",
    "Slot",
    "canonical",
    "capacity",
    "compute_instances",
    "fits",
    "flaw",
    "gpu_model_of",
    "is_legal",
    "is_profile",
    "layout_of",
    "layouts",
    "occupancy",
    "profile_of",
    "with_slot",
]

#: (profile name, first memory slice)
Slot = tuple[str, int]
Layout = tuple[Slot, ...]


def layout_of(slots: Iterable[Slot]) -> Layout:
    """Slots in the canonical order of a layout: by start, then by name."""
    return tuple(sorted(slots, key=lambda slot: (slot[1], slot[0])))


def with_slot(layout: Layout, profile: str, start: int) -> Layout:
    """The layout with one more instance."""
    return layout_of((*layout, (profile, start)))


def occupancy(gpu_model: GpuModel, layout: Layout) -> int:
    """The memory slices in use, bit 0 for slice 0."""
    return _state(gpu_model, layout)[0]


def fits(gpu_model: GpuModel, layout: Layout, profile: str) -> tuple[int, ...]:
    """The starts at which one more instance of ``profile`` is legal and free."""
    known = profile_of(gpu_model, profile)
    if known is None:
        return ()
    taken, has_media = _state(gpu_model, layout)
    return () if has_media and known.kind.is_media else _free_starts(known.kind, taken)


def capacity(gpu_model: GpuModel, layout: Layout) -> Mapping[str, int]:
    """For each profile of the board how many more instances of it alone fit."""
    return _capacity(gpu_model, *_state(gpu_model, layout))


def is_legal(gpu_model: GpuModel, layout: Layout) -> bool:
    """Whether the layout can exist on the board."""
    return flaw(gpu_model, layout) is None


def flaw(gpu_model: GpuModel, layout: Layout) -> str | None:
    """The problem of a layout, in one line; None if it is legal."""
    taken, has_media = 0, False
    for name, start in layout:
        profile = profile_of(gpu_model, name)
        if profile is None:
            return f"{name} is no profile of {gpu_model.name}"
        if start not in profile.starts:
            starts = ", ".join(map(str, profile.starts))
            return f"{name} cannot begin at slice {start} of {gpu_model.name}, only at {starts}"
        if taken & profile.kind.mask(start):
            return f"{name} at slice {start} overlaps another instance"
        if has_media and profile.kind.is_media:
            return f"{name} needs the media engines, and another instance has them"
        taken |= profile.kind.mask(start)
        has_media |= profile.kind.is_media
    return None


def layouts(gpu_model: GpuModel, profiles: Iterable[Profile] | None = None) -> Iterator[Layout]:
    """Every legal layout of these profiles (else of the plain ones), the empty one first."""
    chosen = tuple(gpu_model.plain if profiles is None else profiles)

    def grow(layout: Layout, begin: int) -> Iterator[Layout]:
        yield layout
        for start in range(begin, gpu_model.memory_slices):
            for profile in chosen:
                if start in fits(gpu_model, layout, profile.name):
                    yield from grow((*layout, (profile.name, start)), start + profile.size)

    return grow((), 0)


@lru_cache(maxsize=65536)
def _state(gpu_model: GpuModel, layout: Layout) -> tuple[int, bool]:
    taken, has_media = 0, False
    for name, start in layout:
        profile = profile_of(gpu_model, name)
        if profile is None:
            return (1 << gpu_model.memory_slices) - 1, True
        taken |= profile.kind.mask(start)
        has_media |= profile.kind.is_media
    return taken, has_media


@cache
def _free_starts(kind: ProfileShape, taken: int) -> tuple[int, ...]:
    return tuple(start for start in kind.starts if not taken & kind.mask(start))


@cache
def _most(kind: ProfileShape, taken: int) -> int:
    """The largest number of instances of one kind that fit into the free slices."""
    return max(
        (1 + _most(kind, taken | kind.mask(start)) for start in _free_starts(kind, taken)),
        default=0,
    )


@cache
def _capacity(gpu_model: GpuModel, taken: int, has_media: bool) -> Mapping[str, int]:
    counts: dict[str, int] = {}
    for profile in gpu_model.profiles.values():
        most = min(_most(profile.kind, taken), profile.max_count)
        counts[profile.name] = 0 if has_media and profile.kind.is_media else most
    return MappingProxyType(counts)
