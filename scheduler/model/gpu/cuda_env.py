"""Divides the devices of a map's entry among the containers that request GPUs.

Without requests every container sees all devices of the entry. With requests each requesting
container gets its part, in order of declaration. Webhook and binder use this rule, so a literal
from admission and an annotation from the Binding never disagree.
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
    """The number of whole GPUs that a container requests; an ordinary init container ends early."""

    count: int
    ends_early: bool = False


def devices_needed(wants: Sequence[ContainerGpus]) -> int:
    """The number of devices that a pod holds at once: init containers release theirs before the
    rest starts.
    """
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
    containers come first in ``wants``, as in a pod. An init container that ends shares its devices
    with containers that start later.
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
    """The annotation with one requesting container's share, which its environment reads."""
    key = well_known.CUDA_VISIBLE_DEVICES
    return key if total == 1 else f"{key}.{position}"


class CudaMode(enum.Enum):
    """The values of the annotation ``gpu-scheduler.io/cuda-mode``."""

    #: Host indexes if the container sees the host's numbering, otherwise no value.
    AUTO = "auto"
    #: Always host indexes.
    INDEX = "index"
    #: The container numbers its devices from 0.
    LOCAL = "local"
    #: Not implemented: rejected at admission rather than ignored.
    UUID = "uuid"
    #: The environment is not changed.
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
    """The pod's mode; an unknown one counts as ``auto`` (the webhook rejects it)."""
    return _CUDA_MODES.get(pod.annotations.get(well_known.CUDA_MODE, ""), CudaMode.AUTO)


def environment(
    pod: Pod,
    devices: Devices,
    entry: MapEntry | None = None,
    auto: CudaMode = CudaMode.AUTO,
) -> tuple[str | None, tuple[str, ...]]:
    """The value of CUDA_VISIBLE_DEVICES, and one per requesting container if several.

    On a kubelet-assigned node only the mode ``index`` sets the map's indexes. ``auto`` is what the
    mode ``auto`` means on the node.
    """
    if entry is None and not devices.numbers:
        return None, ()
    mode = cuda_mode(pod)
    mode = auto if mode is CudaMode.AUTO else mode
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
    """The device annotations that a Binding of this pod can contain on an index-assigned node."""
    if cuda_mode(pod) is CudaMode.NONE:
        return frozenset()
    requesting = sum(1 for want in container_gpus(pod) if want.count)
    shares = {share_key(position, requesting) for position in range(requesting)}
    return frozenset({well_known.CUDA_VISIBLE_DEVICES} | shares)


def lacks_environment(pod: Pod, value: str | None) -> bool:
    """Whether the pod needs this value of CUDA_VISIBLE_DEVICES and does not have it.

    A value from its author counts as set.
    """
    if value is None or cuda_mode(pod) is CudaMode.NONE:
        return False
    return all(c.cuda_literal is None and c.cuda_key is None for c in pod.containers)
