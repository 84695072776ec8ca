"""The share of a GPU that a MIG instance takes, as an exact fraction.

The larger of compute share and memory share counts: an instance of 1g.20gb takes one of seven
compute slices and two of eight memory slices of an A100 80 GB, so a quarter of the GPU cannot be
given to another pod.
"""

from __future__ import annotations

from collections.abc import Iterable
from fractions import Fraction
from functools import lru_cache
from typing import Final

from scheduler.model.mig import layout as mig_layout
from scheduler.model.mig.profile import (
    GpuModel,
    ProfileShape,
    compute_instances,
    nominal_mib,
    profile_of,
    size_key,
)

ZERO: Final = Fraction(0)
ONE: Final = Fraction(1)
#: Compute slices of a board whose model is unknown.
_SEVENTHS: Final = 7


@lru_cache(maxsize=4096)
def slice_share(gpu_model: GpuModel | None, profile: str, memory_mib: int = 0) -> Fraction:
    """The share of one instance; at most 1.

    Without a known board it is computed from the name and the memory of one GPU, if that is known.

    >>> from scheduler.model.mig.gpu_models import GPU_MODELS
    >>> a100 = GPU_MODELS["A100-80"]
    >>> [str(slice_share(a100, name)) for name in ("1g.10gb", "1g.20gb", "4g.40gb")]
    ['1/7', '1/4', '4/7']
    >>> str(slice_share(None, "2g.20gb", 81920))
    '2/7'
    """
    known = profile_of(gpu_model, profile) if gpu_model is not None else None
    part = compute_instances(profile)
    if gpu_model is None or known is None:
        return _by_name(profile, memory_mib)
    share = _share_of(gpu_model, known.kind)
    return share if part is None else share * min(ONE, Fraction(part, known.compute))


def _share_of(gpu_model: GpuModel, kind: ProfileShape) -> Fraction:
    return max(
        Fraction(kind.compute, gpu_model.compute_slices),
        Fraction(kind.size, gpu_model.memory_slices),
    )


def _by_name(profile: str, memory_mib: int) -> Fraction:
    compute = size_key(profile)[1]
    memory = Fraction(nominal_mib(profile), memory_mib) if memory_mib else ZERO
    found = max(Fraction(compute, _SEVENTHS), memory)
    return min(found, ONE) if found else ONE


class ShareSum:
    """An exact sum of many fractions with few denominators; much faster than adding them."""

    __slots__ = ("_numerators",)

    def __init__(self) -> None:
        self._numerators: dict[int, int] = {}

    def add(self, share: Fraction, times: int = 1) -> None:
        """Add a share so many times."""
        below = share.denominator
        self._numerators[below] = self._numerators.get(below, 0) + share.numerator * times

    @property
    def value(self) -> Fraction:
        """The sum."""
        if not self._numerators:
            return ZERO
        first, *others = (Fraction(above, below) for below, above in self._numerators.items())
        return sum(others, first)


def total(shares: Iterable[Fraction]) -> Fraction:
    """The sum of shares.

    >>> str(total([Fraction(1, 7), Fraction(1, 2), Fraction(1, 7)]))
    '11/14'
    """
    found = ShareSum()
    for one in shares:
        found.add(one)
    return found.value


def billed(shares: Iterable[Fraction], gpus: int = 1) -> list[Fraction]:
    """The shares as they are billed: never more than the GPUs together.

    >>> [str(one) for one in billed([Fraction(4, 7), Fraction(1, 2)])]
    ['8/15', '7/15']
    """
    found = list(shares)
    every = total(found)
    if every <= gpus:
        return found
    return [one * gpus / every for one in found]


def usable_share(
    gpu_model: GpuModel, layout: mig_layout.Layout, profiles: Iterable[str]
) -> Fraction:
    """The largest share that more instances of these profiles can take beside a layout.

    >>> from scheduler.model.mig.gpu_models import GPU_MODELS
    >>> a100 = GPU_MODELS["A100-80"]
    >>> [str(usable_share(a100, (("4g.40gb", 0),), names)) for names in (["4g.40gb"], ["3g.40gb"])]
    ['0', '1/2']
    """
    known = (profile_of(gpu_model, name) for name in profiles)
    kinds = frozenset(one.kind for one in known if one is not None)
    taken = mig_layout.occupancy(gpu_model, layout)
    has_media = any(
        found is None or found.kind.is_media
        for found in (profile_of(gpu_model, name) for name, _ in layout)
    )
    return _fill(gpu_model, kinds, taken, has_media)


@lru_cache(maxsize=65536)
def _fill(
    gpu_model: GpuModel, kinds: frozenset[ProfileShape], taken: int, has_media: bool
) -> Fraction:
    best = ZERO
    for kind in kinds:
        if kind.is_media and has_media:
            continue
        for start in kind.starts:
            if not taken & kind.mask(start):
                more = _fill(gpu_model, kinds, taken | kind.mask(start), has_media or kind.is_media)
                best = max(best, _share_of(gpu_model, kind) + more)
    return best
