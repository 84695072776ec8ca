"""The devices assigned to a pod, and their annotation on the pod.

The annotation ``gpu-scheduler.io/devices`` is a list joined by ``"; "``::

    gpu:0,1          these GPUs, by index (index-assigned nodes)
    gpu x 2          two GPUs, chosen by the kubelet (kubelet-assigned nodes)
    gpu.shared x 1   one share of a GPU, by the name that the device plugin gives to shares
    2g.20gb x 1      one MIG instance, chosen by the kubelet
    2g.20gb@0/4      the MIG instance that begins at memory slice 4 of GPU 0 (dynamic MIG nodes)
    claim:gpu-0      the DRA devices of its claims, by name
"""

from __future__ import annotations

import re
from typing import Final

import msgspec

from scheduler.model.limits import DEVICES_LENGTH_MAX

#: The DRA devices that the annotation names.
CLAIMED_MAX: Final = 32
_COUNT = re.compile(r"([A-Za-z0-9._+-]{1,63}) x ([1-9][0-9]{0,5})")
_MIG_PLACEMENT = re.compile(r"([a-z0-9.+-]{1,40})@(0|[1-9][0-9]{0,3})/(0|[1-9][0-9]?)")
_CLAIMED = re.compile(r"claim:([a-z0-9-]{1,63}(?:,[a-z0-9-]{1,63}){0,31})")
_NUMBERS = re.compile(r"gpu:((?:0|[1-9][0-9]{0,8})(?:,(?:0|[1-9][0-9]{0,8})){0,255})")


class MigPlacement(msgspec.Struct, frozen=True, gc=False, order=True):
    """One MIG instance: its GPU, its first slice, and its profile."""

    gpu: int
    start: int
    profile: str

    def __str__(self) -> str:
        return f"{self.profile}@{self.gpu}/{self.start}"


class Devices(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """Assigned devices: GPUs by ``numbers`` (host indexes), MIG instances by ``mig_placements``
    where the scheduler chooses them, the rest by ``counts`` of a profile. ``claimed`` are the names
    of DRA devices, at most CLAIMED_MAX.
    """

    numbers: tuple[int, ...] = ()
    counts: tuple[tuple[str, int], ...] = ()
    mig_placements: tuple[MigPlacement, ...] = msgspec.field(default=(), name="spots")
    claimed: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.numbers or self.counts or self.mig_placements or self.claimed)


def format_devices(devices: Devices) -> str:
    """The annotation's text.

    >>> format_devices(Devices(numbers=(0, 1), counts=(("1g.10gb", 2),)))
    'gpu:0,1; 1g.10gb x 2'
    >>> format_devices(Devices(mig_placements=(MigPlacement(0, 4, "2g.20gb"),)))
    '2g.20gb@0/4'
    """
    parts = [f"gpu:{join_numbers(devices.numbers)}"] if devices.numbers else []
    parts += [str(mig_placement) for mig_placement in devices.mig_placements]
    parts += [f"{profile} x {count}" for profile, count in devices.counts]
    parts += [f"claim:{','.join(devices.claimed)}"] if devices.claimed else []
    return "; ".join(parts)


def parse_devices(text: str) -> Devices | None:
    """The inverse; None for any other text, which counts as unknown devices."""
    if len(text) > DEVICES_LENGTH_MAX:
        return None
    numbers: tuple[int, ...] = ()
    counts: list[tuple[str, int]] = []
    mig_placements: list[MigPlacement] = []
    claimed: tuple[str, ...] = ()
    for part in text.split("; "):
        if found := _NUMBERS.fullmatch(part):
            if numbers:
                return None
            numbers = tuple(int(number) for number in found[1].split(","))
        elif found := _COUNT.fullmatch(part):
            counts.append((found[1], int(found[2])))
        elif found := _CLAIMED.fullmatch(part):
            if claimed:
                return None
            claimed = tuple(found[1].split(","))
        elif found := _MIG_PLACEMENT.fullmatch(part):
            mig_placements.append(MigPlacement(int(found[2]), int(found[3]), found[1]))
        else:
            return None
    if len(set(numbers)) != len(numbers) or len(set(mig_placements)) != len(mig_placements):
        return None
    return Devices(numbers, tuple(counts), tuple(mig_placements), claimed)


def join_numbers(numbers: tuple[int, ...]) -> str:
    """``(2, 0)`` -> ``2,0``: the order is the user's."""
    return ",".join(map(str, numbers))
