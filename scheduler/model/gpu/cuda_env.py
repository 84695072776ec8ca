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
from scheduler.model.gpu.device import Devices
from scheduler.model.gpu.gpu_map import MapEntry
from scheduler.model.pods.pod import Pod, Role


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


_CUDA_MODES = {mode.value: mode for mode in CudaMode}


def container_gpus(pod: Pod) -> tuple[ContainerGpus, ...]:
    """Whole GPUs per container, in order of declaration (init containers first)."""
    return tuple(
        ContainerGpus(container.devices.get(well_known.GPU, 0), container.role is Role.INIT)
        for container in pod.containers
    )


def cuda_mode(pod: Pod) -> CudaMode:
    """The pod's mode; an unknown one counts as ``auto`` (the webhook refuses it)."""
    return _CUDA_MODES.get(pod.annotations.get(well_known.CUDA_MODE, ""), CudaMode.AUTO)


def environment(
    pod: Pod, devices: Devices, entry: MapEntry | None = None
) -> tuple[str | None, tuple[str, ...]]:
    """The value of CUDA_VISIBLE_DEVICES, and one per requesting container if several.

    Where the kubelet picks, the map's numbers are told only to a pod that insists on them.
    """
    mode = cuda_mode(pod)
    insists = mode in (CudaMode.INDEX, CudaMode.LOCAL) and pod.requests.get(well_known.GPU, 0) > 0
    numbers = devices.numbers or (entry.devices if entry and insists else ())
    if not numbers or mode is CudaMode.NONE:
        return None, ()
    value = visible(numbers, mode)
    requesting = [want for want in container_gpus(pod) if want.count]
    if len(requesting) < 2:
        return value, ()
    shares = device_shares(requesting, numbers)
    return value, tuple(visible(share, mode) for share in shares)


def keys_offered(pod: Pod) -> frozenset[str]:
    """The annotations with devices that a Binding of this pod can carry, given numbers."""
    if cuda_mode(pod) is CudaMode.NONE:
        return frozenset()
    requesting = sum(1 for want in container_gpus(pod) if want.count)
    shares = {share_key(position, requesting) for position in range(requesting)}
    return frozenset({well_known.CUDA_VISIBLE_DEVICES} | shares)


def is_untold(pod: Pod, value: str | None) -> bool:
    """Whether the pod wants to be told this value of CUDA_VISIBLE_DEVICES, and was not.

    A value of its author's counts as told.
    """
    if value is None or cuda_mode(pod) is CudaMode.NONE:
        return False
    return all(c.cuda_literal is None and c.cuda_key is None for c in pod.containers)
