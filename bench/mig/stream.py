"""Streams of MIG requests on 100 A100-80GB, and the result of a policy on one.

A loss system: requests arrive at random (Poisson), each of a profile drawn from a mix, run for an
exponential time of mean 1, and are lost if they cannot be placed at once. Every policy gets the
same arrivals, profiles and running times.
"""

from __future__ import annotations

import heapq
import random
from collections.abc import Iterator
from typing import Final, Protocol

import msgspec

GPUS: Final = 100
SLICES: Final = 8
#: Profiles with their memory slices, in the order of the mixes.
PROFILES: Final = {
    "7g.80gb": 8,
    "4g.40gb": 4,
    "3g.40gb": 4,
    "2g.20gb": 2,
    "1g.20gb": 2,
    "1g.10gb": 1,
}
MIXES: Final[dict[str, tuple[float, ...]]] = {
    "uniform": (1 / 6,) * 6,
    "skew-small": (0.05, 0.10, 0.10, 0.20, 0.25, 0.30),
    "skew-big": (0.30, 0.25, 0.20, 0.10, 0.10, 0.05),
    "bimodal": (0.30, 0.15, 0.05, 0.05, 0.15, 0.30),
}
#: The compared columns: mixes at loads, as a share of all memory slices.
COLUMNS: Final = (
    ("uniform", 1.0),
    ("uniform", 1.2),
    ("skew-small", 1.2),
    ("skew-big", 1.2),
    ("bimodal", 1.0),
    ("bimodal", 1.2),
)
WARM_UP: Final = 10.0


class Request(msgspec.Struct, frozen=True, gc=False):
    """One arrival."""

    number: int
    at: float
    profile: str
    runs: float


class Policy(Protocol):
    """A placement policy; a request is identified by its number."""

    #: Number of requests that were migrated so far.
    moves: int

    def place(self, request: Request) -> bool:
        """Place it now or never."""

    def end(self, number: int) -> None:
        """A placed request ends."""


class Outcome(msgspec.Struct, frozen=True):
    """Percent of accepted requests, percent of used slices over time, and migrations per accepted
    request; without the warm-up.
    """

    accepted: float
    slices: float
    moves: float


def stream(mix: str, load: float, seed: int, duration: float) -> Iterator[Request]:
    """The arrivals of one column and seed."""
    rng = random.Random(f"{mix} {load} {seed}")
    weights = MIXES[mix]
    sizes = tuple(PROFILES.values())
    mean = sum(weight * size for weight, size in zip(weights, sizes, strict=True))
    rate = load * GPUS * SLICES / mean
    kinds = tuple(PROFILES)
    now = rng.expovariate(rate)
    number = 0
    while now < duration:
        yield Request(number, now, rng.choices(kinds, weights)[0], rng.expovariate(1.0))
        number += 1
        now += rng.expovariate(rate)


class _Meter:
    """Used slices, integrated over time."""

    def __init__(self) -> None:
        self._held = 0
        self._at = 0.0
        self._area = 0.0

    def change(self, now: float, slices: int) -> None:
        """Change the number of used slices."""
        self._area += self._held * max(0.0, now - max(self._at, WARM_UP))
        self._at = now
        self._held += slices

    def percent(self, end: float) -> float:
        """The share until the end."""
        self.change(end, 0)
        return 100 * self._area / (GPUS * SLICES) / (end - WARM_UP)


def run(policy: Policy, requests: Iterator[Request], duration: float) -> Outcome:
    """Run a stream."""
    ends: list[tuple[float, int, int]] = []
    meter = _Meter()
    offered = accepted = moved = 0

    def end_until(now: float) -> None:
        while ends and ends[0][0] <= now:
            at, number, slices = heapq.heappop(ends)
            policy.end(number)
            meter.change(at, -slices)

    for request in requests:
        end_until(request.at)
        before = policy.moves
        is_placed = policy.place(request)
        slices = PROFILES[request.profile]
        if is_placed:
            meter.change(request.at, slices)
            heapq.heappush(ends, (request.at + request.runs, request.number, slices))
        if request.at >= WARM_UP:
            offered += 1
            accepted += is_placed
            moved += policy.moves - before
    end_until(duration)
    return Outcome(100 * accepted / offered, meter.percent(duration), moved / accepted)
