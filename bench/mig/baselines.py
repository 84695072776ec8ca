"""Other policies for the same requests: first fit, best fit, FGD, and random.

    first-fit   the first GPU with room, the first start there
    best-fit    the GPU with the fewest free slices, at the start that blocks the fewest other
                starts ("best index")
    fgd         the smallest growth of free slices that a uniform mix cannot use (Weng et al.,
                ATC '23, for slices of one GPU)
    random      any GPU with room, any start there
    repack      no policy but a bound: a request is placed if all placed ones and itself would
                fit after any number of migrations

The geometry is repeated here, independently of the product's tables.
"""

from __future__ import annotations

import random
from bisect import bisect_left, insort
from collections.abc import Callable
from typing import Final

from bench.mig.stream import GPUS, PROFILES, SLICES, Request

STARTS: Final = {
    "7g.80gb": (0,),
    "4g.40gb": (0,),
    "3g.40gb": (0, 4),
    "2g.20gb": (0, 2, 4),
    "1g.20gb": (0, 2, 4, 6),
    "1g.10gb": (0, 1, 2, 3, 4, 5, 6),
}
#: The score of a start for these used slices: lower is better.
Mark = tuple[float, ...]


def mask(profile: str, start: int) -> int:
    """The slices of an instance, as bits."""
    return ((1 << PROFILES[profile]) - 1) << start


def starts(taken: int, profile: str) -> tuple[int, ...]:
    """The starts at which an instance still fits."""
    return tuple(start for start in STARTS[profile] if not taken & mask(profile, start))


def ways(taken: int) -> int:
    """The number of ways to place one more instance."""
    return sum(len(starts(taken, profile)) for profile in PROFILES)


def fragments(taken: int) -> float:
    """Free slices that a profile drawn uniformly cannot use."""
    free = SLICES - taken.bit_count()
    unfit = sum(1 for profile in PROFILES if not starts(taken, profile))
    return free * unfit / len(PROFILES)


def best_fit(taken: int, profile: str, start: int) -> Mark:
    """GPUs with the fewest free slices first, then the start that leaves the most ways, then the
    highest one.
    """
    return (SLICES - taken.bit_count(), -ways(taken | mask(profile, start)), -start)


def fgd(taken: int, profile: str, start: int) -> Mark:
    """Smallest growth of unusable slices."""
    return (round(fragments(taken | mask(profile, start)) - fragments(taken), 9),)


class Pool:
    """The used slices of every GPU, and their requests."""

    def __init__(self) -> None:
        self.taken = [0] * GPUS
        self.moves = 0
        self._held: dict[int, tuple[int, int]] = {}

    def hold(self, request: Request, gpu: int, start: int) -> None:
        """Add an instance."""
        bits = mask(request.profile, start)
        self._held[request.number] = gpu, bits
        self.change(gpu, self.taken[gpu] | bits)

    def end(self, number: int) -> None:
        """Remove an instance."""
        gpu, bits = self._held.pop(number)
        self.change(gpu, self.taken[gpu] & ~bits)

    def change(self, gpu: int, taken: int) -> None:
        """Set the used slices of a GPU."""
        self.taken[gpu] = taken


class FirstFit(Pool):
    """The first GPU, the first start."""

    def place(self, request: Request) -> bool:
        """Place it now or never."""
        for gpu, taken in enumerate(self.taken):
            found = _STARTS[request.profile][taken]
            if found:
                self.hold(request, gpu, found[0])
                return True
        return False


class Random(Pool):
    """Any GPU, any start."""

    def __init__(self, seed: int) -> None:
        super().__init__()
        self._rng = random.Random(seed)

    def place(self, request: Request) -> bool:
        """Place it now or never."""
        table = _STARTS[request.profile]
        able = [gpu for gpu, taken in enumerate(self.taken) if table[taken]]
        if not able:
            return False
        gpu = self._rng.choice(able)
        self.hold(request, gpu, self._rng.choice(table[self.taken[gpu]]))
        return True


class Scored(Pool):
    """The GPU and start with the lowest score; of equal ones the lowest GPU."""

    def __init__(self, mark: Callable[[int, str, int], Mark]) -> None:
        self._of: dict[int, list[int]] = {0: list(range(GPUS))}
        self._order = {profile: _ranking(profile, mark) for profile in PROFILES}
        super().__init__()

    def place(self, request: Request) -> bool:
        """Place it now or never."""
        for equal in self._order[request.profile]:
            able = [(self._of[taken][0], start) for taken, start in equal if self._of.get(taken)]
            if able:
                self.hold(request, *min(able))
                return True
        return False

    def change(self, gpu: int, taken: int) -> None:
        """Set the used slices of a GPU."""
        old = self._of[self.taken[gpu]]
        del old[bisect_left(old, gpu)]
        insort(self._of.setdefault(taken, []), gpu)
        super().change(gpu, taken)


class Repack:
    """Only the numbers of instances count, as if all of them were placed again for each request.

    The best packing has a closed form. A 7g takes a GPU, a 4g the left half of one, a 3g a right
    half or else a left one. A left half is two pairs of slices, a right one a pair, and slices 6
    and 7, which are a 1g.20gb or a 1g. A pair is a 2g, a 1g.20gb or two 1g.
    """

    def __init__(self) -> None:
        self.moves = 0
        self._count = dict.fromkeys(PROFILES, 0)
        self._held: dict[int, str] = {}

    def place(self, request: Request) -> bool:
        """Place it now or never."""
        self._count[request.profile] += 1
        if not self._is_possible():
            self._count[request.profile] -= 1
            return False
        self._held[request.number] = request.profile
        return True

    def end(self, number: int) -> None:
        """Remove an instance."""
        self._count[self._held.pop(number)] -= 1

    def _is_possible(self) -> bool:
        count = self._count
        right = GPUS - count["7g.80gb"]
        left = right - count["4g.40gb"]
        rights = min(count["3g.40gb"], right)
        right -= rights
        left -= count["3g.40gb"] - rights
        last = min(count["1g.20gb"], right)  # at slice 6, where no 2g begins
        pairs = 2 * left + right - count["2g.20gb"] - (count["1g.20gb"] - last)
        return left >= 0 and pairs >= 0 and 2 * pairs + right - last >= count["1g.10gb"]


def _ranking(profile: str, mark: Callable[[int, str, int], Mark]) -> list[list[tuple[int, int]]]:
    """(used slices, start) in groups of equal scores, the best group first; one start for each."""
    groups: dict[Mark, list[tuple[int, int]]] = {}
    for taken in range(1 << SLICES):
        marks = [(mark(taken, profile, start), start) for start in starts(taken, profile)]
        if marks:
            best, start = min(marks)
            groups.setdefault(best, []).append((taken, start))
    return [groups[key] for key in sorted(groups)]


_STARTS: Final = {
    profile: tuple(starts(taken, profile) for taken in range(1 << SLICES)) for profile in PROFILES
}
