"""The shares of a node's GPUs, pool by pool: what each pod holds of them, and what is idle.

Shares are counted in GPUs, as exact fractions, and the sum of all shares and of all idle parts is
the number of GPUs. GPUs on which the places of the instances are unknown are one pool: together
they are never billed as more than they are.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import Final

import msgspec

from scheduler.model.cost.share import ZERO, billed, total
from scheduler.model.mig import layout as mig_layout
from scheduler.model.mig.profile import GpuModel
from scheduler.model.pods.pod import Pod


class Idle(msgspec.Struct, frozen=True):
    """GPUs that no pod holds.

    ``free`` would be given to a pod. ``stranded`` is the rest of a GPU with MIG instances into
    which no more profiles in use fit. ``failed`` GPUs exist and are given to no pod.
    ``unavailable`` ones are on a node that is cordoned or not ready, or of unknown state.
    """

    free: Fraction = ZERO
    stranded: Fraction = ZERO
    failed: Fraction = ZERO
    unavailable: Fraction = ZERO

    @property
    def total(self) -> Fraction:
        """All of them."""
        return self.free + self.stranded + self.failed + self.unavailable

    def plus(self, other: Idle) -> Idle:
        """The sum."""
        return Idle(
            self.free + other.free,
            self.stranded + other.stranded,
            self.failed + other.failed,
            self.unavailable + other.unavailable,
        )


NOTHING_IDLE: Final = Idle()


class HeldShare(msgspec.Struct, frozen=True):
    """What a pod holds of the GPUs of its node; without a pod a claim holds it.

    ``saved`` is what a degraded pod would hold more with the tier that it requested.
    """

    namespace: str
    pod: Pod | None
    share: Fraction
    is_degraded: bool = False
    saved: Fraction = ZERO


class CutGpu(msgspec.Struct, frozen=True):
    """A GPU with MIG instances and ``idle`` left; the profiles in use decide what is stranded."""

    gpu_model: GpuModel
    layout: mig_layout.Layout
    idle: Fraction


class Entry(msgspec.Struct, gc=False):
    """A share before it is billed: of a pod, or of a claim without one."""

    namespace: str
    pod: Pod | None
    share: Fraction
    is_degraded: bool = False


class Pools:
    """The GPUs of one node so far, pool by pool."""

    def __init__(self) -> None:
        self.gpus = 0
        self.idle = NOTHING_IDLE
        self.cut: list[CutGpu] = []
        #: The first entry of each pod or claim, with its billed sum.
        self.held: dict[str, Entry] = {}

    def add(self, gpus: int, entries: Sequence[Entry]) -> Fraction:
        """Count a pool; returns what is left of it. Held GPUs exist, whatever is advertised."""
        raw = [one.share for one in entries]
        every = total(raw)
        gpus = gpus or -(-every.numerator // every.denominator)
        self.gpus += gpus
        shares = raw if every <= gpus else billed(raw, gpus)
        for one, share in zip(entries, shares, strict=True):
            key = one.pod.uid if one.pod is not None else f"{one.namespace}/"
            known = self.held.get(key)
            if known is None:
                self.held[key] = Entry(one.namespace, one.pod, share, one.is_degraded)
            else:
                known.share += share
                known.is_degraded |= one.is_degraded
        return gpus - min(every, Fraction(gpus))

    def rest(self, left: Fraction, *, free: Fraction = ZERO, failed: Fraction = ZERO) -> Fraction:
        """Count idle GPUs, first the failed and the free ones; returns what is neither."""
        failed = min(left, failed)
        free = min(left - failed, max(ZERO, free))
        self.idle = self.idle.plus(Idle(free=free, failed=failed))
        return left - failed - free

    def unavailable(self, left: Fraction) -> None:
        """Count idle GPUs that no pod gets now."""
        if left:
            self.idle = self.idle.plus(Idle(unavailable=left))

    def stranded(self, left: Fraction) -> None:
        """Count the idle rest of GPUs that no instance covers."""
        if left:
            self.idle = self.idle.plus(Idle(stranded=left))
