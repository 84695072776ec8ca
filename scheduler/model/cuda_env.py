"""How the devices of a map's entry are divided among the containers that request GPUs.

A pod without requests shows every container all its devices. Where containers request GPUs, each
gets its part, in order of declaration. Webhook and binder use this one rule, so a literal written
at admission and an annotation written at bind never disagree.
"""

from __future__ import annotations

import enum
from collections.abc import Sequence

import msgspec

from scheduler.model import well_known


class ContainerGpus(msgspec.Struct, frozen=True):
    """How many whole GPUs one container requests; an ordinary init container ends early."""

    count: int
    ends_early: bool = False


def devices_needed(wants: Sequence[ContainerGpus]) -> int:
    """How many devices a pod holds at once: init containers give theirs back before the rest."""
    staying = peak = 0
    for want in wants:
        if want.ends_early:
            peak = max(peak, staying + want.count)
        else:
            staying += want.count
    return max(staying, peak)


def device_shares(
    wants: Sequence[ContainerGpus], devices: Sequence[int]
) -> tuple[tuple[int, ...], ...]:
    """Each container's part of an entry's devices, in order of declaration, aligned with wants.

    The caller has checked that ``devices_needed(wants)`` equals the number of devices. Init
    containers come first in ``wants``, as they do in a pod; one that ends shares its devices
    with what starts after it.
    """
    assert devices_needed(wants) == len(devices), "the map's devices do not match the requests"
    shares: list[tuple[int, ...]] = []
    start = 0
    for want in wants:
        shares.append(tuple(devices[start : start + want.count]))
        if not want.ends_early:
            start += want.count
    return tuple(shares)


def share_key(position: int, total: int) -> str:
    """The annotation that carries one requesting container's share to its environment."""
    key = well_known.CUDA_VISIBLE_DEVICES
    return key if total == 1 else f"{key}.{position}"


class CudaMode(enum.Enum):
    """The values of the annotation ``gpu-scheduler.io/cuda-mode``."""

    #: Host numbers where the container sees the host's numbering, otherwise nothing.
    AUTO = "auto"
    #: Always host numbers.
    INDEX = "index"
    #: The container numbers its devices from 0.
    LOCAL = "local"
    #: Not implemented: refused at admission rather than ignored.
    UUID = "uuid"
    #: The environment is left alone.
    NONE = "none"


def visible(devices: Sequence[int], mode: CudaMode) -> str:
    """The text of ``CUDA_VISIBLE_DEVICES`` for these devices.

    >>> visible((3, 1), CudaMode.AUTO), visible((3, 1), CudaMode.LOCAL)
    ('3,1', '0,1')
    """
    numbers = range(len(devices)) if mode is CudaMode.LOCAL else devices
    return ",".join(map(str, numbers))
